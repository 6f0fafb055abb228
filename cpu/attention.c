// Attention: Y [rows, q_heads·d] = softmax(q · Kᵀ · scale) · V over positions pos-window+1..pos of the row's slot.
//
// A unit is one row and one key head with the query heads that share it. Scores are dot products as dot.h computes them,
// kept for the whole window; weights are exp(score − largest score); both the sum of weights and the weighted sum of
// values go from the oldest position to the newest, so neither the ring's capacity nor the rows beside matter.
// Against a reading in double: 1e-5 of the largest value in the window while scores stay below 100.
#ifndef VARIANTS_OF
#define VARIANTS_OF "attention.c"
#include "variants.h"
#else
#include "dot.h"

// Positions of one slot from first on: ring rows in order, starting over at the end of the ring.
struct NAME(walk) {
	const uint8_t *base;
	int64_t row_bytes;
	int32_t at, cap;
};

fn struct NAME(walk) NAME(start)(const struct cpu_ring *r, int32_t slot, int32_t first, int64_t column)
{
	return (struct NAME(walk)){
		(const uint8_t *)cpu_ring_row(r, slot, 0) + cpu_ring_bytes(r, column), cpu_ring_bytes(r, r->width), first % r->cap, r->cap};
}

fn const uint8_t *NAME(next)(struct NAME(walk) *w)
{
	const uint8_t *row = w->base + w->at * w->row_bytes;
	w->at = w->at + 1 == w->cap ? 0 : w->at + 1;
	return row;
}

TARGET static void NAME(tile_f16)(int rows, float out[CPU_TILE][BLOCK_ROWS], const struct cpu_row w[CPU_TILE],
	const float *x, int64_t ldx, int32_t cols)
{
	NAME(tile_rows)(CPU_F16, rows, out, w, x, ldx, cols, 0);
}

// Raw scores of heads query rows against n keys: out [heads][ld].
TARGET static void NAME(scores)(const struct cpu_attention *a, float *out, int64_t ld, const float *q, int heads,
	struct NAME(walk) keys, int32_t n)
{
	for (int32_t i = 0; i < n; i += CPU_TILE) {
		const int count = n - i < CPU_TILE ? n - i : CPU_TILE;
		const uint8_t *key = NULL;
		struct cpu_row w[CPU_TILE];
		for (int r = 0; r < CPU_TILE; r++) {
			key = r < count ? NAME(next)(&keys) : key;
			w[r] = (struct cpu_row){.data = key};
		}
		float dots[CPU_TILE][BLOCK_ROWS];
		(a->k.half ? NAME(tile_f16) : NAME(tile_f32))(heads, dots, w, q, a->head_dim, a->head_dim);
		for (int r = 0; r < count; r++)
			for (int h = 0; h < heads; h++)
				out[h * ld + i + r] = dots[r][h] * a->scale;
	}
}

// Turns n scores, padded to whole vectors, into weights relative to the largest and returns their sum.
TARGET static float NAME(weights)(float *s, int32_t n)
{
	int32_t padded = n;
	while (padded % LANES)
		s[padded++] = -INFINITY;
	vf top = NAME(v_load)(s), sum = NAME(v_zero)();
	for (int32_t i = LANES; i < padded; i += LANES)
		top = NAME(v_max)(top, NAME(v_load)(s + i));
	const vf largest = NAME(v_all)(NAME(v_top)(top));
	for (int32_t i = 0; i < padded; i += LANES) {
		const vf w = NAME(v_exp)(NAME(v_load)(s + i) - largest);
		NAME(v_store)(s + i, w);
		sum = sum + w;
	}
	return NAME(v_sum)(sum);
}

// y[h][0..vectors·LANES) = Σ weight · value over n positions.
fn void NAME(mix)(int half, int heads, int vectors, float *y, int64_t ldy, const float *weight, int64_t ld, const float *sum,
	struct NAME(walk) values, int32_t n)
{
	vf acc[BLOCK_ROWS][4];
	for (int h = 0; h < heads; h++)
		for (int v = 0; v < vectors; v++)
			acc[h][v] = NAME(v_zero)();
	for (int32_t i = 0; i < n; i++) {
		const uint8_t *row = NAME(next)(&values);
		vf value[4];
		for (int v = 0; v < vectors; v++)
			value[v] = half ? NAME(v_f16)(row + 2 * v * LANES) : NAME(v_load)(row + 4 * v * LANES);
		for (int h = 0; h < heads; h++) {
			const vf w = NAME(v_all)(weight[h * ld + i]);
			for (int v = 0; v < vectors; v++)
				acc[h][v] = NAME(v_fma)(w, value[v], acc[h][v]);
		}
	}
	for (int h = 0; h < heads; h++)
		for (int v = 0; v < vectors; v++)
			NAME(v_store)(y + h * ldy + v * LANES, acc[h][v] / NAME(v_all)(sum[h]));
}

