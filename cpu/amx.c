// Linear over int8 and int4 weights in AMX tiles of bf16.
//
// A tile holds 16 weight rows of 32 columns, unpacked to code × scale and rounded to bf16; another holds the same columns of
// up to 16 activation rows, rounded to bf16; sums are float. Each factor is off by at most 2⁻⁸ of itself, so that a result is
// within 1.002 · 2⁻⁷ · Σ|x·w| of the exact one; the typical error is a quarter of a percent of a typical result. What is
// below 2⁻¹²⁶ counts as zero. Columns are added in one order whatever the number of rows: a result depends on its two rows
// alone.
//
// Work goes by strips: 32 weight rows, or 16 gate rows with their 16 up rows. While the tiles multiply one block of a strip's
// columns, the next block is unpacked; what follows that is fetched from memory.
#if defined(__x86_64__) && defined(__linux__)
#include "cpu.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME(f) f##_amx
#define LEVEL 2
#include "simd.h"
#undef TARGET
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,amx-tile,amx-bf16")))
fn __m128i NAME(sixteen)(const uint8_t *p) { return _mm_loadu_si128((const void *)p); }
#include "norm.h"
#include "transpose.h"

enum {
	SIDE = 16,   // rows of a tile
	STEP = 32,   // columns of a tile
	BLOCK = 256, // columns of a block
	STEPS = BLOCK / STEP,
	STRIP = 32,  // weight rows of a strip
	TILE = SIDE * STEP,
};

// Tiles: sums 0..3 (weight tile × activation tile), weights 4 and 5, activations 6 and 7.
struct tile_config {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
};

int32_t cpu_amx_permit(void)
{
	enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
	return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static int32_t ceil_div(int32_t a, int32_t b) { return (a + b - 1) / b; }

// Activation rows side by side in a tile: sixteen, or all there are.
static int32_t tile_columns(int32_t m) { return m < SIDE ? m : SIDE; }

// Steps that cover k columns; they come in twos.
static int32_t steps_of(int32_t k) { return 2 * ceil_div(k, 2 * STEP); }

// Activations [m][k] become tiles [⌈m/16⌉][steps][16 pairs of columns][rows][2], filled up with zeros.
TARGET void cpu_prepare_amx(const void *args, int32_t chunk, float *scratch)
{
	(void)scratch;
	const struct cpu_prepare *a = args;
	CPU_CHUNK(a, chunk, from, to);
	const int32_t columns = tile_columns(a->m);
	const __mmask16 lanes = (__mmask16)((1 << columns) - 1);
	for (int32_t t = from; t < to; t++) {
		const int32_t rows = a->m - t * SIDE < SIDE ? a->m - t * SIDE : SIDE;
		const float *x[SIDE], *ada[SIDE];
		float factor[SIDE];
		for (int i = 0; i < rows; i++) {
			x[i] = a->x + (int64_t)(t * SIDE + i) * a->k;
			factor[i] = 1;
			if (a->gain) {
				factor[i] = NAME(norm_factor)(x[i], a->k, a->eps);
				ada[i] = cpu_ada_row(a, t * SIDE + i);
			}
		}
		uint32_t *out = (uint32_t *)a->prepared + (int64_t)t * steps_of(a->k) * SIDE * columns;
		for (int32_t step = 0; step < steps_of(a->k); step++, out += SIDE * columns) {
			const int32_t c = step / 2 * 2 * STEP + step % 2 * 16;
			__m512 pairs[SIDE];
			for (int i = 0; i < SIDE; i++) {
				pairs[i] = _mm512_setzero_ps();
				if (i >= rows)
					continue;
				__m512 v[2];
				for (int h = 0; h < 2; h++) {
					const int32_t at = c + h * STEP, left = a->k - at;
					const __mmask16 some = left >= 16 ? 0xffff : left > 0 ? (__mmask16)((1 << left) - 1) : 0;
					v[h] = _mm512_maskz_loadu_ps(some, x[i] + at);
					if (a->gain) {
						v[h] = v[h] * _mm512_set1_ps(factor[i]) * _mm512_maskz_loadu_ps(some, a->gain + at);
						if (ada[i])
							v[h] *= _mm512_set1_ps(1) + _mm512_maskz_loadu_ps(some, ada[i] + at);
					}
				}
				pairs[i] = _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]));
			}
			if (columns == 1) {
				_mm512_storeu_ps(out, pairs[0]);
				continue;
			}
			NAME(transpose)(pairs);
			for (int p = 0; p < SIDE; p++)
				_mm512_mask_storeu_ps(out + p * columns, lanes, pairs[p]);
		}
	}
}

