// Compiled, never run: our tables of functions and our constants against a library's own headers. The types of gpu.h are
// replaced by the real ones, so that a prototype is ours exactly when the compiler finds it so.
//   -DBIND_HIP | -DBIND_CUDA
#include <stddef.h>
#include <stdint.h>
#define GPU_TYPES
#define SAME(a, b) _Static_assert((long long)(a) == (long long)(b), #a " is not " #b)

#ifdef BIND_HIP
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

typedef hipError_t gpu_status;
typedef hipDevice_t gpu_device;
typedef hipDeviceAttribute_t gpu_device_attribute;
typedef hipFunction_attribute gpu_function_attribute;
typedef hipMemcpyKind gpu_copy_kind;
typedef hipStreamCaptureMode gpu_capture_mode;
typedef hipDeviceptr_t gpu_address;
typedef void *gpu_primary;
typedef hipStream_t gpu_stream;
typedef hipModule_t gpu_module;
typedef hipFunction_t gpu_function;
typedef hipEvent_t gpu_event;
typedef hipGraph_t gpu_graph;
typedef hipGraphNode_t gpu_graph_node;
typedef hipGraphExec_t gpu_graph_exec;
typedef void *hip_pointer;
typedef hipDeviceProp_t hip_properties; // by its newer name, where the header gives it one
typedef hiprtcResult rtc_status;
typedef hiprtcProgram rtc_program;
#if HIP_VERSION_MAJOR >= 7
typedef const char *const *rtc_strings;
#else
typedef const char **rtc_strings;
#endif
#define LIBRARY_SYMBOLS HIP_SYMBOLS
#define COMPILER_SYMBOLS HIPRTC_SYMBOLS
#endif

#ifdef BIND_CUDA
#include <cuda.h>
#include <nvrtc.h>

typedef CUresult gpu_status;
typedef CUdevice gpu_device;
typedef CUdevice_attribute gpu_device_attribute;
typedef CUfunction_attribute gpu_function_attribute;
typedef int gpu_copy_kind;
typedef CUstreamCaptureMode gpu_capture_mode;
typedef CUdeviceptr gpu_address;
typedef CUcontext gpu_primary;
typedef CUstream gpu_stream;
typedef CUmodule gpu_module;
typedef CUfunction gpu_function;
typedef CUevent gpu_event;
typedef CUgraph gpu_graph;
typedef CUgraphNode gpu_graph_node;
typedef CUgraphExec gpu_graph_exec;
typedef void *hip_pointer;
typedef void hip_properties;
typedef nvrtcResult rtc_status;
typedef nvrtcProgram rtc_program;
typedef const char *const *rtc_strings;
#define LIBRARY_SYMBOLS CUDA_SYMBOLS
#define COMPILER_SYMBOLS NVRTC_SYMBOLS
#endif

#include "../gpu.h"
#include "../symbols.h"

#define CHECK_IN(table, field, symbol) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), __typeof__(((struct table *)0)->field)), #symbol " has another prototype");
#define CHECK_LIBRARY(field, symbol, required) CHECK_IN(gpu_api, field, symbol)
#define CHECK_COMPILER(field, symbol, required) CHECK_IN(rtc_api, field, symbol)
LIBRARY_SYMBOLS(CHECK_LIBRARY)
COMPILER_SYMBOLS(CHECK_COMPILER)

// The production types are integers and pointers of these sizes.
SAME(sizeof(gpu_status), sizeof(int));
SAME(sizeof(gpu_device), sizeof(int));
SAME(sizeof(gpu_device_attribute), sizeof(int));
SAME(sizeof(gpu_function_attribute), sizeof(int));
SAME(sizeof(gpu_copy_kind), sizeof(int));
SAME(sizeof(gpu_capture_mode), sizeof(int));
SAME(sizeof(gpu_address), sizeof(uint64_t));
SAME(sizeof(gpu_stream), sizeof(void *));
SAME(sizeof(rtc_status), sizeof(int));

