// Which exported symbol fills which field of gpu.h's tables: SYMBOL(field, symbol, required). A required symbol that is
// missing makes the library unusable; an optional one costs a capability.
#pragma once

enum { GPU_OPTIONAL = 0, GPU_REQUIRED = 1 };

#define HIP_SYMBOLS(SYMBOL) \
	SYMBOL(init, hipInit, GPU_REQUIRED) \
	SYMBOL(driver_version, hipDriverGetVersion, GPU_REQUIRED) \
	SYMBOL(device_count, hipGetDeviceCount, GPU_REQUIRED) \
	SYMBOL(device_name, hipDeviceGetName, GPU_REQUIRED) \
	SYMBOL(device_memory, hipDeviceTotalMem, GPU_REQUIRED) \
	SYMBOL(device_attribute, hipDeviceGetAttribute, GPU_REQUIRED) \
	SYMBOL(memory_info, hipMemGetInfo, GPU_REQUIRED) \
	SYMBOL(host_alloc, hipHostMalloc, GPU_REQUIRED) \
	SYMBOL(host_free, hipHostFree, GPU_REQUIRED) \
	SYMBOL(memset8, hipMemsetD8Async, GPU_REQUIRED) \
	SYMBOL(stream_create, hipStreamCreateWithFlags, GPU_REQUIRED) \
	SYMBOL(stream_destroy, hipStreamDestroy, GPU_REQUIRED) \
	SYMBOL(stream_sync, hipStreamSynchronize, GPU_REQUIRED) \
	SYMBOL(event_create, hipEventCreateWithFlags, GPU_REQUIRED) \
	SYMBOL(event_destroy, hipEventDestroy, GPU_REQUIRED) \
	SYMBOL(event_record, hipEventRecord, GPU_REQUIRED) \
	SYMBOL(event_sync, hipEventSynchronize, GPU_REQUIRED) \
	SYMBOL(event_elapsed, hipEventElapsedTime, GPU_REQUIRED) \
	SYMBOL(module_load, hipModuleLoadData, GPU_REQUIRED) \
	SYMBOL(module_unload, hipModuleUnload, GPU_REQUIRED) \
	SYMBOL(module_function, hipModuleGetFunction, GPU_REQUIRED) \
	SYMBOL(function_attribute, hipFuncGetAttribute, GPU_REQUIRED) \
	SYMBOL(occupancy, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, GPU_OPTIONAL) \
	SYMBOL(launch, hipModuleLaunchKernel, GPU_REQUIRED) \
	SYMBOL(launch_together, hipModuleLaunchCooperativeKernel, GPU_OPTIONAL) \
	SYMBOL(capture_begin, hipStreamBeginCapture, GPU_OPTIONAL) \
	SYMBOL(capture_end, hipStreamEndCapture, GPU_OPTIONAL) \
	SYMBOL(graph_nodes, hipGraphGetNodes, GPU_OPTIONAL) \
	SYMBOL(graph_instantiate, hipGraphInstantiateWithFlags, GPU_OPTIONAL) \
	SYMBOL(graph_launch, hipGraphLaunch, GPU_OPTIONAL) \
	SYMBOL(graph_destroy, hipGraphDestroy, GPU_OPTIONAL) \
	SYMBOL(graph_exec_destroy, hipGraphExecDestroy, GPU_OPTIONAL) \
	SYMBOL(hip.set_device, hipSetDevice, GPU_REQUIRED) \
	SYMBOL(hip.runtime_version, hipRuntimeGetVersion, GPU_REQUIRED) \
	SYMBOL(hip.properties, hipGetDeviceProperties, GPU_REQUIRED) \
	SYMBOL(hip.alloc, hipMalloc, GPU_REQUIRED) \
	SYMBOL(hip.free, hipFree, GPU_REQUIRED) \
	SYMBOL(hip.host_address, hipHostGetDevicePointer, GPU_REQUIRED) \
	SYMBOL(hip.copy, hipMemcpyAsync, GPU_REQUIRED) \
	SYMBOL(hip.error_name, hipGetErrorName, GPU_REQUIRED) \
	SYMBOL(hip.error_text, hipGetErrorString, GPU_REQUIRED)