// A strip's weight rows: 16 of each tile.
struct strip {
	const uint8_t *codes[STRIP], *scales[STRIP];
};

// Past the last output come more of the last row.
static void find_strip(struct strip *s, const struct cpu_linear *a, int32_t unit)
{
	const int step = a->act == CPU_SWIGLU ? SIDE : STRIP;
	for (int from = 0; from < STRIP; from += step) {
		const struct cpu_part *p = a->w->parts;
		int32_t at = unit * step + (from ? a->outputs : 0), left = a->outputs - unit * step;
		while (at >= p->rows)
			at -= p++->rows;
		for (int r = from; r < from + step; r++) {
			const int32_t row = cpu_stored_row(p, at);
			s->codes[r] = p->data + row * p->row_bytes;
			s->scales[r] = p->scales + (int64_t)row * p->groups * 2;
			if (--left <= 0)
				continue;
			if (++at == p->rows) {
				at = 0;
				p++;
			}
		}
	}
}

// Unpacks up to BLOCK columns of a row. Of every 64 columns, two steps get 16 + 16 each: this is how nibbles come out of
// 32 bytes, and the activations are laid out to match. Columns that are not stored become zero.
fn void NAME(unpack)(int int4, int shift, int columns, uint16_t *dst, const uint8_t *codes, const uint8_t *scales)
{
	const int groups = (columns + (1 << shift) - 1) >> shift;
	float scale[STEPS];
	_mm256_storeu_ps(scale, _mm256_cvtph_ps(_mm_maskz_loadu_epi16((__mmask8)((1 << groups) - 1), scales)));
	const __m512 levels = _mm512_set_ps(7, 6, 5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5, -6, -7, -8);
	const __m512i second = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(16), 1);
#pragma GCC unroll 4
	for (int c = 0; c < columns; c += 64, dst += 2 * TILE) {
		const int both = columns - c >= 64;
		const __m512 s0 = _mm512_set1_ps(scale[c >> shift]), s1 = _mm512_set1_ps(scale[(c + 32) >> shift]);
		if (int4) {
			const __m128i none = _mm_setzero_si128(), first = NAME(sixteen)(codes + c / 2);
			const __m256i bytes = both ? _mm256_loadu_si256((const void *)(codes + c / 2)) : _mm256_set_m128i(none, first);
			__m512i low = _mm512_cvtepu8_epi16(bytes), high = _mm512_srli_epi16(low, 4);
			// Sixteen values for each of the two halves. An index has five bits: the fifth picks the half.
			const __m512i table = (__m512i)_mm512_cvtne2ps_pbh(levels * s1, levels * s0);
			if (shift == 5) {
				low = _mm512_ternarylogic_epi32(low, _mm512_set1_epi16(15), second, 0xea); // low & 15 | second
				high = _mm512_ternarylogic_epi32(high, _mm512_set1_epi16(15), second, 0xea);
			}
			_mm512_store_si512(dst, _mm512_permutexvar_epi16(low, table));
			_mm512_store_si512(dst + TILE, _mm512_permutexvar_epi16(high, table));
			continue;
		}
		for (int h = 0; h < 2; h++) {
			const uint8_t *p = codes + c + 16 * h;
			const __m512 low = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(NAME(sixteen)(p)));
			const __m512 high = both ? _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(NAME(sixteen)(p + 32))) : _mm512_setzero_ps();
			_mm512_store_si512(dst + h * TILE, (__m512i)_mm512_cvtne2ps_pbh(high * s1, low * s0));
		}
	}
}

