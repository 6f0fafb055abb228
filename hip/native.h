// What Go calls: loading libraries into the tables of gpu.h, and one function for each thing a context does.
#pragma once

#include "gpu.h"

enum { GPU_TEXT = 512 };

// ---- load.c

// One row of a library's table.
struct gpu_symbol {
	const char *name;
	size_t offset; // of the field in struct gpu_api or rtc_api
	int required;
};

enum gpu_library { GPU_LIBRARY_HIP, GPU_LIBRARY_CUDA, GPU_LIBRARY_HIPRTC, GPU_LIBRARY_NVRTC };

// gpu_symbols returns the table of a library and its length.
const struct gpu_symbol *gpu_symbols(enum gpu_library which, int *count);
// gpu_library_open returns NULL with the loader's text in error, or a handle with the file's full name in path.
void *gpu_library_open(const char *file, char error[GPU_TEXT], char path[GPU_TEXT]);
void gpu_library_close(void *library);
// gpu_resolve fills api, a struct gpu_api or rtc_api, and notes for each row of the table whether it was found.
void gpu_resolve(void *library, enum gpu_library which, void *api, unsigned char *found);

// ---- context.c

struct gpu_context {
	struct gpu_api api;
	enum gpu_dialect dialect;
	int index;
	uint64_t id; // never used twice in a process
	gpu_device device;
	gpu_primary primary; // CUDA only
	gpu_stream stream;
	int shared_limit; // bytes that a block may have
};

// The outcome of a wrapper: the library's status and which of its functions gave it, by its offset in struct gpu_api.
struct gpu_result {
	int status;
	size_t call;
};

struct gpu_properties {
	char name[256];
	char arch[256]; // HIP only, as the library spells it
	size_t memory;
	int units, wave_size, lds_per_block, lds_opt_in, l2_bytes, integrated, major, minor, threads_per_unit;
};

struct gpu_kernel {
	gpu_function function;
	int max_threads, shared_bytes, local_bytes, registers;
};

struct gpu_graph_ready {
	gpu_graph_exec exec;
	size_t nodes;
};

// gpu_error copies the library's name and text of a status.
void gpu_error(const struct gpu_api *api, enum gpu_dialect dialect, int status, char name[GPU_TEXT], char text[GPU_TEXT]);

struct gpu_result gpu_init(const struct gpu_api *api);
struct gpu_result gpu_version(const struct gpu_api *api, enum gpu_dialect dialect, int *version);
struct gpu_result gpu_count(const struct gpu_api *api, int *count);
struct gpu_result gpu_describe(const struct gpu_api *api, enum gpu_dialect dialect, int index, struct gpu_properties *p);

// All functions below make the context current on the calling thread first, where another one or none was.
struct gpu_result gpu_open(struct gpu_context *c);
struct gpu_result gpu_close(struct gpu_context *c);
struct gpu_result gpu_alloc(struct gpu_context *c, size_t bytes, uint64_t *address);
struct gpu_result gpu_free(struct gpu_context *c, uint64_t address);
struct gpu_result gpu_memory(struct gpu_context *c, size_t *free, size_t *total);
struct gpu_result gpu_host_alloc(struct gpu_context *c, size_t bytes, void **memory, uint64_t *address);
struct gpu_result gpu_host_free(struct gpu_context *c, void *memory);
// gpu_copy_in and gpu_copy_out return when the bytes have arrived; gpu_copy only queues.
struct gpu_result gpu_copy_in(struct gpu_context *c, uint64_t to, const void *from, size_t bytes);
struct gpu_result gpu_copy_out(struct gpu_context *c, void *to, uint64_t from, size_t bytes);
struct gpu_result gpu_copy(struct gpu_context *c, uint64_t to, uint64_t from, size_t bytes);
struct gpu_result gpu_memset(struct gpu_context *c, uint64_t to, unsigned char value, size_t bytes);
struct gpu_result gpu_module_load(struct gpu_context *c, const void *code, gpu_module *module);
struct gpu_result gpu_module_unload(struct gpu_context *c, gpu_module module);
struct gpu_result gpu_kernel_find(struct gpu_context *c, gpu_module module, const char *name, struct gpu_kernel *kernel);
struct gpu_result gpu_occupancy(struct gpu_context *c, gpu_function function, int threads, size_t dynamic_shared, int *blocks);
struct gpu_result gpu_launch(struct gpu_context *c, gpu_function function, const unsigned size[6], unsigned shared, void *arguments, size_t bytes);
// gpu_launch_together takes the kernel's one parameter, a structure.
struct gpu_result gpu_launch_together(struct gpu_context *c, gpu_function function, const unsigned size[6], unsigned shared, void *argument);
struct gpu_result gpu_sync(struct gpu_context *c);
struct gpu_result gpu_capture_begin(struct gpu_context *c);
struct gpu_result gpu_capture_end(struct gpu_context *c, struct gpu_graph_ready *graph);
struct gpu_result gpu_graph_launch(struct gpu_context *c, gpu_graph_exec exec);
struct gpu_result gpu_graph_free(struct gpu_context *c, gpu_graph_exec exec);
struct gpu_result gpu_event_create(struct gpu_context *c, gpu_event *event);
struct gpu_result gpu_event_record(struct gpu_context *c, gpu_event event);
struct gpu_result gpu_event_elapsed(struct gpu_context *c, gpu_event start, gpu_event stop, float *milliseconds);
struct gpu_result gpu_event_free(struct gpu_context *c, gpu_event event);

// ---- rtc.c

// What a compilation gave. The caller frees code and log.
struct rtc_output {
	int status; // 0: compiled
	const char *call; // the step that failed
	char *code, *log;
	size_t code_bytes, log_bytes;
};

struct rtc_output rtc_run(const struct rtc_api *api, const char *source, const char *name, int count, const char *const *options);
int rtc_version(const struct rtc_api *api, int *major, int *minor);
const char *rtc_error(const struct rtc_api *api, int status);
