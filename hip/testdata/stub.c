// A GPU library without a GPU, for the tests: it runs two kernels on the processor, keeps a stream's work until it is asked
// for, and records graphs. The test compiles it in the shapes that libraries have had:
//   -DHIP | -DCUDA    which library
//   -DDRIVER          exports the driver's functions
//   -DRTC             exports the run-time compiler's functions
//   -DINIT=n -DCOUNT=n -DVERSION=n   what init returns, how many devices there are, the version
//   -DARCH_AT=n       where the properties hold the architecture
// A symbol is left out by defining it as another name.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef INIT
#define INIT 0
#endif
#ifndef COUNT
#define COUNT 1
#endif
#ifndef VERSION
#define VERSION 60443484
#endif
#ifndef ARCH_AT
#define ARCH_AT 396
#endif
#ifndef ARCH
#define ARCH "gfx942:sramecc+:xnack-"
#endif

typedef void *P;
enum { OOM = 2, INVALID = 1, NOT_FOUND = 500, FAULT = 719, NO_CONTEXT = 201, MEMORY = 1 << 20, MAX_WORK = 64 };

#ifdef DRIVER
struct block {
	struct block *next;
	size_t bytes;
	char data[];
};

struct work {
	enum { COPY, FILL, KERNEL } kind;
	void *to;
	const void *from;
	size_t bytes;
	int value;
	char arguments[64];
	const char *kernel;
};

struct list {
	int count;
	struct work work[MAX_WORK];
};

static __thread int current = -1;
static struct block *blocks;
static size_t used;
static int faulted;

struct stream {
	struct list queue, recorded;
	int capturing;
};

#define NEED_CONTEXT \
	if (current < 0) \
		return NO_CONTEXT; \
	if (faulted) \
		return FAULT

static void run(struct work *w)
{
	if (w->kind == COPY)
		memmove(w->to, w->from, w->bytes);
	else if (w->kind == FILL)
		memset(w->to, w->value, w->bytes);
	else if (!strcmp(w->kernel, "fault"))
		faulted = 1;
	else { // scale(uint64 address, int32 count, int32 factor)
		int32_t *data, n[2];
		memcpy(&data, w->arguments, 8);
		memcpy(n, w->arguments + 8, 8);
		for (int i = 0; i < n[0]; i++)
			data[i] *= n[1];
	}
}

static int flush(struct stream *s)
{
	for (int i = 0; i < s->queue.count; i++)
		run(&s->queue.work[i]);
	s->queue.count = 0;
	return faulted ? FAULT : 0;
}

static int queue(struct stream *s, struct work w)
{
	struct list *l = s->capturing ? &s->recorded : &s->queue;
	if (l->count == MAX_WORK)
		return INVALID;
	l->work[l->count++] = w;
	return 0;
}

static int init(unsigned flags) { return flags ? INVALID : INIT; }
static int version(int *v) { *v = VERSION; return 0; }
static int count(int *n) { *n = COUNT; return 0; }
static int name(char *to, int room, int d) { snprintf(to, room, "Stub GPU %d", d); return 0; }
static int total(size_t *b, int d) { *b = MEMORY + d; return 0; }

static int attribute(int *v, int a, int d)
{
	(void)d;
	static const int hip[][2] = {{63, 304}, {87, 64}, {74, 65536}, {19, 4 << 20}, {16, 0}, {23, 9}, {61, 4}, {57, 2048}};
	static const int cuda[][2] = {{16, 132}, {10, 32}, {8, 49152}, {97, 232448}, {38, 50 << 20}, {18, 0}, {75, 9}, {76, 0}, {39, 2048}};
#ifdef HIP
	const int(*rows)[2] = hip, n = sizeof hip / sizeof *hip;
	(void)cuda;
#else
	const int(*rows)[2] = cuda, n = sizeof cuda / sizeof *cuda;
	(void)hip;
#endif
	for (int i = 0; i < n; i++)
		if (rows[i][0] == a)
			return *v = rows[i][1], 0;
	return INVALID;
}

