// RopeAppend: rotates the adjacent pairs of q and k of every row by its angles; q stays in place, k and v go to the
// slot's rings. qkv is [rows, (q_heads + 2·kv_heads)·d], cos and sin are [rows, d/2]. All float; a rotated element is
// within 2⁻²³ of the larger of its pair.
#include "cpu.h"

#include <string.h>

static void rotate(float *y, const float *x, const float *cos, const float *sin, int32_t heads, int32_t d)
{
	for (int32_t h = 0; h < heads; h++, x += d, y += d) {
		for (int32_t i = 0; i < d / 2; i++) {
			const float a = x[2 * i], b = x[2 * i + 1];
			y[2 * i] = a * cos[i] - b * sin[i];
			y[2 * i + 1] = a * sin[i] + b * cos[i];
		}
	}
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
		const float *k = q + (int64_t)a->q_heads * d, *v = k + (int64_t)a->kv_heads * d;
		const float *cos = a->rows->cos + (int64_t)r * (d / 2), *sin = a->rows->sin + (int64_t)r * (d / 2);
		rotate(q, q, cos, sin, a->q_heads, d);
		rotate(cpu_ring_row(&a->k, slot, pos), k, cos, sin, a->kv_heads, d);
		memcpy(cpu_ring_row(&a->v, slot, pos), v, (size_t)a->v.width * sizeof(float));
	}
}