// The walk over the blocks of a chunk's strips, one ahead of the multiplication.
struct walk {
	const struct cpu_linear *a;
	int32_t unit, to, column, columns; // column: the block's first; columns: those that are stored
	struct strip *now, *next;          // next: of the following unit
	const struct strip *ahead;         // what to fetch, and from which column; NULL behind the last block
	int32_t ahead_column;
};

// Finds what lies two blocks on.
static void look_ahead(struct walk *w)
{
	w->ahead = w->now;
	w->ahead_column = w->column + 2 * BLOCK;
	if (w->ahead_column >= w->columns) {
		w->ahead = w->unit + 1 < w->to ? w->next : NULL;
		w->ahead_column = w->column + BLOCK >= w->columns && w->columns > BLOCK ? BLOCK : 0;
	}
}

// Goes to the next block; 0 at the end.
static int advance(struct walk *w)
{
	w->column += BLOCK;
	if (w->column >= w->columns) {
		if (++w->unit >= w->to)
			return 0;
		struct strip *done = w->now;
		w->column = 0;
		w->now = w->next;
		w->next = done;
		if (w->unit + 1 < w->to)
			find_strip(w->next, w->a, w->unit + 1);
	}
	look_ahead(w);
	return 1;
}

// Unpacks row r of the block that the walk stands at.
fn void NAME(unpack_row)(int int4, int shift, const struct walk *w, int r, uint16_t *tiles)
{
	if (w->ahead) {
		const char *p = (const char *)w->ahead->codes[r] + (int4 ? w->ahead_column / 2 : w->ahead_column);
		for (int i = 0; i < (int4 ? BLOCK / 2 : BLOCK); i += 64)
			_mm_prefetch(p + i, _MM_HINT_T0);
		_mm_prefetch((const char *)w->ahead->scales[r] + 2 * (w->ahead_column >> shift), _MM_HINT_T0);
	}
	const uint8_t *codes = w->now->codes[r] + (int4 ? w->column / 2 : w->column), *scales = w->now->scales[r] + 2 * (w->column >> shift);
	uint16_t *dst = tiles + r / SIDE * STEPS * TILE + r % SIDE * STEP;
	if (w->columns - w->column >= BLOCK)
		NAME(unpack)(int4, shift, BLOCK, dst, codes, scales);
	else
		NAME(unpack)(int4, shift, w->columns - w->column, dst, codes, scales);
}

// Sums of one or two weight tiles with one or two activation tiles over a block, while rows of the next block are unpacked.
TARGET static inline __attribute__((always_inline)) void NAME(multiply)(int two, int int4, int shift, float *sums, int load, int store, const uint16_t *tiles,
	const uint16_t *x, int64_t x_apart, int columns, int steps, const struct walk *ahead, int *row, int per, uint16_t *into)
{
	const int64_t sum = SIDE * columns, stride = 4 * columns, x_step = SIDE * columns * 2;
	if (load > 1) {
		_tile_loadd(0, sums, stride);
		_tile_loadd(2, sums + sum, stride);
		if (two) {
			_tile_loadd(1, sums + 2 * sum, stride);
			_tile_loadd(3, sums + 3 * sum, stride);
		}
	} else if (load) {
		_tile_zero(0);
		_tile_zero(2);
		if (two) {
			_tile_zero(1);
			_tile_zero(3);
		}
	}
	for (int i = 0; i < steps; i++, tiles += TILE, x += x_step) {
		for (int stop = *row + per < STRIP ? *row + per : STRIP; *row < stop; ++*row)
			NAME(unpack_row)(int4, shift, ahead, *row, into);
		_tile_loadd(4, tiles, 64);
		_tile_loadd(6, x, stride);
		if (two)
			_tile_loadd(7, x + x_apart, stride);
		_tile_loadd(5, tiles + STEPS * TILE, 64);
		_tile_dpbf16ps(0, 4, 6);
		if (two)
			_tile_dpbf16ps(1, 4, 7);
		_tile_dpbf16ps(2, 5, 6);
		if (two)
			_tile_dpbf16ps(3, 5, 7);
	}
	if (store) {
		_tile_stored(0, sums, stride);
		_tile_stored(2, sums + sum, stride);
		if (two) {
			_tile_stored(1, sums + 2 * sum, stride);
			_tile_stored(3, sums + 3 * sum, stride);
		}
	}
}

