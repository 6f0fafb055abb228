// The functions of a GPU library that this package calls, as a table that is filled at run time: nothing of any GPU is
// linked or included. HIP and the CUDA driver agree on most signatures; where they do not, each has fields of its own.
//
// The types below are the libraries' types by size and kind. The binding test compiles this header against the real
// headers, with the real types in their place (GPU_TYPES defined), and compares every prototype and constant.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifndef GPU_TYPES
typedef int gpu_status;
typedef int gpu_device;
typedef int gpu_device_attribute;
typedef int gpu_function_attribute;
typedef int gpu_copy_kind;
typedef int gpu_capture_mode;
typedef uint64_t gpu_address;
typedef void *gpu_primary;
typedef void *gpu_stream;
typedef void *gpu_module;
typedef void *gpu_function;
typedef void *gpu_event;
typedef void *gpu_graph;
typedef void *gpu_graph_node;
typedef void *gpu_graph_exec;
typedef void *hip_pointer; // where HIP says void * and CUDA CUdeviceptr
typedef void hip_properties;
typedef int rtc_status;
typedef void *rtc_program;
typedef const char *const *rtc_strings;
#endif

// Values that we pass or read. The same in all releases of a library.
enum {
	GPU_STREAM_NON_BLOCKING = 1,
	GPU_EVENT_DEFAULT = 0,
	GPU_HOST_DEFAULT = 0,
	GPU_CAPTURE_THREAD_LOCAL = 1,
	GPU_COPY_TO_DEVICE = 1,
	GPU_COPY_TO_HOST = 2,
	GPU_COPY_ANY = 4,

	GPU_FUNCTION_MAX_THREADS = 0,
	GPU_FUNCTION_SHARED_BYTES = 1,
	GPU_FUNCTION_LOCAL_BYTES = 3,
	GPU_FUNCTION_REGISTERS = 4,
	GPU_FUNCTION_MAX_DYNAMIC_SHARED = 8,

	GPU_ARGUMENTS_POINTER = 1,
	GPU_ARGUMENTS_SIZE = 2,
	HIP_ARGUMENTS_END = 3,
	CUDA_ARGUMENTS_END = 0,

	GPU_OUT_OF_MEMORY = 2,
	GPU_NO_DEVICE = 100,

	HIP_UNITS = 63, HIP_WAVE_SIZE = 87, HIP_LDS_PER_BLOCK = 74, HIP_LDS_OPT_IN = 75, HIP_L2_BYTES = 19,
	HIP_INTEGRATED = 16, HIP_MAJOR = 23, HIP_MINOR = 61, HIP_THREADS_PER_UNIT = 57,
	CUDA_UNITS = 16, CUDA_WAVE_SIZE = 10, CUDA_LDS_PER_BLOCK = 8, CUDA_LDS_OPT_IN = 97, CUDA_L2_BYTES = 38,
	CUDA_INTEGRATED = 18, CUDA_MAJOR = 75, CUDA_MINOR = 76, CUDA_THREADS_PER_UNIT = 39,

	// hipGetDeviceProperties, by its plain name, writes the layout of ROCm 5 in all releases seen. Newer headers rename the
	// call to get their longer structure; in case a release gives that one to the plain name, both places are read.
	HIP_PROPERTIES_ROOM = 4096,
	HIP_ARCH_OFFSET = 396,
	HIP_ARCH_OFFSET_R0600 = 1160,
	HIP_ARCH_BYTES = 256,
};

enum gpu_dialect { GPU_HIP, GPU_CUDA };

struct gpu_api {
	gpu_status (*init)(unsigned flags);
	gpu_status (*driver_version)(int *version);
	gpu_status (*device_count)(int *count);
	gpu_status (*device_name)(char *name, int room, gpu_device device);
	gpu_status (*device_memory)(size_t *bytes, gpu_device device);
	gpu_status (*device_attribute)(int *value, gpu_device_attribute attribute, gpu_device device);

	gpu_status (*memory_info)(size_t *free, size_t *total);
	gpu_status (*host_alloc)(void **memory, size_t bytes, unsigned flags);
	gpu_status (*host_free)(void *memory);
	gpu_status (*memset8)(gpu_address to, unsigned char value, size_t bytes, gpu_stream stream);