#ifdef BIND_HIP
SAME(GPU_STREAM_NON_BLOCKING, hipStreamNonBlocking);
SAME(GPU_EVENT_DEFAULT, hipEventDefault);
SAME(GPU_HOST_DEFAULT, hipHostMallocDefault);
SAME(GPU_CAPTURE_THREAD_LOCAL, hipStreamCaptureModeThreadLocal);
SAME(GPU_COPY_TO_DEVICE, hipMemcpyHostToDevice);
SAME(GPU_COPY_TO_HOST, hipMemcpyDeviceToHost);
SAME(GPU_COPY_ANY, hipMemcpyDefault);
SAME(GPU_FUNCTION_MAX_THREADS, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(GPU_FUNCTION_SHARED_BYTES, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(GPU_FUNCTION_LOCAL_BYTES, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(GPU_FUNCTION_REGISTERS, HIP_FUNC_ATTRIBUTE_NUM_REGS);
SAME(GPU_ARGUMENTS_POINTER, (uintptr_t)HIP_LAUNCH_PARAM_BUFFER_POINTER);
SAME(GPU_ARGUMENTS_SIZE, (uintptr_t)HIP_LAUNCH_PARAM_BUFFER_SIZE);
SAME(HIP_ARGUMENTS_END, (uintptr_t)HIP_LAUNCH_PARAM_END);
SAME(GPU_OUT_OF_MEMORY, hipErrorOutOfMemory);
SAME(GPU_NO_DEVICE, hipErrorNoDevice);
SAME(HIP_UNITS, hipDeviceAttributeMultiprocessorCount);
SAME(HIP_WAVE_SIZE, hipDeviceAttributeWarpSize);
SAME(HIP_LDS_PER_BLOCK, hipDeviceAttributeMaxSharedMemoryPerBlock);
SAME(HIP_LDS_OPT_IN, hipDeviceAttributeSharedMemPerBlockOptin);
SAME(HIP_L2_BYTES, hipDeviceAttributeL2CacheSize);
SAME(HIP_INTEGRATED, hipDeviceAttributeIntegrated);
SAME(HIP_MAJOR, hipDeviceAttributeComputeCapabilityMajor);
SAME(HIP_MINOR, hipDeviceAttributeComputeCapabilityMinor);
SAME(HIP_THREADS_PER_UNIT, hipDeviceAttributeMaxThreadsPerMultiProcessor);
#if HIP_VERSION_MAJOR >= 6
#undef hipGetDeviceProperties
#undef hipDeviceProp_t
#undef hipChooseDevice
#include <hip/hip_deprecated.h>
SAME(HIP_ARCH_OFFSET, offsetof(hipDeviceProp_tR0000, gcnArchName));
SAME(HIP_ARCH_BYTES, sizeof((hipDeviceProp_tR0000 *)0)->gcnArchName);
SAME(HIP_ARCH_OFFSET_R0600, offsetof(hipDeviceProp_tR0600, gcnArchName));
_Static_assert(sizeof(hipDeviceProp_tR0000) <= HIP_PROPERTIES_ROOM && sizeof(hipDeviceProp_tR0600) <= HIP_PROPERTIES_ROOM, "too little room");
#else
SAME(HIP_ARCH_OFFSET, offsetof(hipDeviceProp_t, gcnArchName));
SAME(HIP_ARCH_BYTES, sizeof((hipDeviceProp_t *)0)->gcnArchName);
_Static_assert(sizeof(hipDeviceProp_t) <= HIP_PROPERTIES_ROOM, "too little room");
#endif
#endif

#ifdef BIND_CUDA
SAME(GPU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(GPU_EVENT_DEFAULT, CU_EVENT_DEFAULT);
SAME(GPU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(GPU_FUNCTION_MAX_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(GPU_FUNCTION_SHARED_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(GPU_FUNCTION_LOCAL_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(GPU_FUNCTION_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(GPU_FUNCTION_MAX_DYNAMIC_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(GPU_ARGUMENTS_POINTER, (uintptr_t)CU_LAUNCH_PARAM_BUFFER_POINTER);
SAME(GPU_ARGUMENTS_SIZE, (uintptr_t)CU_LAUNCH_PARAM_BUFFER_SIZE);
SAME(CUDA_ARGUMENTS_END, (uintptr_t)CU_LAUNCH_PARAM_END);
SAME(GPU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(GPU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CUDA_UNITS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CUDA_WAVE_SIZE, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME(CUDA_LDS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME(CUDA_LDS_OPT_IN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(CUDA_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(CUDA_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME(CUDA_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CUDA_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CUDA_THREADS_PER_UNIT, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
#endif