static int alloc(void **p, size_t bytes)
{
	NEED_CONTEXT;
	if (bytes > MEMORY - used)
		return OOM;
	struct block *b = malloc(sizeof *b + bytes);
	*b = (struct block){blocks, bytes};
	memset(b->data, 0xA5, bytes);
	blocks = b;
	used += bytes;
	*p = b->data;
	return 0;
}

static int release(void *p)
{
	NEED_CONTEXT;
	for (struct block **at = &blocks; *at; at = &(*at)->next)
		if ((*at)->data == p) {
			struct block *b = *at;
			*at = b->next;
			used -= b->bytes;
			free(b);
			return 0;
		}
	return INVALID;
}

static int info(size_t *f, size_t *t) { NEED_CONTEXT; *f = MEMORY - used; *t = MEMORY; return 0; }
static int host_alloc(void **p, size_t b, unsigned f) { (void)f; return alloc(p, b); }
static int host_address(void **to, void *p, unsigned f) { (void)f; *to = p; return 0; }

static int copy(void *to, const void *from, size_t b, int kind, struct stream *s)
{
	NEED_CONTEXT;
	if (s->capturing && kind != 4)
		return 900;
	return queue(s, (struct work){.kind = COPY, .to = to, .from = from, .bytes = b});
}

static int fill(void *to, unsigned char v, size_t b, struct stream *s)
{
	NEED_CONTEXT;
	return queue(s, (struct work){.kind = FILL, .to = to, .bytes = b, .value = v});
}

static int stream_create(struct stream **s, unsigned flags) { NEED_CONTEXT; (void)flags; *s = calloc(1, sizeof **s); return 0; }
static int stream_destroy(struct stream *s) { free(s); return 0; }
static int stream_sync(struct stream *s) { NEED_CONTEXT; return s->capturing ? 900 : flush(s); }

struct event { struct stream *stream; float at; };
static float now;
static int event_create(struct event **e, unsigned f) { NEED_CONTEXT; (void)f; *e = calloc(1, sizeof **e); return 0; }
static int event_destroy(struct event *e) { free(e); return 0; }
static int event_record(struct event *e, struct stream *s) { NEED_CONTEXT; e->stream = s; e->at = now += 1.5f; return 0; }
static int event_sync(struct event *e) { NEED_CONTEXT; return flush(e->stream); }
static int event_elapsed(float *ms, struct event *a, struct event *b) { *ms = b->at - a->at; return 0; }

static int module_load(char **m, const void *code) { NEED_CONTEXT; *m = strdup(code); return 0; }
static int module_unload(char *m) { free(m); return 0; }
static int function(const char **f, const char *m, const char *wanted)
{
	NEED_CONTEXT;
	static const char *const names[] = {"scale", "fault"};
	for (int i = 0; i < 2; i++)
		if (!strcmp(names[i], wanted) && strstr(m, wanted))
			return *f = names[i], 0;
	return NOT_FOUND;
}
static int function_attribute(int *v, int a, const char *f)
{
	(void)f;
	static const int values[] = {256, 1024, 0, 16, 37};
	if (a > 4)
		return INVALID;
	*v = values[a];
	return 0;
}
__attribute__((unused)) static int function_set(const char *f, int a, int v) { (void)f; return a == 8 && v == 232448 - 1024 ? 0 : INVALID; }
static int occupancy(int *n, const char *f, int threads, size_t shared) { (void)f; (void)shared; *n = 2048 / threads; return 0; }
static int launch(const char *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, struct stream *s, void **p, void **extra)
{
	NEED_CONTEXT;
	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
#ifdef HIP
	uintptr_t end = 3;
#else
	uintptr_t end = 0;
#endif
	size_t bytes = *(size_t *)extra[3];
	if (p || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)end || bytes > 64)
		return INVALID;
	struct work w = {.kind = KERNEL, .kernel = f};
	memcpy(w.arguments, extra[1], bytes);
	return queue(s, w);
}

