// RopeAppend: rotates the adjacent pairs of q and k of every row by its angles, in place; k and v go to the slot's rings,
// rounded to the nearest half if those hold halves. qkv is [rows, (q_heads + 2·kv_heads)·d], cos and sin are [rows, d/2].
// All float; a rotated element is within 2⁻²³ of the larger of its pair.
#include "cpu.h"

#include <math.h>
#include <string.h>

static void rotate(float *x, const float *cos, const float *sin, int32_t heads, int32_t d)
{
	for (int32_t h = 0; h < heads; h++, x += d) {
		for (int32_t i = 0; i < d / 2; i++) {
			const float a = x[2 * i], b = x[2 * i + 1];
			x[2 * i] = a * cos[i] - b * sin[i];
			x[2 * i + 1] = a * sin[i] + b * cos[i];
		}
	}
}

// The nearest half, ties to even; too large becomes infinity.
static uint16_t to_half(float f)
{
	uint32_t b;
	memcpy(&b, &f, sizeof b);
	const uint16_t sign = b >> 16 & 0x8000;
	b &= 0x7fffffff;
	if (b > 0x7f800000)
		return sign | 0x7e00;
	if (b >= 0x477ff000)
		return sign | 0x7c00;
	if (b < 0x38800000) // a multiple of 2⁻²⁴
		return sign | (uint16_t)lrintf(fabsf(f) * 0x1p24f);
	b += 0xfff + (b >> 13 & 1);
	return sign | (uint16_t)((b - 0x38000000) >> 13);
}

static void append(const struct cpu_ring *r, int32_t slot, int32_t pos, const float *x)
{
	void *row = cpu_ring_row(r, slot, pos);
	if (!r->half) {
		memcpy(row, x, (size_t)r->width * sizeof(float));
		return;
	}
	uint16_t *to = row;
	for (int32_t i = 0; i < r->width; i++)
		to[i] = to_half(x[i]);
}

void cpu_rope_append(const void *args, int32_t chunk, float *scratch)
{
	(void)scratch;
	const struct cpu_attention *a = args;
	CPU_CHUNK(a, chunk, from, to);
	const int32_t d = a->head_dim;
	for (int32_t r = from; r < to; r++) {
		const int32_t slot = a->rows->slot[r], pos = a->rows->pos[r];
		if (slot < 0)
			continue;
		float *q = a->qkv + (int64_t)r * (a->q_heads + 2 * a->kv_heads) * d;
		float *k = q + (int64_t)a->q_heads * d, *v = k + (int64_t)a->kv_heads * d;
		const float *cos = a->rows->cos + (int64_t)r * (d / 2), *sin = a->rows->sin + (int64_t)r * (d / 2);
		rotate(q, cos, sin, a->q_heads, d);
		rotate(k, cos, sin, a->kv_heads, d);
		append(&a->k, slot, pos, k);
		append(&a->v, slot, pos, v);
	}
}