#define CUDA_SYMBOLS(SYMBOL) \
	SYMBOL(init, cuInit, GPU_REQUIRED) \
	SYMBOL(driver_version, cuDriverGetVersion, GPU_REQUIRED) \
	SYMBOL(device_count, cuDeviceGetCount, GPU_REQUIRED) \
	SYMBOL(device_name, cuDeviceGetName, GPU_REQUIRED) \
	SYMBOL(device_memory, cuDeviceTotalMem_v2, GPU_REQUIRED) \
	SYMBOL(device_attribute, cuDeviceGetAttribute, GPU_REQUIRED) \
	SYMBOL(memory_info, cuMemGetInfo_v2, GPU_REQUIRED) \
	SYMBOL(host_alloc, cuMemHostAlloc, GPU_REQUIRED) \
	SYMBOL(host_free, cuMemFreeHost, GPU_REQUIRED) \
	SYMBOL(memset8, cuMemsetD8Async, GPU_REQUIRED) \
	SYMBOL(stream_create, cuStreamCreate, GPU_REQUIRED) \
	SYMBOL(stream_destroy, cuStreamDestroy_v2, GPU_REQUIRED) \
	SYMBOL(stream_sync, cuStreamSynchronize, GPU_REQUIRED) \
	SYMBOL(event_create, cuEventCreate, GPU_REQUIRED) \
	SYMBOL(event_destroy, cuEventDestroy_v2, GPU_REQUIRED) \
	SYMBOL(event_record, cuEventRecord, GPU_REQUIRED) \
	SYMBOL(event_sync, cuEventSynchronize, GPU_REQUIRED) \
	SYMBOL(event_elapsed, cuEventElapsedTime, GPU_REQUIRED) \
	SYMBOL(module_load, cuModuleLoadData, GPU_REQUIRED) \
	SYMBOL(module_unload, cuModuleUnload, GPU_REQUIRED) \
	SYMBOL(module_function, cuModuleGetFunction, GPU_REQUIRED) \
	SYMBOL(function_attribute, cuFuncGetAttribute, GPU_REQUIRED) \
	SYMBOL(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor, GPU_OPTIONAL) \
	SYMBOL(launch, cuLaunchKernel, GPU_REQUIRED) \
	SYMBOL(launch_together, cuLaunchCooperativeKernel, GPU_OPTIONAL) \
	SYMBOL(capture_begin, cuStreamBeginCapture_v2, GPU_OPTIONAL) \
	SYMBOL(capture_end, cuStreamEndCapture, GPU_OPTIONAL) \
	SYMBOL(graph_nodes, cuGraphGetNodes, GPU_OPTIONAL) \
	SYMBOL(graph_instantiate, cuGraphInstantiateWithFlags, GPU_OPTIONAL) \
	SYMBOL(graph_launch, cuGraphLaunch, GPU_OPTIONAL) \
	SYMBOL(graph_destroy, cuGraphDestroy, GPU_OPTIONAL) \
	SYMBOL(graph_exec_destroy, cuGraphExecDestroy, GPU_OPTIONAL) \
	SYMBOL(cuda.device_get, cuDeviceGet, GPU_REQUIRED) \
	SYMBOL(cuda.primary_retain, cuDevicePrimaryCtxRetain, GPU_REQUIRED) \
	SYMBOL(cuda.primary_release, cuDevicePrimaryCtxRelease_v2, GPU_REQUIRED) \
	SYMBOL(cuda.set_current, cuCtxSetCurrent, GPU_REQUIRED) \
	SYMBOL(cuda.alloc, cuMemAlloc_v2, GPU_REQUIRED) \
	SYMBOL(cuda.free, cuMemFree_v2, GPU_REQUIRED) \
	SYMBOL(cuda.host_address, cuMemHostGetDevicePointer_v2, GPU_REQUIRED) \
	SYMBOL(cuda.copy_in, cuMemcpyHtoDAsync_v2, GPU_REQUIRED) \
	SYMBOL(cuda.copy_out, cuMemcpyDtoHAsync_v2, GPU_REQUIRED) \
	SYMBOL(cuda.copy, cuMemcpyAsync, GPU_REQUIRED) \
	SYMBOL(cuda.function_set, cuFuncSetAttribute, GPU_REQUIRED) \
	SYMBOL(cuda.error_name, cuGetErrorName, GPU_REQUIRED) \
	SYMBOL(cuda.error_text, cuGetErrorString, GPU_REQUIRED)

#define HIPRTC_SYMBOLS(SYMBOL) \
	SYMBOL(version, hiprtcVersion, GPU_REQUIRED) \
	SYMBOL(create, hiprtcCreateProgram, GPU_REQUIRED) \
	SYMBOL(compile, hiprtcCompileProgram, GPU_REQUIRED) \
	SYMBOL(log_size, hiprtcGetProgramLogSize, GPU_REQUIRED) \
	SYMBOL(log, hiprtcGetProgramLog, GPU_REQUIRED) \
	SYMBOL(code_size, hiprtcGetCodeSize, GPU_REQUIRED) \
	SYMBOL(code, hiprtcGetCode, GPU_REQUIRED) \
	SYMBOL(destroy, hiprtcDestroyProgram, GPU_REQUIRED) \
	SYMBOL(error_text, hiprtcGetErrorString, GPU_REQUIRED)

#define NVRTC_SYMBOLS(SYMBOL) \
	SYMBOL(version, nvrtcVersion, GPU_REQUIRED) \
	SYMBOL(create, nvrtcCreateProgram, GPU_REQUIRED) \
	SYMBOL(compile, nvrtcCompileProgram, GPU_REQUIRED) \
	SYMBOL(log_size, nvrtcGetProgramLogSize, GPU_REQUIRED) \
	SYMBOL(log, nvrtcGetProgramLog, GPU_REQUIRED) \
	SYMBOL(code_size, nvrtcGetCUBINSize, GPU_REQUIRED) \
	SYMBOL(code, nvrtcGetCUBIN, GPU_REQUIRED) \
	SYMBOL(destroy, nvrtcDestroyProgram, GPU_REQUIRED) \
	SYMBOL(error_text, nvrtcGetErrorString, GPU_REQUIRED)