static int launch_together(const char *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, struct stream *s, void **p)
{
	NEED_CONTEXT;
	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
	struct work w = {.kind = KERNEL, .kernel = f};
	memcpy(w.arguments, p[0], 16); // scale's
	return queue(s, w);
}

static int capture_begin(struct stream *s, int mode)
{
	NEED_CONTEXT;
	if (s->capturing || mode != 1)
		return INVALID;
	s->capturing = 1;
	s->recorded.count = 0;
	return 0;
}
static int capture_end(struct stream *s, struct list **g)
{
	NEED_CONTEXT;
	if (!s->capturing)
		return INVALID;
	s->capturing = 0;
	*g = malloc(sizeof **g);
	**g = s->recorded;
	return 0;
}
static int graph_nodes(struct list *g, void *nodes, size_t *n) { (void)nodes; *n = g->count; return 0; }
static int graph_instantiate(struct list **e, struct list *g, unsigned long long f) { *e = malloc(sizeof **e); **e = *g; return f ? INVALID : 0; }
static int graph_launch(struct list *g, struct stream *s)
{
	NEED_CONTEXT;
	for (int i = 0; i < g->count; i++)
		if (queue(s, g->work[i]))
			return INVALID;
	return 0;
}
static int graph_destroy(struct list *g) { free(g); return 0; }

static const char *text_of(int s) { return s == OOM ? "out of memory" : s == FAULT ? "unspecified launch failure" : s == 100 ? "no device is detected" : s == 101 ? "invalid device ordinal" : "some error"; }
static const char *name_of(int s) { return s == OOM ? "StubErrorOutOfMemory" : s == FAULT ? "StubErrorLaunchFailure" : s == 100 ? "StubErrorNoDevice" : s == 101 ? "StubErrorInvalidDevice" : "StubErrorOther"; }

#define EXPORT(symbol, target, result, parameters, arguments) \
	result symbol parameters { return target arguments; }

