// Attention: Y [rows, q_heads·d] = softmax(q · Kᵀ · scale) · V over positions pos-window+1..pos of the row's slot.
//
// A unit is a key head and up to `take` rows: their queries share what is read of the rings. Keys and values are widened to
// floats and keys transposed once for all of them, then each query's scores are dot products with KEYS keys side by side.
// All scores of the window are kept, so that the largest is known before anything is exponentiated and no sum is ever
// rescaled. A row's bits depend neither on the rows beside it nor on the ring's capacity: keys are grouped by absolute
// position, the sum of weights has a lane for each position modulo LANES, the sum of values goes from the oldest on, and what
// lies outside a row's window weighs nothing, unless a value there is not finite.
// Against a reading in double: 1e-5 of the largest value in the window while scores stay below 100.
#ifndef VARIANTS_OF
#define VARIANTS_OF "attention.c"
#include "variants.h"
#else
#include "simd.h"
#if LEVEL == 2
#include "transpose.h"
#endif

#ifndef CPU_ATTENTION_SIZES
#define CPU_ATTENTION_SIZES
enum { KEYS = CPU_KEYS, VALUES = CPU_VALUES, QUERIES = CPU_QUERIES };

// The queries of a unit over one run of rows, and where they are worked on.
struct queries {
	const float *q[QUERIES]; // [head_dim]
	float *y[QUERIES];       // [head_dim]
	int32_t first[QUERIES], last[QUERIES]; // positions
	int32_t n;               // queries
	int32_t head;            // key head
	int32_t slot, from;      // ring slot; position of the first score, in whole KEYS
	int32_t room;            // head_dim in whole KEYS
	int64_t ld;              // floats from one query's scores to the next's
	float *scores;           // [n][ld], then weights
	float *sums;             // [n][room]
	float *rows, *keys;      // [KEYS][room], [room][KEYS]
	float *values;           // [VALUES][room]
};
#endif

#if LEVEL == 2
#define TOGETHER 8 // queries with KEYS keys
#else
#define TOGETHER 4
#endif

// Widens n positions of a slot to floats [n][room]; columns past head_dim become zero.
TARGET static void NAME(widen)(float *out, const struct cpu_ring *ring, const struct cpu_attention *a, const struct queries *w, int32_t from, int32_t n)
{
	const int32_t d = a->head_dim, whole = d / LANES * LANES;
	const int64_t row_bytes = cpu_ring_bytes(ring, ring->width);
	const uint8_t *const base = (const uint8_t *)cpu_ring_row(ring, w->slot, 0) + cpu_ring_bytes(ring, (int64_t)w->head * d);
	int32_t at = from % ring->cap;
	for (int32_t i = 0; i < n; i++, out += w->room) {
		const uint8_t *p = base + at * row_bytes;
		at = at + 1 == ring->cap ? 0 : at + 1;
		if (ring->half)
			for (int32_t c = 0; c < whole; c += LANES)
				NAME(v_store)(out + c, NAME(v_f16)(p + 2 * c));
		else
			for (int32_t c = 0; c < whole; c += LANES)
				NAME(v_store)(out + c, NAME(v_load)(p + 4 * c));
		for (int32_t c = whole; c < w->room; c++) {
			out[c] = 0;
			if (c < d && ring->half)
				out[c] = NAME(half)(p + 2 * c);
			else if (c < d)
				memcpy(out + c, p + 4 * c, sizeof *out);
		}
	}
}

// Transposes rows [KEYS][room] to keys [room][KEYS].
TARGET static void NAME(turn)(float *keys, const float *rows, int32_t room)
{
#if LEVEL == 2
	for (int32_t c = 0; c < room; c += KEYS) {
		__m512 t[KEYS];
		for (int i = 0; i < KEYS; i++)
			t[i] = _mm512_loadu_ps(rows + i * room + c);
		NAME(transpose)(t);
		for (int i = 0; i < KEYS; i++)
			_mm512_storeu_ps(keys + (c + i) * KEYS, t[i]);
	}
#elif defined(__SSE2__)
	for (int32_t c = 0; c < room; c += 4) {
		for (int i = 0; i < KEYS; i += 4) {
			const float *p = rows + i * room + c;
			__m128 r0 = _mm_loadu_ps(p), r1 = _mm_loadu_ps(p + room), r2 = _mm_loadu_ps(p + 2 * room), r3 = _mm_loadu_ps(p + 3 * room);
			_MM_TRANSPOSE4_PS(r0, r1, r2, r3);
			float *to = keys + c * KEYS + i;
			_mm_storeu_ps(to, r0);
			_mm_storeu_ps(to + KEYS, r1);
			_mm_storeu_ps(to + 2 * KEYS, r2);
			_mm_storeu_ps(to + 3 * KEYS, r3);
		}
	}
#else
	for (int32_t c = 0; c < room; c++)
		for (int i = 0; i < KEYS; i++)
			keys[c * KEYS + i] = rows[i * room + c];
#endif
}