// Bias, activation, residual and store of a strip's sums [⌈m/16⌉][2][16][columns].
TARGET static void NAME(finish)(const struct cpu_linear *a, int32_t unit, const float *sums, int columns, struct cpu_top *top)
{
	const int swiglu = a->act == CPU_SWIGLU;
	const __mmask16 lanes = (__mmask16)((1 << columns) - 1);
	for (int32_t m = 0; m < a->m; m += SIDE, sums += 2 * SIDE * columns) {
		__m512 v[2][SIDE];
		for (int h = 0; h < 2; h++) {
			for (int i = 0; i < SIDE && columns > 1; i++)
				v[h][i] = _mm512_maskz_loadu_ps(lanes, sums + (h * SIDE + i) * columns);
			if (columns > 1)
				NAME(transpose)(v[h]);
			else
				v[h][0] = _mm512_loadu_ps(sums + h * SIDE);
		}
		const int rows = a->m - m < SIDE ? a->m - m : SIDE;
		for (int h = 0; h < (swiglu ? 1 : 2); h++) {
			const int32_t n = unit * (swiglu ? SIDE : STRIP) + h * SIDE, left = a->outputs - n;
			if (left <= 0)
				break;
			const __mmask16 some = left >= 16 ? 0xffff : (__mmask16)((1 << left) - 1);
			__m512 bias = _mm512_setzero_ps(), up_bias = bias;
			if (a->bias) {
				bias = _mm512_maskz_loadu_ps(some, a->bias + n);
				if (swiglu)
					up_bias = _mm512_maskz_loadu_ps(some, a->bias + a->outputs + n);
			}
			for (int i = 0; i < rows; i++) {
				__m512 y = v[h][i] + bias;
				const int64_t at = (int64_t)(m + i) * a->outputs + n;
				if (swiglu) {
					y = y / (_mm512_set1_ps(1) + NAME(v_exp)(-y)) * (v[1][i] + up_bias);
				} else if (a->act == CPU_GELU) {
					float g[16];
					_mm512_storeu_ps(g, y);
					for (int j = 0; j < 16; j++)
						g[j] = 0.5f * g[j] * erfcf(-0x1.6a09e6p-1f * g[j]);
					y = _mm512_loadu_ps(g);
				}
				if (a->residual)
					y += _mm512_maskz_loadu_ps(some, a->residual + at);
				if (!top) {
					_mm512_mask_storeu_ps(a->y + at, some, y);
					continue;
				}
				unsigned over = _mm512_mask_cmp_ps_mask(some, y, _mm512_set1_ps(top[m + i].next), _CMP_NLE_UQ);
				for (; over; over &= over - 1) {
					const int j = __builtin_ctz(over);
					float logits[16];
					_mm512_storeu_ps(logits, y);
					cpu_top_add(&top[m + i], logits[j], n + j);
				}
			}
		}
	}
}

