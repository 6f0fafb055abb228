// What becomes of the products of packed weights: bias, activation, residual, and y or the two largest.
//
// One function for all kernels of an instruction set, so that they give the same bits. silu takes the exponential of simd.h.
#ifndef VARIANTS_OF
#define VARIANTS_OF "finish.c"
#include "variants.h"
#else
#include "simd.h"

TARGET void NAME(cpu_finish)(const struct cpu_linear *a, int32_t n, int count, int32_t m, float v[CPU_SIDE], float up[CPU_SIDE], struct cpu_top *top)
{
	const int64_t at = (int64_t)m * a->outputs + n;
	for (int i = 0; i < count && a->bias; i++)
		v[i] += a->bias[n + i];
	if (a->act == CPU_SWIGLU) {
		for (int i = 0; i < count && a->bias; i++)
			up[i] += a->bias[a->outputs + n + i];
		for (int i = 0; i < count; i += LANES) {
			const vf g = NAME(v_load)(v + i);
			NAME(v_store)(v + i, g / (NAME(v_all)(1) + NAME(v_exp)(-g)) * NAME(v_load)(up + i));
		}
	} else if (a->act == CPU_GELU) {
		for (int i = 0; i < count; i++)
			v[i] = 0.5f * v[i] * erfcf(-0x1.6a09e6p-1f * v[i]);
	}
	for (int i = 0; i < count && a->residual; i++)
		v[i] += a->residual[at + i];
	if (!top) {
		memcpy(a->y + at, v, (size_t)count * sizeof *v);
		return;
	}
	for (int i = 0; i < count; i++)
		cpu_top_add(&top[m], v[i], n + i);
}
#endif