// Scores of n queries against KEYS keys: out [n][ld]. Two sums each, over even and odd columns.
fn void NAME(dots)(int n, float *out, int64_t ld, const float *const *q, const float *keys, int32_t d, float scale)
{
	for (int lane = 0; lane < KEYS; lane += LANES) {
		vf even[TOGETHER], odd[TOGETHER];
		for (int i = 0; i < n; i++)
			even[i] = odd[i] = NAME(v_zero)();
		for (int32_t c = 0; c < d; c += 2) {
			const vf k0 = NAME(v_load)(keys + c * KEYS + lane), k1 = NAME(v_load)(keys + (c + 1) * KEYS + lane);
			for (int i = 0; i < n; i++) {
				even[i] = NAME(v_fma)(NAME(v_all)(q[i][c]), k0, even[i]);
				odd[i] = NAME(v_fma)(NAME(v_all)(q[i][c + 1]), k1, odd[i]);
			}
		}
		for (int i = 0; i < n; i++)
			NAME(v_store)(out + i * ld + lane, (even[i] + odd[i]) * NAME(v_all)(scale));
	}
}

TARGET static void NAME(score)(const struct cpu_attention *a, const struct queries *w, int32_t first, int32_t last)
{
	for (int32_t at = first; at <= last; at += KEYS) {
		// Places before the window and behind the newest position are filled up with what is there; they are masked below.
		NAME(widen)(w->rows, &a->k, a, w, at, KEYS);
		NAME(turn)(w->keys, w->rows, w->room);
		int i = 0;
		float *out = w->scores + (at - w->from);
#define DOTS(count) \
	for (; i + count <= w->n; i += count) \
		NAME(dots)(count, out + i * w->ld, w->ld, w->q + i, w->keys, a->head_dim, a->scale);
		DOTS(TOGETHER)
		DOTS(4)
		DOTS(2)
		DOTS(1)
#undef DOTS
	}
}

// Turns the scores of query i into weights relative to the largest and returns their sum.
TARGET static float NAME(weigh)(const struct queries *w, int i, int32_t end)
{
	float *s = w->scores + i * w->ld - w->from; // by position
	const int32_t first = w->first[i] / KEYS * KEYS, after = w->last[i] / KEYS * KEYS + KEYS;
	for (int32_t p = w->from; p < first; p++)
		s[p] = 0;
	for (int32_t p = after; p < end; p++)
		s[p] = 0;
	for (int32_t p = first; p < w->first[i]; p++)
		s[p] = -INFINITY;
	for (int32_t p = w->last[i] + 1; p < after; p++)
		s[p] = -INFINITY;
	vf top = NAME(v_load)(s + first), sum = NAME(v_zero)();
	for (int32_t p = first + LANES; p < after; p += LANES)
		top = NAME(v_max)(top, NAME(v_load)(s + p));
	const vf largest = NAME(v_all)(NAME(v_top)(top));
	for (int32_t p = first; p < after; p += LANES) {
		const vf v = NAME(v_exp)(NAME(v_load)(s + p) - largest);
		NAME(v_store)(s + p, v);
		sum = sum + v;
	}
	return NAME(v_sum)(sum);
}

// sums [queries][room] += Σ weight · value over n positions, vectors · LANES columns.
fn void NAME(mix)(int queries, int vectors, float *sums, int32_t room, const float *weights, int64_t ld, const float *values, int32_t n)
{
	vf acc[BLOCK_ROWS][4];
	for (int i = 0; i < queries; i++)
		for (int v = 0; v < vectors; v++)
			acc[i][v] = NAME(v_load)(sums + i * room + v * LANES);
	for (int32_t p = 0; p < n; p++, values += room) {
		for (int i = 0; i < queries; i++) {
			const vf weight = NAME(v_all)(weights[i * ld + p]);
			for (int v = 0; v < vectors; v++)
				acc[i][v] = NAME(v_fma)(weight, NAME(v_load)(values + v * LANES), acc[i][v]);
		}
	}
	for (int i = 0; i < queries; i++)
		for (int v = 0; v < vectors; v++)
			NAME(v_store)(sums + i * room + v * LANES, acc[i][v]);
}

