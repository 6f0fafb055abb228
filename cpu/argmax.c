// Argmax: the index of each row's largest logit, the lowest among equals, and the two largest logits. A NaN gives index
// −1 and NaNs. Exact.
#include "cpu.h"

#include <math.h>

void cpu_argmax_rows(const void *args, int32_t chunk, float *scratch)
{
	(void)scratch;
	const struct cpu_argmax *a = args;
	CPU_CHUNK(a, chunk, from, to);
	for (int32_t r = from; r < to; r++) {
		const float *x = a->x + (int64_t)r * a->vocab;
		float best = -INFINITY, next = -INFINITY;
		int32_t id = 0;
		for (int32_t i = 0; i < a->vocab; i++) {
			if (x[i] <= next)
				continue;
			if (x[i] > best) {
				next = best;
				best = x[i];
				id = i;
			} else if (x[i] > next) {
				next = x[i];
			} else { // neither above nor below
				best = next = NAN;
				id = -1;
				break;
			}
		}
		a->ids[r] = id;
		a->top[2 * r] = best;
		a->top[2 * r + 1] = next;
	}
}
