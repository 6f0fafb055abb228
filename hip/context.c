// The calls of a context, in terms of either library.
#include "native.h"

#include <stdio.h>
#include <string.h>

#define CALL_OF(api, field, ...) ((struct gpu_result){(api)->field(__VA_ARGS__), offsetof(struct gpu_api, field)})
#define CALL(field, ...) CALL_OF(&c->api, field, __VA_ARGS__)

// TRY leaves the function with the failed result.
#define TRY(result) \
	do { \
		struct gpu_result tried = result; \
		if (tried.status) \
			return tried; \
	} while (0)

static const struct gpu_result OK = {0, 0};

// The context that is current on this thread: both libraries keep that per thread.
static __thread uint64_t bound;

static struct gpu_result bind(struct gpu_context *c)
{
	if (bound == c->id)
		return OK;
	if (c->dialect == GPU_HIP)
		TRY(CALL(hip.set_device, c->index));
	else
		TRY(CALL(cuda.set_current, c->primary));
	bound = c->id;
	return OK;
}

void gpu_error(const struct gpu_api *api, enum gpu_dialect dialect, int status, char name[GPU_TEXT], char text[GPU_TEXT])
{
	const char *n = NULL, *t = NULL;
	if (dialect == GPU_HIP) {
		n = api->hip.error_name(status);
		t = api->hip.error_text(status);
	} else {
		api->cuda.error_name(status, &n);
		api->cuda.error_text(status, &t);
	}
	snprintf(name, GPU_TEXT, "%s", n ? n : "");
	snprintf(text, GPU_TEXT, "%s", t ? t : "");
}

struct gpu_result gpu_init(const struct gpu_api *api)
{
	return CALL_OF(api, init, 0);
}

struct gpu_result gpu_version(const struct gpu_api *api, enum gpu_dialect dialect, int *version)
{
	return dialect == GPU_HIP ? CALL_OF(api, hip.runtime_version, version) : CALL_OF(api, driver_version, version);
}

struct gpu_result gpu_count(const struct gpu_api *api, int *count)
{
	*count = 0;
	return CALL_OF(api, device_count, count);
}

// read_arch finds the architecture in the properties of whichever layout.
static void read_arch(const char *properties, char arch[256])
{
	static const int places[] = {HIP_ARCH_OFFSET, HIP_ARCH_OFFSET_R0600};
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		const char *text = properties + places[i];
		if (!strncmp(text, "gfx", 3) && memchr(text, 0, HIP_ARCH_BYTES)) {
			strcpy(arch, text);
			return;
		}
	}
}

struct gpu_result gpu_describe(const struct gpu_api *api, enum gpu_dialect dialect, int index, struct gpu_properties *p)
{
	memset(p, 0, sizeof *p);
	gpu_device device = index;
	if (dialect == GPU_HIP) {
		_Alignas(16) char properties[HIP_PROPERTIES_ROOM] = {0};
		TRY(CALL_OF(api, hip.properties, properties, index));
		read_arch(properties, p->arch);
	} else {
		TRY(CALL_OF(api, cuda.device_get, &device, index));
	}
	TRY(CALL_OF(api, device_name, p->name, sizeof p->name - 1, device));
	TRY(CALL_OF(api, device_memory, &p->memory, device));
	int is_hip = dialect == GPU_HIP;
	const struct {
		int attribute, *value, optional;
	} rows[] = {
		{is_hip ? HIP_UNITS : CUDA_UNITS, &p->units, 0},
		{is_hip ? HIP_WAVE_SIZE : CUDA_WAVE_SIZE, &p->wave_size, 0},
		{is_hip ? HIP_LDS_PER_BLOCK : CUDA_LDS_PER_BLOCK, &p->lds_per_block, 0},
		{is_hip ? HIP_LDS_OPT_IN : CUDA_LDS_OPT_IN, &p->lds_opt_in, 1},
		{is_hip ? HIP_L2_BYTES : CUDA_L2_BYTES, &p->l2_bytes, 1},
		{is_hip ? HIP_INTEGRATED : CUDA_INTEGRATED, &p->integrated, 1},
		{is_hip ? HIP_MAJOR : CUDA_MAJOR, &p->major, 0},
		{is_hip ? HIP_MINOR : CUDA_MINOR, &p->minor, 0},
		{is_hip ? HIP_THREADS_PER_UNIT : CUDA_THREADS_PER_UNIT, &p->threads_per_unit, 1},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct gpu_result r = CALL_OF(api, device_attribute, rows[i].value, rows[i].attribute, device);
		if (r.status && !rows[i].optional)
			return r;
		if (r.status)
			*rows[i].value = 0;
	}
	return OK;
}

