// What becomes of the products of packed weights: bias, activation, residual, and y or the two largest.
//
// One function for all kernels of an instruction set, so that they give the same bits, whatever they hand over at a time. silu
// takes the exponential of simd.h, which costs the same for one output as for LANES of them.
#ifndef VARIANTS_OF
#define VARIANTS_OF "finish.c"
#include "variants.h"
#else
#include "simd.h"

// Up to CPU_SIDE floats, filled up with zeros.
TARGET static const float *NAME(some)(float room[CPU_SIDE], const float *p, int count)
{
	if (count == CPU_SIDE)
		return p;
	memset(room, 0, CPU_SIDE * sizeof *room);
	return memcpy(room, p, (size_t)count * sizeof *p);
}

fn void NAME(add)(float v[CPU_SIDE], const float *w)
{
	for (int i = 0; i < CPU_SIDE; i += LANES)
		NAME(v_store)(v + i, NAME(v_load)(v + i) + NAME(v_load)(w + i));
}

TARGET void NAME(cpu_finish)(const struct cpu_linear *a, int32_t n, int count, int32_t m, int rows, float (*v)[CPU_SIDE], float (*up)[CPU_SIDE],
	struct cpu_top *top)
{
	float room[3][CPU_SIDE];
	const int swiglu = a->act == CPU_SWIGLU;
	const float *bias = a->bias ? NAME(some)(room[0], a->bias + n, count) : NULL;
	const float *up_bias = a->bias && swiglu ? NAME(some)(room[1], a->bias + a->outputs + n, count) : NULL;
	for (int r = 0; r < rows; r++) {
		const int64_t at = (int64_t)(m + r) * a->outputs + n;
		if (bias)
			NAME(add)(v[r], bias);
		if (up_bias)
			NAME(add)(up[r], up_bias);
		for (int i = 0; i < CPU_SIDE && swiglu; i += LANES) {
			const vf g = NAME(v_load)(v[r] + i);
			NAME(v_store)(v[r] + i, g / (NAME(v_all)(1) + NAME(v_exp)(-g)) * NAME(v_load)(up[r] + i));
		}
		for (int i = 0; i < count && a->act == CPU_GELU; i++)
			v[r][i] = 0.5f * v[r][i] * erfcf(-0x1.6a09e6p-1f * v[r][i]);
		if (a->residual)
			NAME(add)(v[r], NAME(some)(room[2], a->residual + at, count));
		for (int i = 0; i < count && top; i++)
			cpu_top_add(&top[m + r], v[r][i], n + i);
		if (!top && count == CPU_SIDE)
			memcpy(a->y + at, v[r], sizeof v[r]);
		else if (!top)
			memcpy(a->y + at, v[r], (size_t)count * sizeof **v);
	}
}
#endif