fn void NAME(mix_room)(int queries, float *sums, int32_t room, const float *weights, int64_t ld, const float *values, int32_t n)
{
	int32_t c = 0;
	for (; c + 4 * LANES <= room; c += 4 * LANES)
		NAME(mix)(queries, 4, sums + c, room, weights, ld, values + c, n);
	for (; c < room; c += LANES)
		NAME(mix)(queries, 1, sums + c, room, weights, ld, values + c, n);
}

// Adds values of positions from first to last, the whole of the queries' windows.
TARGET static void NAME(sum_values)(const struct cpu_attention *a, const struct queries *w, int32_t first, int32_t last)
{
	memset(w->sums, 0, sizeof *w->sums * (size_t)w->n * (size_t)w->room);
	for (int32_t from = first; from <= last; from += VALUES) {
		const int32_t n = last - from + 1 < VALUES ? last - from + 1 : VALUES;
		NAME(widen)(w->values, &a->v, a, w, from, n);
		int i = 0;
		const float *weights = w->scores + (from - w->from);
		for (; i + BLOCK_ROWS <= w->n; i += BLOCK_ROWS)
			NAME(mix_room)(BLOCK_ROWS, w->sums + i * w->room, w->room, weights + i * w->ld, w->ld, w->values, n);
		for (; i < w->n; i++)
			NAME(mix_room)(1, w->sums + i * w->room, w->room, weights + i * w->ld, w->ld, w->values, n);
	}
}

// Rows r.. of one slot at consecutive positions, heads query heads from column on.
TARGET static void NAME(attend)(const struct cpu_attention *a, struct queries *w, int32_t r, int32_t rows, int32_t column, int32_t heads)
{
	const int32_t d = a->head_dim;
	w->n = 0;
	for (int32_t i = r; i < r + rows; i++) {
		const int32_t pos = a->rows->pos[i];
		for (int32_t h = 0; h < heads; h++, w->n++) {
			w->q[w->n] = a->qkv + (int64_t)i * (a->q_heads + 2 * a->kv_heads) * d + column + h * d;
			w->y[w->n] = a->y + (int64_t)i * a->q_heads * d + column + h * d;
			w->first[w->n] = pos < a->window ? 0 : pos - a->window + 1;
			w->last[w->n] = pos;
		}
	}
	const int32_t first = w->first[0], last = w->last[w->n - 1];
	w->from = first / KEYS * KEYS;
	NAME(score)(a, w, w->from, last);
	float sum[QUERIES];
	for (int i = 0; i < w->n; i++)
		sum[i] = NAME(weigh)(w, i, last + 1);
	NAME(sum_values)(a, w, first, last);
	for (int i = 0; i < w->n; i++)
		for (int32_t c = 0; c < d; c++)
			w->y[i][c] = w->sums[i * w->room + c] / sum[i];
}

TARGET void NAME(cpu_attention)(const void *args, int32_t chunk, float *scratch)
{
	const struct cpu_attention *a = args;
	CPU_CHUNK(a, chunk, from, to);
	const int32_t group = a->q_heads / a->kv_heads, *slot = a->rows->slot, *pos = a->rows->pos;
	struct queries w = {.room = (a->head_dim + KEYS - 1) / KEYS * KEYS, .ld = a->ld, .rows = scratch};
	w.keys = w.rows + KEYS * w.room;
	w.values = w.keys + KEYS * w.room;
	w.sums = w.values + VALUES * w.room;
	w.scores = w.sums + QUERIES * w.room;
	for (int32_t unit = from; unit < to; unit++) {
		w.head = unit % a->kv_heads;
		const int32_t begin = unit / a->kv_heads * a->take, end = begin + a->take < a->m ? begin + a->take : a->m;
		for (int32_t r = begin, rows = 1; r < end; r += rows, rows = 1) {
			if (slot[r] < 0)
				continue;
			w.slot = slot[r];
			while (r + rows < end && slot[r + rows] == slot[r] && pos[r + rows] == pos[r] + rows)
				rows++;
			for (int32_t g = 0; g < group; g += QUERIES)
				NAME(attend)(a, &w, r, rows, (w.head * group + g) * a->head_dim, group - g < QUERIES ? group - g : QUERIES);
		}
	}
}
#undef TOGETHER
#endif
