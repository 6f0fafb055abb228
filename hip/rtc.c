// One compilation by hiprtc or NVRTC. It may end the process: only a child runs it.
#include "native.h"

#include <signal.h>
#include <stdlib.h>

// take reads one of a program's outputs, its size first, into new memory.
static int take(rtc_program program, rtc_status (*size)(rtc_program, size_t *), rtc_status (*get)(rtc_program, char *), char **text, size_t *bytes)
{
	*bytes = 0;
	int status = size(program, bytes);
	if (status)
		return status;
	*text = calloc(1, *bytes + 1);
	if (!*text)
		return 1; // RTC's out of memory
	return get(program, *text);
}

struct rtc_output rtc_run(const struct rtc_api *api, const char *source, const char *name, int count, const char *const *options)
{
	// A crash ends the process at once, with only the compiler's words on standard error.
	static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
	for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
		signal(deadly[i], SIG_DFL);
	struct rtc_output out = {0};
	rtc_program program = NULL;
	out.call = "CreateProgram";
	out.status = api->create(&program, source, name, 0, NULL, NULL);
	if (out.status)
		return out;
	out.call = "CompileProgram";
	out.status = api->compile(program, count, options);
	if (take(program, api->log_size, api->log, &out.log, &out.log_bytes))
		out.log_bytes = 0; // a compilation is not worse for want of its log
	if (!out.status) {
		out.call = "GetCode";
		out.status = take(program, api->code_size, api->code, &out.code, &out.code_bytes);
	}
	api->destroy(&program);
	return out;
}

int rtc_version(const struct rtc_api *api, int *major, int *minor)
{
	return api->version(major, minor);
}

const char *rtc_error(const struct rtc_api *api, int status)
{
	const char *text = api->error_text(status);
	return text ? text : "";
}