	gpu_status (*stream_create)(gpu_stream *stream, unsigned flags);
	gpu_status (*stream_destroy)(gpu_stream stream);
	gpu_status (*stream_sync)(gpu_stream stream);
	gpu_status (*event_create)(gpu_event *event, unsigned flags);
	gpu_status (*event_destroy)(gpu_event event);
	gpu_status (*event_record)(gpu_event event, gpu_stream stream);
	gpu_status (*event_sync)(gpu_event event);
	gpu_status (*event_elapsed)(float *milliseconds, gpu_event start, gpu_event stop);

	gpu_status (*module_load)(gpu_module *module, const void *code);
	gpu_status (*module_unload)(gpu_module module);
	gpu_status (*module_function)(gpu_function *function, gpu_module module, const char *name);
	gpu_status (*function_attribute)(int *value, gpu_function_attribute attribute, gpu_function function);
	gpu_status (*occupancy)(int *blocks, gpu_function function, int threads, size_t dynamic_shared);
	gpu_status (*launch)(gpu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
		unsigned block_z, unsigned shared_bytes, gpu_stream stream, void **parameters, void **extra);
	gpu_status (*launch_together)(gpu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
		unsigned block_z, unsigned shared_bytes, gpu_stream stream, void **parameters);

	gpu_status (*capture_begin)(gpu_stream stream, gpu_capture_mode mode);
	gpu_status (*capture_end)(gpu_stream stream, gpu_graph *graph);
	gpu_status (*graph_nodes)(gpu_graph graph, gpu_graph_node *nodes, size_t *count);
	gpu_status (*graph_instantiate)(gpu_graph_exec *exec, gpu_graph graph, unsigned long long flags);
	gpu_status (*graph_launch)(gpu_graph_exec exec, gpu_stream stream);
	gpu_status (*graph_destroy)(gpu_graph graph);
	gpu_status (*graph_exec_destroy)(gpu_graph_exec exec);

	struct {
		gpu_status (*set_device)(int device);
		gpu_status (*runtime_version)(int *version);
		gpu_status (*properties)(hip_properties *properties, int device);
		gpu_status (*alloc)(hip_pointer *memory, size_t bytes);
		gpu_status (*free)(hip_pointer memory);
		gpu_status (*host_address)(hip_pointer *address, void *memory, unsigned flags);
		gpu_status (*copy)(void *to, const void *from, size_t bytes, gpu_copy_kind kind, gpu_stream stream);
		const char *(*error_name)(gpu_status status);
		const char *(*error_text)(gpu_status status);
	} hip;
	struct {
		gpu_status (*device_get)(gpu_device *device, int index);
		gpu_status (*primary_retain)(gpu_primary *primary, gpu_device device);
		gpu_status (*primary_release)(gpu_device device);
		gpu_status (*set_current)(gpu_primary primary);
		gpu_status (*alloc)(gpu_address *memory, size_t bytes);
		gpu_status (*free)(gpu_address memory);
		gpu_status (*host_address)(gpu_address *address, void *memory, unsigned flags);
		gpu_status (*copy_in)(gpu_address to, const void *from, size_t bytes, gpu_stream stream);
		gpu_status (*copy_out)(void *to, gpu_address from, size_t bytes, gpu_stream stream);
		gpu_status (*copy)(gpu_address to, gpu_address from, size_t bytes, gpu_stream stream);
		gpu_status (*function_set)(gpu_function function, gpu_function_attribute attribute, int value);
		gpu_status (*error_name)(gpu_status status, const char **name);
		gpu_status (*error_text)(gpu_status status, const char **text);
	} cuda;
};

// A run-time compiler: hiprtc or NVRTC.
struct rtc_api {
	rtc_status (*version)(int *major, int *minor);
	rtc_status (*create)(rtc_program *program, const char *source, const char *name, int headers, rtc_strings texts, rtc_strings names);
	rtc_status (*compile)(rtc_program program, int count, rtc_strings options);
	rtc_status (*log_size)(rtc_program program, size_t *bytes);
	rtc_status (*log)(rtc_program program, char *log);
	rtc_status (*code_size)(rtc_program program, size_t *bytes);
	rtc_status (*code)(rtc_program program, char *code);
	rtc_status (*destroy)(rtc_program *program);
	const char *(*error_text)(rtc_status status);
};