struct gpu_result gpu_open(struct gpu_context *c)
{
	c->device = c->index;
	if (c->dialect == GPU_CUDA) {
		TRY(CALL(cuda.device_get, &c->device, c->index));
		TRY(CALL(cuda.primary_retain, &c->primary, c->device));
	}
	struct gpu_result r = bind(c);
	if (!r.status)
		r = CALL(stream_create, &c->stream, GPU_STREAM_NON_BLOCKING);
	if (r.status && c->dialect == GPU_CUDA)
		c->api.cuda.primary_release(c->device);
	return r;
}

struct gpu_result gpu_close(struct gpu_context *c)
{
	struct gpu_result r = bind(c);
	if (!r.status)
		r = CALL(stream_destroy, c->stream);
	if (c->dialect == GPU_CUDA) {
		struct gpu_result released = CALL(cuda.primary_release, c->device);
		if (!r.status)
			r = released;
	}
	return r;
}

struct gpu_result gpu_alloc(struct gpu_context *c, size_t bytes, uint64_t *address)
{
	TRY(bind(c));
	if (c->dialect == GPU_CUDA)
		return CALL(cuda.alloc, address, bytes);
	void *memory = NULL;
	struct gpu_result r = CALL(hip.alloc, &memory, bytes);
	*address = (uintptr_t)memory;
	return r;
}

struct gpu_result gpu_free(struct gpu_context *c, uint64_t address)
{
	TRY(bind(c));
	return c->dialect == GPU_HIP ? CALL(hip.free, (void *)(uintptr_t)address) : CALL(cuda.free, address);
}

struct gpu_result gpu_memory(struct gpu_context *c, size_t *free, size_t *total)
{
	TRY(bind(c));
	return CALL(memory_info, free, total);
}

struct gpu_result gpu_host_alloc(struct gpu_context *c, size_t bytes, void **memory, uint64_t *address)
{
	TRY(bind(c));
	TRY(CALL(host_alloc, memory, bytes, GPU_HOST_DEFAULT));
	struct gpu_result r;
	if (c->dialect == GPU_HIP) {
		void *seen = NULL;
		r = CALL(hip.host_address, &seen, *memory, 0);
		*address = (uintptr_t)seen;
	} else {
		r = CALL(cuda.host_address, address, *memory, 0);
	}
	if (r.status)
		c->api.host_free(*memory);
	else
		memset(*memory, 0, bytes);
	return r;
}

struct gpu_result gpu_host_free(struct gpu_context *c, void *memory)
{
	TRY(bind(c));
	return CALL(host_free, memory);
}

struct gpu_result gpu_copy_in(struct gpu_context *c, uint64_t to, const void *from, size_t bytes)
{
	TRY(bind(c));
	if (c->dialect == GPU_HIP)
		TRY(CALL(hip.copy, (void *)(uintptr_t)to, from, bytes, GPU_COPY_TO_DEVICE, c->stream));
	else
		TRY(CALL(cuda.copy_in, to, from, bytes, c->stream));
	return CALL(stream_sync, c->stream);
}

struct gpu_result gpu_copy_out(struct gpu_context *c, void *to, uint64_t from, size_t bytes)
{
	TRY(bind(c));
	if (c->dialect == GPU_HIP)
		TRY(CALL(hip.copy, to, (void *)(uintptr_t)from, bytes, GPU_COPY_TO_HOST, c->stream));
	else
		TRY(CALL(cuda.copy_out, to, from, bytes, c->stream));
	return CALL(stream_sync, c->stream);
}