typedef size_t Z;
typedef unsigned U;
#define LAUNCH_P (P f, U a, U b, U c, U d, U e, U g, U h, P s, P p, P x)
#define LAUNCH_A (f, a, b, c, d, e, g, h, s, p, x)
#ifdef HIP
#define S(hip, cuda) hip
static int set_device(int d) { current = d; return d < COUNT ? 0 : 101; }
EXPORT(hipSetDevice, set_device, int, (int d), (d))
EXPORT(hipRuntimeGetVersion, version, int, (int *v), (v))
int hipGetDeviceProperties(char *p, int d)
{
	snprintf(p, 256, "Stub GPU %d", d);
	strcpy(p + ARCH_AT, ARCH);
	return 0;
}
EXPORT(hipMemcpyAsync, copy, int, (P t, P f, Z b, int k, P s), (t, f, b, k, s))
EXPORT(hipGetErrorName, name_of, const char *, (int s), (s))
EXPORT(hipGetErrorString, text_of, const char *, (int s), (s))
#else
#define S(hip, cuda) cuda
static int device_get(int *d, int i) { *d = i; return i < COUNT ? 0 : 101; }
static int retained;
static int retain(P *c, int d) { *c = (P)(uintptr_t)(100 + d); retained++; return 0; }
static int unretain(int d) { (void)d; retained--; return 0; }
static int set_current(P c) { current = (int)(uintptr_t)c - 100; return retained > 0 ? 0 : INVALID; }
EXPORT(cuDeviceGet, device_get, int, (int *d, int i), (d, i))
EXPORT(cuDevicePrimaryCtxRetain, retain, int, (P *c, int d), (c, d))
EXPORT(cuDevicePrimaryCtxRelease_v2, unretain, int, (int d), (d))
EXPORT(cuCtxSetCurrent, set_current, int, (P c), (c))
EXPORT(cuMemcpyHtoDAsync_v2, copy, int, (P t, P f, Z b, P s), (t, f, b, 1, s))
EXPORT(cuMemcpyDtoHAsync_v2, copy, int, (P t, P f, Z b, P s), (t, f, b, 2, s))
EXPORT(cuMemcpyAsync, copy, int, (P t, P f, Z b, P s), (t, f, b, 4, s))
EXPORT(cuFuncSetAttribute, function_set, int, (P f, int a, int v), (f, a, v))
int cuGetErrorName(int s, const char **n) { *n = name_of(s); return 0; }
int cuGetErrorString(int s, const char **n) { *n = text_of(s); return 0; }
#endif
EXPORT(S(hipInit, cuInit), init, int, (U f), (f))
EXPORT(S(hipDriverGetVersion, cuDriverGetVersion), version, int, (int *v), (v))
EXPORT(S(hipGetDeviceCount, cuDeviceGetCount), count, int, (int *n), (n))
EXPORT(S(hipDeviceGetName, cuDeviceGetName), name, int, (char *n, int r, int d), (n, r, d))
EXPORT(S(hipDeviceTotalMem, cuDeviceTotalMem_v2), total, int, (Z *b, int d), (b, d))
EXPORT(S(hipDeviceGetAttribute, cuDeviceGetAttribute), attribute, int, (int *v, int a, int d), (v, a, d))
EXPORT(S(hipMemGetInfo, cuMemGetInfo_v2), info, int, (Z *f, Z *t), (f, t))
EXPORT(S(hipMalloc, cuMemAlloc_v2), alloc, int, (P *p, Z b), (p, b))
EXPORT(S(hipFree, cuMemFree_v2), release, int, (P p), (p))
EXPORT(S(hipHostMalloc, cuMemHostAlloc), host_alloc, int, (P *p, Z b, U f), (p, b, f))
EXPORT(S(hipHostFree, cuMemFreeHost), release, int, (P p), (p))
EXPORT(S(hipHostGetDevicePointer, cuMemHostGetDevicePointer_v2), host_address, int, (P *t, P p, U f), (t, p, f))
EXPORT(S(hipMemsetD8Async, cuMemsetD8Async), fill, int, (P t, unsigned char v, Z b, P s), (t, v, b, s))
EXPORT(S(hipStreamCreateWithFlags, cuStreamCreate), stream_create, int, (P s, U f), (s, f))
EXPORT(S(hipStreamDestroy, cuStreamDestroy_v2), stream_destroy, int, (P s), (s))
EXPORT(S(hipStreamSynchronize, cuStreamSynchronize), stream_sync, int, (P s), (s))
EXPORT(S(hipEventCreateWithFlags, cuEventCreate), event_create, int, (P e, U f), (e, f))
EXPORT(S(hipEventDestroy, cuEventDestroy_v2), event_destroy, int, (P e), (e))
EXPORT(S(hipEventRecord, cuEventRecord), event_record, int, (P e, P s), (e, s))
EXPORT(S(hipEventSynchronize, cuEventSynchronize), event_sync, int, (P e), (e))
EXPORT(S(hipEventElapsedTime, cuEventElapsedTime), event_elapsed, int, (float *t, P a, P b), (t, a, b))
EXPORT(S(hipModuleLoadData, cuModuleLoadData), module_load, int, (P m, P c), (m, c))
EXPORT(S(hipModuleUnload, cuModuleUnload), module_unload, int, (P m), (m))
EXPORT(S(hipModuleGetFunction, cuModuleGetFunction), function, int, (P f, P m, const char *n), (f, m, n))
EXPORT(S(hipFuncGetAttribute, cuFuncGetAttribute), function_attribute, int, (int *v, int a, P f), (v, a, f))
EXPORT(S(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor), occupancy, int, (int *n, P f, int t, Z s), (n, f, t, s))
EXPORT(S(hipModuleLaunchKernel, cuLaunchKernel), launch, int, LAUNCH_P, LAUNCH_A)
EXPORT(S(hipModuleLaunchCooperativeKernel, cuLaunchCooperativeKernel), launch_together, int, (P f, U a, U b, U c, U d, U e, U g, U h, P s, P p), (f, a, b, c, d, e, g, h, s, p))
EXPORT(S(hipStreamBeginCapture, cuStreamBeginCapture_v2), capture_begin, int, (P s, int m), (s, m))
EXPORT(S(hipStreamEndCapture, cuStreamEndCapture), capture_end, int, (P s, P g), (s, g))
EXPORT(S(hipGraphGetNodes, cuGraphGetNodes), graph_nodes, int, (P g, P n, Z *c), (g, n, c))
EXPORT(S(hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags), graph_instantiate, int, (P e, P g, unsigned long long f), (e, g, f))
EXPORT(S(hipGraphLaunch, cuGraphLaunch), graph_launch, int, (P e, P s), (e, s))
EXPORT(S(hipGraphDestroy, cuGraphDestroy), graph_destroy, int, (P g), (g))
EXPORT(S(hipGraphExecDestroy, cuGraphExecDestroy), graph_destroy, int, (P e), (e))

