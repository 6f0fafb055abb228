// Linear: Y [m, n] = act(X [m, k] · Wᵀ + bias) + residual.
//
// W is stored by rows of k in any of the five formats, its parts possibly in different ones. Products and sums are
// float, in the order that dot.h fixes. SwiGLU reads two gate and the two matching up rows in one tile. Against a sum in
// double the relative error of a row's dot product is below k/LANES · 2⁻²⁴ of Σ|x·w|.
#ifndef VARIANTS_OF
#define VARIANTS_OF "linear.c"
#include "variants.h"
#else
#include "dot.h"
#include "tile.h"

// Bias, activation, residual and store for rows m.. of a tile.
TARGET static void NAME(finish)(const struct cpu_linear *a, int32_t tile, int32_t m, int rows, float sum[CPU_TILE][BLOCK_ROWS],
	struct cpu_top *top)
{
	const int32_t step = a->act == CPU_SWIGLU ? CPU_TILE / 2 : CPU_TILE, n = tile * step;
	const int32_t count = a->outputs - n < step ? a->outputs - n : step;
	for (int r = 0; r < count; r++) {
		for (int i = 0; i < rows; i++) {
			float v = sum[r][i] + (a->bias ? a->bias[n + r] : 0);
			if (a->act == CPU_GELU) {
				v = 0.5f * v * erfcf(-0x1.6a09e6p-1f * v);
			} else if (a->act == CPU_SWIGLU) {
				const float up = sum[step + r][i] + (a->bias ? a->bias[a->outputs + n + r] : 0);
				v = v / (1 + expf(-v)) * up;
			}
			const int64_t at = (int64_t)(m + i) * a->outputs + n + r;
			v += a->residual ? a->residual[at] : 0;
			if (top)
				cpu_top_add(&top[m + i], v, n + r);
			else
				a->y[at] = v;
		}
	}
}

TARGET static void NAME(unpack)(float *dst, const struct cpu_row *w, int32_t cols)
{
	for (int32_t b = 0; b < cols; b += CPU_BLOCK) {
		const uint8_t *p = w->data + NAME(offset)(w->format, b);
		uint8_t last[CPU_BLOCK * 4];
		if (cols - b < CPU_BLOCK && w->format <= CPU_F16) {
			p = NAME(fill)(last, p, NAME(offset)(w->format, cols - b), sizeof last);
		}
		switch (w->format) {
#define UNPACK(format) \
	case format: { \
		const vf s = format > CPU_F16 ? NAME(scale)(format, w->scales + 2 * (b >> w->group_shift)) : NAME(v_zero)(); \
		for (int v = 0; v < VECTORS; v++) \
			NAME(v_store)(dst + b + v * LANES, NAME(element)(format, p, v, s)); \
		break; \
	}
			UNPACK(CPU_F32)
			UNPACK(CPU_BF16)
			UNPACK(CPU_F16)
			UNPACK(CPU_INT8)
			UNPACK(CPU_INT4)
#undef UNPACK
		}
	}
}

// One row, unpacked to dst [cpu_padded(cols)].
TARGET void NAME(cpu_dequant)(float *dst, const struct cpu_weight *w, int32_t row)
{
	const struct cpu_row r = cpu_weight_row(w, row);
	NAME(unpack)(dst, &r, w->cols);
}

// A tile whose weights are read once, straight from their format: up to BLOCK_ROWS activation rows.
TARGET static void NAME(narrow)(const struct cpu_linear *a, int32_t tile, const struct cpu_row w[CPU_TILE], struct cpu_top *top)
{
	float sum[CPU_TILE][BLOCK_ROWS];
	const int32_t k = a->w->cols;
	const int64_t ahead = w[0].row_bytes * (a->act == CPU_SWIGLU ? CPU_TILE / 2 : CPU_TILE);
	switch (w[0].format) {
	case CPU_F32:
		NAME(tile_rows)(CPU_F32, a->m, sum, w, a->x, k, k, ahead);
		break;
	case CPU_BF16:
		NAME(tile_rows)(CPU_BF16, a->m, sum, w, a->x, k, k, ahead);
		break;
	case CPU_F16:
		NAME(tile_rows)(CPU_F16, a->m, sum, w, a->x, k, k, ahead);
		break;
	case CPU_INT8:
		NAME(tile_rows)(CPU_INT8, a->m, sum, w, a->x, k, k, ahead);
		break;
	default:
		NAME(tile_rows)(CPU_INT4, a->m, sum, w, a->x, k, k, ahead);
	}
	NAME(finish)(a, tile, 0, a->m, sum, top);
}

// Tiles of many activation rows, or of mixed formats: unpacks the weight rows, then passes the activations over them all.
TARGET static void NAME(wide)(const struct cpu_linear *a, int32_t from, int32_t to, float *scratch, struct cpu_top *top)
{
	const int32_t k = a->w->cols;
	const int64_t padded = cpu_padded(k);
	struct cpu_row w[CPU_TILE];
	for (int32_t tile = from; tile < to; tile++) {
		NAME(tile_weights)(a, tile, w);
		for (int r = 0; r < CPU_TILE; r++)
			NAME(unpack)(scratch + ((tile - from) * CPU_TILE + r) * padded, &w[r], k);
	}
	for (int32_t m = 0; m < a->m; m += BLOCK_ROWS) {
		const int rows = a->m - m < BLOCK_ROWS ? a->m - m : BLOCK_ROWS;
		for (int32_t tile = from; tile < to; tile++) {
			float sum[CPU_TILE][BLOCK_ROWS];
			for (int r = 0; r < CPU_TILE; r++)
				w[r] = (struct cpu_row){.data = (const uint8_t *)(scratch + ((tile - from) * CPU_TILE + r) * padded)};
			NAME(tile_f32)(rows, sum, w, a->x + (int64_t)m * k, k, k);
			NAME(finish)(a, tile, m, rows, sum, top);
		}
	}
}

TARGET void NAME(cpu_linear)(const void *args, int32_t chunk, float *scratch)
{
	const struct cpu_linear *a = args;
	CPU_CHUNK(a, chunk, from, to);
	struct cpu_top *top = cpu_tops(a, chunk, from * CPU_TILE);
	if (a->m > BLOCK_ROWS) {
		NAME(wide)(a, from, to, scratch, top);
		return;
	}
	for (int32_t tile = from; tile < to; tile++) {
		struct cpu_row w[CPU_TILE];
		NAME(tile_weights)(a, tile, w);
		int same = 1;
		for (int r = 1; r < CPU_TILE; r++)
			same &= w[r].format == w[0].format && w[r].group_shift == w[0].group_shift;
		if (same)
			NAME(narrow)(a, tile, w, top);
		else
			NAME(wide)(a, tile, tile + 1, scratch, top);
	}
}
#endif
