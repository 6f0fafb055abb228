// RMSNorm: Y [n, d] = X · (mean(X²) + eps)^-½ · gain, times 1 + ada[slot] if given. Y may be X.
//
// The relative error is below d/LANES · 2⁻²⁴.
#ifndef VARIANTS_OF
#define VARIANTS_OF "rmsnorm.c"
#include "variants.h"
#else
#include "simd.h"
#include "norm.h"

TARGET static void NAME(norm_row)(const struct cpu_rmsnorm *a, float *y, const float *x, const float *ada)
{
	const float s = NAME(norm_factor)(x, a->d, a->eps);
	for (int32_t i = 0; i < a->d; i++)
		y[i] = x[i] * s * a->gain[i] * (ada ? 1 + ada[i] : 1);
}

TARGET void NAME(cpu_rmsnorm)(const void *args, int32_t chunk, float *scratch)
{
	(void)scratch;
	const struct cpu_rmsnorm *a = args;
	CPU_CHUNK(a, chunk, from, to);
	for (int32_t r = from; r < to; r++) {
		const int32_t slot = a->ada ? a->rows->slot[r] : 0;
		if (slot >= 0) {
			const int64_t at = (int64_t)r * a->d;
			NAME(norm_row)(a, a->y + at, a->x + at, a->ada ? a->ada + (int64_t)slot * a->d : NULL);
		}
	}
}
#endif
