// EmbedAdd: Y [rows, d] = table[token] + audio ring at (slot, pos). One float addition; the table's row is unpacked
// exactly.
#include "cpu.h"

void cpu_embed_add(const void *args, int32_t chunk, float *scratch)
{
	const struct cpu_embed *a = args;
	CPU_CHUNK(a, chunk, from, to);
	const int32_t d = a->w->cols;
	for (int32_t r = from; r < to; r++) {
		const int32_t slot = a->rows->slot[r];
		if (slot < 0)
			continue;
		const float *audio = cpu_ring_row(&a->audio, slot, a->rows->pos[r]);
		float *y = a->y + (int64_t)r * d;
		a->dequant(scratch, a->w, a->rows->token[r]);
		for (int32_t i = 0; i < d; i++)
			y[i] = scratch[i] + audio[i];
	}
}