TARGET static inline __attribute__((always_inline)) void NAME(strips)(int int4, int shift, const struct cpu_linear *a, int32_t from, int32_t to,
	struct cpu_top *top, float *scratch)
{
	const int columns = tile_columns(a->m);
	const int32_t steps = steps_of(a->w->cols), tiles_m = ceil_div(a->m, SIDE), pairs = ceil_div(tiles_m, 2);
	const int64_t x_apart = (int64_t)steps * SIDE * columns * 2;
	uint16_t *const buffers = (uint16_t *)scratch;
	float *const sums = scratch + STRIP * BLOCK; // behind two blocks
	const int per = ceil_div(STRIP, pairs * (steps < STEPS ? steps : STEPS));

	struct strip strips[2];
	struct walk w = {.a = a, .unit = from, .to = to, .columns = STEP * ceil_div(a->w->cols, STEP), .now = &strips[0], .next = &strips[1]};
	find_strip(w.now, a, from);
	if (from + 1 < to)
		find_strip(w.next, a, from + 1);
	look_ahead(&w);
	for (int r = 0; r < STRIP; r++)
		NAME(unpack_row)(int4, shift, &w, r, buffers);
	for (int more = 1, turn = 0; more; turn ^= 1) {
		const int32_t unit = w.unit, step = w.column / STEP;
		const int here = steps - step < STEPS ? steps - step : STEPS, last = step + here == steps;
		more = advance(&w);
		const uint16_t *tiles = buffers + turn * STRIP * BLOCK;
		uint16_t *into = buffers + (turn ^ 1) * STRIP * BLOCK;
		const int store = last || pairs > 1, load = step == 0 ? 1 : pairs > 1 ? 2 : 0;
		int row = more ? 0 : STRIP;
		for (int32_t p = 0; p < tiles_m; p += 2) {
			const uint16_t *x = (const uint16_t *)a->prepared + p * x_apart + (int64_t)step * SIDE * columns * 2;
			float *s = sums + p * 2 * SIDE * columns;
			if (p + 1 < tiles_m)
				NAME(multiply)(1, int4, shift, s, load, store, tiles, x, x_apart, columns, here, &w, &row, per, into);
			else
				NAME(multiply)(0, int4, shift, s, load, store, tiles, x, x_apart, columns, here, &w, &row, per, into);
		}
		for (; row < STRIP; row++)
			NAME(unpack_row)(int4, shift, &w, row, into);
		if (last)
			NAME(finish)(a, unit, sums, columns, top);
	}
}

#define STRIPS(format, shift) \
	TARGET static void NAME(strips_##format##_##shift)(const struct cpu_linear *a, int32_t from, int32_t to, struct cpu_top *top, float *scratch) \
	{ \
		NAME(strips)(format == CPU_INT4, shift, a, from, to, top, scratch); \
	}
STRIPS(CPU_INT4, 5)
STRIPS(CPU_INT4, 6)
STRIPS(CPU_INT4, 7)
STRIPS(CPU_INT8, 5)
STRIPS(CPU_INT8, 6)
STRIPS(CPU_INT8, 7)

TARGET void cpu_grouped_amx(const void *args, int32_t chunk, float *scratch)
{
	const struct cpu_linear *a = args;
	CPU_CHUNK(a, chunk, from, to);
	struct cpu_top *top = cpu_tops(a, chunk, from * STRIP);
	const int columns = tile_columns(a->m);
	struct tile_config config = {.palette = 1};
	for (int t = 0; t < 8; t++) {
		config.rows[t] = SIDE;
		config.row_bytes[t] = (uint16_t)(t == 4 || t == 5 ? 64 : 4 * columns);
	}
	_tile_loadconfig(&config);
	static void (*const strips[2][3])(const struct cpu_linear *, int32_t, int32_t, struct cpu_top *, float *) = {
		{NAME(strips_CPU_INT8_5), NAME(strips_CPU_INT8_6), NAME(strips_CPU_INT8_7)},
		{NAME(strips_CPU_INT4_5), NAME(strips_CPU_INT4_6), NAME(strips_CPU_INT4_7)},
	};
	strips[a->w->parts->format == CPU_INT4][a->w->parts->group_shift - 5](a, from, to, top, scratch);
	_tile_release();
}
#endif