#endif

#ifdef RTC
struct program {
	char *source, *code, log[200];
};
#ifdef HIP
#define R(name) hiprtc##name
#define ARCH_OPTION "--offload-arch="
#define GET_CODE_SIZE hiprtcGetCodeSize
#define GET_CODE hiprtcGetCode
#else
#define R(name) nvrtc##name
#define ARCH_OPTION "--gpu-architecture="
#define GET_CODE_SIZE nvrtcGetCUBINSize
#define GET_CODE nvrtcGetCUBIN
#endif
int R(Version)(int *a, int *b) { *a = 9; *b = 0; return 0; }
int R(CreateProgram)(struct program **p, const char *source, const char *name, int n, P h, P i)
{
	if (!name || n || h || i)
		return 2;
	*p = calloc(1, sizeof **p);
	(*p)->source = strdup(source);
	return 0;
}
int R(CompileProgram)(struct program *p, int n, const char *const *options)
{
	if (n < 1 || strncmp(options[0], ARCH_OPTION, strlen(ARCH_OPTION)))
		return 5;
	const char *arch = strchr(options[0], '=') + 1;
	if (!strcmp(arch, "abort")) {
		fprintf(stderr, "LLVM ERROR: Cannot select: intrinsic\n");
		abort();
	}
	if (!strcmp(arch, "hang"))
		for (;;)
			pause();
	if (!strcmp(arch, "exit"))
		exit(0);
	if (strstr(p->source, "#error")) {
		strcpy(p->log, "stub.hip:1:2: error: told so\n");
		return 6;
	}
	if (strstr(p->source, "#warning"))
		strcpy(p->log, "stub.hip:1:2: warning: told so\n");
	printf("a library that prints\n");
	asprintf(&p->code, "code of pid %d for %s, %d options: %s", getpid(), arch, n, p->source);
	return 0;
}
int R(GetProgramLogSize)(struct program *p, size_t *n) { *n = strlen(p->log) + 1; return 0; }
int R(GetProgramLog)(struct program *p, char *to) { strcpy(to, p->log); return 0; }
int GET_CODE_SIZE(struct program *p, size_t *n) { *n = strlen(p->code) + 1; return 0; }
int GET_CODE(struct program *p, char *to) { strcpy(to, p->code); return 0; }
int R(DestroyProgram)(struct program **p) { free((*p)->source); free((*p)->code); free(*p); *p = 0; return 0; }
const char *R(GetErrorString)(int s) { return s == 6 ? "STUB_ERROR_COMPILATION" : s == 5 ? "STUB_ERROR_INVALID_OPTION" : "STUB_ERROR"; }
#endif