// The weighted means of heads query heads: y [heads][head_dim].
fn void NAME(values)(int half, const struct cpu_attention *a, float *y, const float *weight, int64_t ld, const float *sum,
	int heads, struct NAME(walk) values, int32_t n)
{
	const int32_t d = a->head_dim, size = half ? 2 : 4;
	int32_t at = 0;
	for (; at + 4 * LANES <= d; at += 4 * LANES, values.base += 4 * LANES * size) {
		if (heads == BLOCK_ROWS) {
			NAME(mix)(half, BLOCK_ROWS, 4, y + at, d, weight, ld, sum, values, n);
			continue;
		}
		for (int h = 0; h < heads; h++)
			NAME(mix)(half, 1, 4, y + h * d + at, d, weight + h * ld, ld, sum + h, values, n);
	}
	for (; at + LANES <= d; at += LANES, values.base += LANES * size)
		for (int h = 0; h < heads; h++)
			NAME(mix)(half, 1, 1, y + h * d + at, d, weight + h * ld, ld, sum + h, values, n);
	for (; at < d; at++, values.base += size) {
		for (int h = 0; h < heads; h++) {
			struct NAME(walk) walk = values;
			float acc = 0;
			for (int32_t i = 0; i < n; i++) {
				const uint8_t *p = NAME(next)(&walk);
				float f;
				if (half)
					f = NAME(half)(p);
				else
					memcpy(&f, p, sizeof f);
				acc += weight[h * ld + i] * f;
			}
			y[h * d + at] = acc / sum[h];
		}
	}
}

TARGET static void NAME(values_f32)(const struct cpu_attention *a, float *y, const float *weight, int64_t ld,
	const float *sum, int heads, struct NAME(walk) values, int32_t n)
{
	NAME(values)(0, a, y, weight, ld, sum, heads, values, n);
}

TARGET static void NAME(values_f16)(const struct cpu_attention *a, float *y, const float *weight, int64_t ld,
	const float *sum, int heads, struct NAME(walk) values, int32_t n)
{
	NAME(values)(1, a, y, weight, ld, sum, heads, values, n);
}

TARGET void NAME(cpu_attention)(const void *args, int32_t chunk, float *scratch)
{
	const struct cpu_attention *a = args;
	CPU_CHUNK(a, chunk, from, to);
	const int32_t group = a->q_heads / a->kv_heads, d = a->head_dim;
	for (int32_t unit = from; unit < to; unit++) {
		const int32_t r = unit / a->kv_heads, head = unit % a->kv_heads;
		const int32_t slot = a->rows->slot[r], pos = a->rows->pos[r];
		if (slot < 0)
			continue;
		const int32_t first = pos < a->window ? 0 : pos - a->window + 1, n = pos - first + 1;
		const int64_t ld = cpu_padded(n);
		const struct NAME(walk) keys = NAME(start)(&a->k, slot, first, (int64_t)head * d);
		const struct NAME(walk) values = NAME(start)(&a->v, slot, first, (int64_t)head * d);
		for (int32_t g = 0; g < group; g += BLOCK_ROWS) {
			const int heads = group - g < BLOCK_ROWS ? group - g : BLOCK_ROWS;
			const int64_t column = (int64_t)(head * group + g) * d;
			const float *q = a->qkv + (int64_t)r * (a->q_heads + 2 * a->kv_heads) * d + column;
			float sum[BLOCK_ROWS];
			NAME(scores)(a, scratch, ld, q, heads, keys, n);
			for (int h = 0; h < heads; h++)
				sum[h] = NAME(weights)(scratch + h * ld, n);
			(a->v.half ? NAME(values_f16) : NAME(values_f32))(a, a->y + (int64_t)r * a->q_heads * d + column, scratch, ld, sum,
				heads, values, n);
		}
	}
}
#endif
