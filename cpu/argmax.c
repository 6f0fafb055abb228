// Argmax: the index of each row's largest logit, the lowest among equals, and the two largest logits. A NaN gives index
// −1 and NaNs. Exact.
#include "cpu.h"

#include <math.h>

static void put(const struct cpu_argmax *a, int32_t row, struct cpu_top t)
{
	a->ids[row] = t.id;
	a->top[2 * row] = t.best;
	a->top[2 * row + 1] = t.next;
}

void cpu_argmax_rows(const void *args, int32_t chunk, float *scratch)
{
	(void)scratch;
	const struct cpu_argmax *a = args;
	CPU_CHUNK(a, chunk, from, to);
	for (int32_t r = from; r < to; r++) {
		const float *x = a->x + (int64_t)r * a->vocab;
		struct cpu_top t = {.best = -INFINITY, .next = -INFINITY};
		for (int32_t i = 0; i < a->vocab && t.id >= 0; i++)
			cpu_top_add(&t, x[i], i);
		put(a, r, t);
	}
}

struct cpu_top *cpu_tops(const struct cpu_linear *a, int32_t chunk, int32_t first)
{
	if (!a->top)
		return NULL;
	struct cpu_top *t = a->top + (int64_t)chunk * a->m;
	for (int32_t i = 0; i < a->m; i++)
		t[i] = (struct cpu_top){.best = -INFINITY, .next = -INFINITY, .id = first};
	return t;
}

// The same from what the chunks of a Linear have found, in the order of their ids.
void cpu_argmax_merge(const void *args, int32_t chunk, float *scratch)
{
	(void)chunk;
	(void)scratch;
	const struct cpu_argmax *a = args;
	for (int32_t r = 0; r < a->units; r++) {
		struct cpu_top t = {.best = -INFINITY, .next = -INFINITY};
		for (int32_t c = 0; c < a->chunks && t.id >= 0; c++) {
			const struct cpu_top *of = &a->tops[(int64_t)c * a->units + r];
			cpu_top_add(&t, of->best, of->id);
			cpu_top_add(&t, of->next, of->id);
		}
		put(a, r, t);
	}
}
