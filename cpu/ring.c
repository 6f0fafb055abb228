// RingWrite: copies each row [width] to its slot's ring. Exact.
#include "cpu.h"

#include <string.h>

void cpu_ring_copy(const void *args, int32_t chunk, float *scratch)
{
	(void)scratch;
	const struct cpu_ring_write *a = args;
	CPU_CHUNK(a, chunk, from, to);
	for (int32_t r = from; r < to; r++) {
		const int32_t slot = a->rows->slot[r];
		if (slot >= 0)
			memcpy(cpu_ring_row(&a->to, slot, a->rows->pos[r]), a->x + (int64_t)r * a->to.width,
				(size_t)a->to.width * sizeof(float));
	}
}
