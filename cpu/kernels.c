// The tables of kernels, and the search for a weight's row.
#include "cpu.h"

#include <string.h>

#define FLOATS(isa) \
	void cpu_linear_##isa(const void *, int32_t, float *); \
	void cpu_rmsnorm_##isa(const void *, int32_t, float *); \
	void cpu_attention_##isa(const void *, int32_t, float *); \
	void cpu_dequant_##isa(float *, const struct cpu_weight *, int32_t)

#define TABLE(label, name, isa, ...) \
	static const struct cpu_kernels name = { \
		label, cpu_linear_##isa, cpu_rmsnorm_##isa, cpu_attention_##isa, cpu_dequant_##isa, {__VA_ARGS__}}

FLOATS(generic);
TABLE("generic", generic, generic, 0);
#define INTEGER(label, name, isa, columns, bytes) \
	void cpu_prepare_##name(const void *, int32_t, float *); \
	void cpu_integer_##name(const void *, int32_t, float *); \
	TABLE(label, name, isa, cpu_prepare_##name, cpu_integer_##name, CPU_TILE, 1, columns, bytes, 0, 0, 0)
#if defined(__x86_64__)
FLOATS(avx2);
FLOATS(avx512);
INTEGER("avx2", avx2, avx2, 64, 128);
INTEGER("avxvnni", avxvnni, avx2, 64, 128);
INTEGER("avx512", avx512, avx512, 128, 256);
INTEGER("avx512vnni", avx512vnni, avx512, 128, 256);
#if defined(__linux__)
void cpu_prepare_amx(const void *, int32_t, float *);
void cpu_tiles_amx(const void *, int32_t, float *);
TABLE("amx", amx, avx512, cpu_prepare_amx, cpu_tiles_amx, 32, 16, 128, 4 * 576, 1024, 128, 2 * 576);
#endif
#elif defined(__aarch64__)
INTEGER("neon-dotprod", neon_dotprod, generic, 128, 144);
INTEGER("neon-i8mm", neon_i8mm, generic, 128, 144);
#endif

static const struct cpu_kernels *const tables[] = {
	&generic,
#if defined(__x86_64__)
	&avx2,
	&avxvnni,
	&avx512,
	&avx512vnni,
#if defined(__linux__)
	&amx,
#endif
#elif defined(__aarch64__)
	&neon_dotprod,
	&neon_i8mm,
#endif
};

const struct cpu_kernels *cpu_find_kernels(const char *name)
{
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (!strcmp(tables[i]->name, name))
			return tables[i];
	return NULL;
}

struct cpu_row cpu_weight_row(const struct cpu_weight *w, int32_t row)
{
	const struct cpu_part *p = w->parts;
	while (row >= p->rows)
		row -= p++->rows;
	row = cpu_stored_row(p, row);
	return (struct cpu_row){
		.data = p->data + row * p->row_bytes,
		.scales = p->scales ? p->scales + (int64_t)row * p->groups * 2 : NULL,
		.row_bytes = p->row_bytes,
		.format = p->format,
		.group_shift = p->group_shift,
	};
}