struct gpu_result gpu_copy(struct gpu_context *c, uint64_t to, uint64_t from, size_t bytes)
{
	TRY(bind(c));
	if (c->dialect == GPU_HIP)
		return CALL(hip.copy, (void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes, GPU_COPY_ANY, c->stream);
	return CALL(cuda.copy, to, from, bytes, c->stream);
}

struct gpu_result gpu_memset(struct gpu_context *c, uint64_t to, unsigned char value, size_t bytes)
{
	TRY(bind(c));
	return CALL(memset8, to, value, bytes, c->stream);
}

struct gpu_result gpu_module_load(struct gpu_context *c, const void *code, gpu_module *module)
{
	TRY(bind(c));
	return CALL(module_load, module, code);
}

struct gpu_result gpu_module_unload(struct gpu_context *c, gpu_module module)
{
	TRY(bind(c));
	return CALL(module_unload, module);
}

struct gpu_result gpu_kernel_find(struct gpu_context *c, gpu_module module, const char *name, struct gpu_kernel *k)
{
	TRY(bind(c));
	TRY(CALL(module_function, &k->function, module, name));
	TRY(CALL(function_attribute, &k->max_threads, GPU_FUNCTION_MAX_THREADS, k->function));
	TRY(CALL(function_attribute, &k->shared_bytes, GPU_FUNCTION_SHARED_BYTES, k->function));
	TRY(CALL(function_attribute, &k->local_bytes, GPU_FUNCTION_LOCAL_BYTES, k->function));
	TRY(CALL(function_attribute, &k->registers, GPU_FUNCTION_REGISTERS, k->function));
	int dynamic = c->shared_limit - k->shared_bytes;
	if (c->dialect == GPU_CUDA && dynamic > 0) // CUDA gives more than 48 KiB only on request; HIP gives what there is
		return CALL(cuda.function_set, k->function, GPU_FUNCTION_MAX_DYNAMIC_SHARED, dynamic);
	return OK;
}

struct gpu_result gpu_occupancy(struct gpu_context *c, gpu_function function, int threads, size_t dynamic_shared, int *blocks)
{
	TRY(bind(c));
	return CALL(occupancy, blocks, function, threads, dynamic_shared);
}

struct gpu_result gpu_launch(struct gpu_context *c, gpu_function function, const unsigned size[6], unsigned shared, void *arguments, size_t bytes)
{
	TRY(bind(c));
	void *end = (void *)(uintptr_t)(c->dialect == GPU_HIP ? HIP_ARGUMENTS_END : CUDA_ARGUMENTS_END);
	void *extra[] = {(void *)(uintptr_t)GPU_ARGUMENTS_POINTER, arguments, (void *)(uintptr_t)GPU_ARGUMENTS_SIZE, &bytes, end};
	return CALL(launch, function, size[0], size[1], size[2], size[3], size[4], size[5], shared, c->stream, NULL, extra);
}

struct gpu_result gpu_launch_together(struct gpu_context *c, gpu_function function, const unsigned size[6], unsigned shared, void *argument)
{
	TRY(bind(c));
	void *parameters[] = {argument};
	return CALL(launch_together, function, size[0], size[1], size[2], size[3], size[4], size[5], shared, c->stream, parameters);
}

struct gpu_result gpu_sync(struct gpu_context *c)
{
	TRY(bind(c));
	return CALL(stream_sync, c->stream);
}

struct gpu_result gpu_capture_begin(struct gpu_context *c)
{
	TRY(bind(c));
	return CALL(capture_begin, c->stream, GPU_CAPTURE_THREAD_LOCAL);
}

struct gpu_result gpu_capture_end(struct gpu_context *c, struct gpu_graph_ready *ready)
{
	TRY(bind(c));
	gpu_graph graph = NULL;
	TRY(CALL(capture_end, c->stream, &graph));
	struct gpu_result r = CALL(graph_nodes, graph, NULL, &ready->nodes);
	if (!r.status)
		r = CALL(graph_instantiate, &ready->exec, graph, 0);
	struct gpu_result destroyed = CALL(graph_destroy, graph);
	return r.status ? r : destroyed;
}

struct gpu_result gpu_graph_launch(struct gpu_context *c, gpu_graph_exec exec)
{
	TRY(bind(c));
	return CALL(graph_launch, exec, c->stream);
}

struct gpu_result gpu_graph_free(struct gpu_context *c, gpu_graph_exec exec)
{
	TRY(bind(c));
	return CALL(graph_exec_destroy, exec);
}

struct gpu_result gpu_event_create(struct gpu_context *c, gpu_event *event)
{
	TRY(bind(c));
	return CALL(event_create, event, GPU_EVENT_DEFAULT);
}

struct gpu_result gpu_event_record(struct gpu_context *c, gpu_event event)
{
	TRY(bind(c));
	return CALL(event_record, event, c->stream);
}

struct gpu_result gpu_event_elapsed(struct gpu_context *c, gpu_event start, gpu_event stop, float *milliseconds)
{
	TRY(bind(c));
	TRY(CALL(event_sync, stop));
	return CALL(event_elapsed, milliseconds, start, stop);
}

struct gpu_result gpu_event_free(struct gpu_context *c, gpu_event event)
{
	TRY(bind(c));
	return CALL(event_destroy, event);
}
