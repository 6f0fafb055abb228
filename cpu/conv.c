// ConvWindow: the inputs of a causal convolution of kernel 3 side by side, Y[t][3c+j] = x[t·stride + j − (3−stride)][c].
//
// Negative times reach into the slot's tail [3−stride, c], or are zero before position 0. The tail is renewed by a second
// command, once all windows have been read. Exact: values are only moved.
#include "cpu.h"

#include <string.h>

// The input row back rows before row r, which may lie before this step; NULL before the start of the stream.
static const float *input(const struct cpu_conv *a, int32_t r, int32_t back)
{
	const int32_t slot = a->rows->slot[r], keep = 3 - a->stride;
	if (a->rows->pos[r] < back)
		return NULL;
	for (; back > 0; back--, r--)
		if (r == 0 || a->rows->slot[r - 1] != slot)
			return a->tail + ((int64_t)slot * keep + keep - back) * a->c;
	return a->x + (int64_t)r * a->c;
}

void cpu_conv_window(const void *args, int32_t chunk, float *scratch)
{
	(void)scratch;
	const struct cpu_conv *a = args;
	CPU_CHUNK(a, chunk, from, to);
	for (int32_t t = from; t < to; t++) {
		const int32_t last = t * a->stride + a->stride - 1; // the newest input of the window
		if (a->rows->slot[last] < 0)
			continue;
		float *y = a->y + (int64_t)t * 3 * a->c;
		for (int j = 0; j < 3; j++) {
			const float *x = input(a, last, 2 - j);
			for (int32_t c = 0; c < a->c; c++)
				y[3 * c + j] = x ? x[c] : 0;
		}
	}
}

void cpu_conv_tail(const void *args, int32_t chunk, float *scratch)
{
	(void)chunk, (void)scratch;
	const struct cpu_conv *a = args;
	const int32_t keep = 3 - a->stride;
	for (int32_t r = 0; r < a->units; r++) {
		const int32_t slot = a->rows->slot[r];
		if (slot < 0 || (r + 1 < a->units && a->rows->slot[r + 1] == slot))
			continue;
		// Oldest first: what an older row of the tail takes from a newer one is still there.
		for (int32_t back = keep - 1; back >= 0; back--) {
			const float *x = input(a, r, back);
			float *to = a->tail + ((int64_t)slot * keep + keep - 1 - back) * a->c;
			if (x)
				memcpy(to, x, (size_t)a->c * sizeof(float));
			else
				memset(to, 0, (size_t)a->c * sizeof(float));
		}
	}
}
