// Opens libraries and fills the tables of gpu.h from their symbols.
#define _GNU_SOURCE
#include "native.h"
#include "symbols.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define GPU_ROW(field, symbol, required) {#symbol, offsetof(struct gpu_api, field), required},
#define RTC_ROW(field, symbol, required) {#symbol, offsetof(struct rtc_api, field), required},

static const struct gpu_symbol hip[] = {HIP_SYMBOLS(GPU_ROW)};
static const struct gpu_symbol cuda[] = {CUDA_SYMBOLS(GPU_ROW)};
static const struct gpu_symbol hiprtc[] = {HIPRTC_SYMBOLS(RTC_ROW)};
static const struct gpu_symbol nvrtc[] = {NVRTC_SYMBOLS(RTC_ROW)};

#define LENGTH(a) (int)(sizeof(a) / sizeof((a)[0]))

const struct gpu_symbol *gpu_symbols(enum gpu_library which, int *count)
{
	switch (which) {
	case GPU_LIBRARY_HIP: *count = LENGTH(hip); return hip;
	case GPU_LIBRARY_CUDA: *count = LENGTH(cuda); return cuda;
	case GPU_LIBRARY_HIPRTC: *count = LENGTH(hiprtc); return hiprtc;
	case GPU_LIBRARY_NVRTC: *count = LENGTH(nvrtc); return nvrtc;
	}
	*count = 0;
	return NULL;
}

void *gpu_library_open(const char *file, char error[GPU_TEXT], char path[GPU_TEXT])
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	struct link_map *map = NULL;
	if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map)) {
		const char *text = dlerror();
		snprintf(error, GPU_TEXT, "%s", text ? text : "no reason given");
		if (library)
			dlclose(library);
		return NULL;
	}
	snprintf(path, GPU_TEXT, "%s", map->l_name);
	return library;
}

void gpu_library_close(void *library)
{
	dlclose(library);
}

void gpu_resolve(void *library, enum gpu_library which, void *api, unsigned char *found)
{
	int count;
	const struct gpu_symbol *table = gpu_symbols(which, &count);
	for (int i = 0; i < count; i++) {
		void *symbol = dlsym(library, table[i].name);
		memcpy((char *)api + table[i].offset, &symbol, sizeof symbol);
		found[i] = symbol != NULL;
	}
}
