// Linear over int8 and int4 weights for many activation rows, in AMX tiles of int8.
//
// The arithmetic is that of integer.c with AVX-512 VNNI, to the bit, and few rows are left to it. A tile multiplies 32 columns
// of up to 16 activation rows with those of 16 weight rows; its products are exact. Work goes by strips: 32 weight rows, or 16
// gate rows with their 16 up rows. A strip is unpacked once; then the blocks of all activations pass over it, every fourth
// block of columns by turns, because each product has four sums. Long rows go in panels, so that what a turn needs of a tile
// of activations and of the strip stays in the first cache.
//
// The tile unit works off its queue in order and takes long, so products are stored well after they are begun and used well
// after they are stored. While it is busy only one port of two multiplies and converts vectors, but both add: products become
// floats by adding 1.5·2²³ as integers and taking it off again.
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
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,amx-tile,amx-int8")))
#include "norm.h"
#include "quantize.h"
#include "transpose.h"

enum {
	FEW = 8,             // activation rows that VNNI is quicker with
	SIDE = CPU_SIDE,     // rows of a tile
	TURNS = 4,           // blocks of a stage
	STAGE = TURNS * CPU_BLOCK,
	STRIP = 2 * SIDE,    // weight rows
	BLOCK = 64 + SIDE * CPU_BLOCK, // bytes of a block of either side: scales [16], codes
	FLIGHT = 4,          // tiles of products that are being made
	PANEL = 16,          // stages
	SQUARE = SIDE * SIDE,
};

// Tiles: products 0..3, activations 4 and 5, weights 6 and 7.
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

void cpu_prepare_avx512vnni(const void *args, int32_t chunk, float *scratch);
void cpu_integer_avx512vnni(const void *args, int32_t chunk, float *scratch);

// Activations [m][k] become blocks [⌈m/16⌉][4][stages] of codes [16][32], filled up with zeros. int4 codes of weights come out
// of their nibbles times 16, which the scales take back.
TARGET void cpu_prepare_amx(const void *args, int32_t chunk, float *scratch)
{
	const struct cpu_prepare *a = args;
	if (a->m <= FEW) {
		struct cpu_prepare few = *a;
		few.units = a->m;
		few.per = SIDE;
		cpu_prepare_avx512vnni(&few, chunk, scratch);
		return;
	}
	CPU_CHUNK(a, chunk, from, to);
	const int32_t stages = ceil_div(a->k, STAGE);
	const float back = a->format == CPU_INT4 ? 0x1p-4f : 1;
	for (int32_t t = from; t < to; t++) {
		const int32_t rows = a->m - t * SIDE < SIDE ? a->m - t * SIDE : SIDE;
		uint8_t *const tile = (uint8_t *)a->prepared + (int64_t)t * TURNS * stages * BLOCK;
		memset(tile, 0, (size_t)(rows < SIDE ? TURNS * stages * BLOCK : 0));
		for (int i = 0; i < rows; i++) {
			const float factor = NAME(row_factor)(a, t * SIDE + i);
			for (int32_t b = 0; b < TURNS * stages; b++) {
				uint8_t *const block = tile + (int64_t)(b % TURNS * stages + b / TURNS) * BLOCK;
				float v[CPU_BLOCK];
				NAME(take_block)(a, t * SIDE + i, factor, b * CPU_BLOCK, v);
				((float *)block)[i] = NAME(quantize)(v, (int8_t *)block + 64 + i * CPU_BLOCK) * back;
			}
		}
	}
}

// A strip's weight rows: two halves.
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

// Unpacks a stage of 16 rows to a block for each turn, apart bytes from one to the next; their codes are [8][16][4]. Columns
// that are not stored become zero.
fn void NAME(unpack_stage)(int int4, int shift, int32_t columns, uint8_t *out, int64_t apart, const struct strip *w, int32_t stage,
	int first)
{
	const int32_t bytes = int4 ? columns / 2 : columns;
	const int64_t at = (int64_t)stage * (int4 ? STAGE / 2 : STAGE), scale_at = 2 * (int64_t)stage * (STAGE >> shift);
	const __mmask8 some = (__mmask8)((1 << ((columns + (1 << shift) - 1) >> shift)) - 1);
	__m128i scales[SIDE];
	for (int r = 0; r < SIDE; r++) {
		scales[r] = _mm_maskz_loadu_epi16(some, w->scales[first + r] + scale_at);
	}
	for (int i = 0; i < (int4 ? 1 : 2); i++) {
		const __mmask64 stored = bytes - 64 * i >= 64 ? ~0ull : bytes > 64 * i ? ~0ull >> (64 * (i + 1) - bytes) : 0;
		__m512 v[SIDE];
		for (int r = 0; r < SIDE; r++)
			v[r] = _mm512_castsi512_ps(_mm512_maskz_loadu_epi8(stored, w->codes[first + r] + at + 64 * i));
		NAME(transpose)(v);
		for (int j = 0; j < SIDE; j++) {
			const __m512i c = _mm512_castps_si512(v[j]);
			if (int4) {
				// Low nibbles moved up, high ones as they are. A code's top bit is flipped, which takes 8 off, times 16.
				uint8_t *const codes = out + j / 4 * apart + 64 + j % 4 * 64;
				const __m512i mask = _mm512_set1_epi8(-16), flip = _mm512_set1_epi8(-128);
				_mm512_store_si512(codes, _mm512_ternarylogic_epi64(_mm512_slli_epi64(c, 4), mask, flip, 0x6a)); // c & mask ^ flip
				_mm512_store_si512(codes + 256, _mm512_ternarylogic_epi64(c, mask, flip, 0x6a));
			} else {
				_mm512_store_si512(out + (2 * i + j / 8) * apart + 64 + j % 8 * 64, c);
			}
		}
	}
	__m512 s[TURNS];
	for (int i = 0; i < TURNS; i++) {
		const __m128i a = _mm_unpacklo_epi64(scales[i], scales[4 + i]), b = _mm_unpacklo_epi64(scales[8 + i], scales[12 + i]);
		s[i] = _mm512_cvtph_ps(_mm256_set_m128i(b, a)); // lane l: the scales of row 4l + i
	}
	const __m512 a = _mm512_unpacklo_ps(s[0], s[1]), b = _mm512_unpackhi_ps(s[0], s[1]);
	const __m512 c = _mm512_unpacklo_ps(s[2], s[3]), d = _mm512_unpackhi_ps(s[2], s[3]);
	s[0] = _mm512_shuffle_ps(a, c, 0x44);
	s[1] = _mm512_shuffle_ps(a, c, 0xee);
	s[2] = _mm512_shuffle_ps(b, d, 0x44);
	s[3] = _mm512_shuffle_ps(b, d, 0xee);
	for (int i = 0; i < TURNS; i++)
		_mm512_store_ps(out + i * apart, s[i * CPU_BLOCK >> shift]);
}

// Unpacks a strip to blocks [2][4][stages].
fn void NAME(unpack)(int int4, int shift, int32_t stored, uint8_t *out, const struct strip *w)
{
	const int64_t apart = (int64_t)ceil_div(stored, STAGE) * BLOCK;
	for (int h = 0; h < 2; h++, out += TURNS * apart) {
		int32_t s = 0;
		for (; s < stored / STAGE; s++)
			NAME(unpack_stage)(int4, shift, STAGE, out + s * BLOCK, apart, w, s, h * SIDE);
		if (stored % STAGE)
			NAME(unpack_stage)(int4, shift, stored % STAGE, out + s * BLOCK, apart, w, s, h * SIDE);
	}
}

#define UNPACK(int4, shift) \
	TARGET static void NAME(unpack_##int4##_##shift)(int32_t stored, uint8_t *out, const struct strip *w) \
	{ \
		NAME(unpack)(int4, shift, stored, out, w); \
	}
UNPACK(0, 5)
UNPACK(0, 6)
UNPACK(0, 7)
UNPACK(1, 5)
UNPACK(1, 6)
UNPACK(1, 7)
#undef UNPACK

// Fetches a strip to the second cache while the one before is worked on, some lines at a time.
struct fetch {
	const struct strip *strip;
	int32_t row, at, lines, row_bytes, scale_bytes;
};

static void fetch_some(struct fetch *f)
{
	for (int32_t i = 0; i < f->lines && f->row < STRIP; i++) {
		__builtin_prefetch(f->strip->codes[f->row] + f->at, 0, 2);
		if (f->at % 512 == 0 && f->at / 512 * 64 < f->scale_bytes)
			__builtin_prefetch(f->strip->scales[f->row] + f->at / 512 * 64, 0, 2);
		f->at += 64;
		if (f->at >= f->row_bytes) {
			f->at = 0;
			f->row++;
		}
	}
}

// A panel of the products of some tiles of activations with a strip, in this order: turns, tiles, halves of the strip, stages.
struct pass {
	const uint8_t *x, *w; // the panel's first blocks of [tiles][4][stages], [2][4][stages]
	float *sums;          // [tiles][2][4][16][16], those of earlier panels if more
	int32_t *products;    // [FLIGHT][16][16]
	struct fetch *fetch;
	int32_t stages, tiles, panel, more;
};

// A place in a pass.
struct place {
	const uint8_t *x, *w;
	int32_t left, tile, half, turn;
};

fn void NAME(next_tile)(struct place *at, const struct pass *p)
{
	if ((at->half ^= 1) == 0 && ++at->tile == p->tiles) {
		at->tile = 0;
		at->turn = (at->turn + 1) % TURNS;
	}
	at->left = p->panel;
	at->x = p->x + (int64_t)(at->tile * TURNS + at->turn) * p->stages * BLOCK;
	at->w = p->w + (int64_t)(at->half * TURNS + at->turn) * p->stages * BLOCK;
}

// Takes the products of FLIGHT blocks before from tile t and begins new ones. A tile must not be stored before its products
// are done: the tile unit would wait.
#define MAKE(t, a, b) \
	do { \
		_tile_loadd(a, ahead.x + 64, CPU_BLOCK); \
		_tile_loadd(b, ahead.w + 64, 64); \
		_tile_stored(t, p->products + (t) * SQUARE, 64); \
		_tile_zero(t); \
		_tile_dpbssd(t, a, b); \
		ahead.x += BLOCK; \
		ahead.w += BLOCK; \
		if (--ahead.left == 0) \
			NAME(next_tile)(&ahead, p); \
	} while (0)

// Sums have names, to stay in registers.
#define EACH(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) do(12) do(13) do(14) do(15)
#define DECLARE(r) __m512 sum##r;
#define START(r) \
	if (r < rows) \
		sum##r = p->more ? _mm512_load_ps(sums + r * SIDE) : _mm512_setzero_ps();
#define ADD(r) \
	if (r < rows) { \
		const __m512 v = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_load_si512(product + r * SIDE), shift)) - shifted; \
		sum##r = _mm512_fmadd_ps(v, _mm512_set1_ps(factors[r]) * scales, sum##r); \
	}
#define STORE(r) \
	if (r < rows) \
		_mm512_store_ps(sums + r * SIDE, sum##r);

// Adds the products of a block, times their scales, to the sums.
#define TAKE(t) \
	do { \
		const __m512 scales = _mm512_load_ps((const float *)at.w); \
		const float *const factors = (const float *)at.x; \
		const int32_t *const product = p->products + (t) * SQUARE; \
		EACH(ADD) \
		at.x += BLOCK; \
		at.w += BLOCK; \
		if (--at.left == 0) { \
			EACH(STORE) \
			NAME(next_tile)(&at, p); \
			sums = p->sums + ((at.tile * 2 + at.half) * TURNS + at.turn) * SQUARE; \
			EACH(START) \
		} \
	} while (0)

// Products are made seven blocks ahead of those that are taken: four are in tiles, three in memory.
fn void NAME(multiply)(int rows, const struct pass *p)
{
	static const struct tile_config configs[] = {
#define CONFIG(n) {.palette = 1, .row_bytes = {64, 64, 64, 64, 32, 32, 64, 64}, .rows = {n, n, n, n, n, n, 8, 8}}
		CONFIG(4),
		CONFIG(8),
		CONFIG(12),
		CONFIG(16),
	};
	_tile_loadconfig(&configs[rows / 4 - 1]);
	__asm__ volatile("" ::: "memory"); // what tiles are loaded from is written by now
	struct place at = {.x = p->x, .w = p->w, .left = p->panel}, ahead = at;
	const __m512i shift = _mm512_set1_epi32(0x4b400000); // 1.5·2²³
	const __m512 shifted = _mm512_castsi512_ps(shift);
	float *sums = p->sums;
	EACH(DECLARE)
	EACH(START)
	MAKE(0, 4, 6);
	MAKE(1, 5, 7);
	MAKE(2, 4, 6);
	MAKE(3, 5, 7);
	MAKE(0, 4, 6);
	MAKE(1, 5, 7);
	MAKE(2, 4, 6);
	for (int32_t left = p->panel * p->tiles * 2; left > 0; left--) { // flights
		MAKE(3, 5, 7);
		TAKE(0);
		MAKE(0, 4, 6);
		TAKE(1);
		MAKE(1, 5, 7);
		TAKE(2);
		MAKE(2, 4, 6);
		TAKE(3);
		fetch_some(p->fetch);
	}
}

#define MULTIPLY(rows) \
	TARGET static void NAME(multiply_##rows)(const struct pass *p) { NAME(multiply)(rows, p); }
MULTIPLY(4)
MULTIPLY(8)
MULTIPLY(12)
MULTIPLY(16)
#undef MULTIPLY

// Adds up the four sums of each product of a strip and finishes them, tile by tile.
TARGET static void NAME(finish)(const struct cpu_linear *a, int32_t unit, float *sums, struct cpu_top *top)
{
	const int swiglu = a->act == CPU_SWIGLU;
	for (int32_t m = 0; m < a->m; m += SIDE, sums += 2 * TURNS * SQUARE) {
		const int rows = a->m - m < SIDE ? a->m - m : SIDE;
		float *const half[2] = {sums, sums + TURNS * SQUARE};
		for (int h = 0; h < 2; h++)
			for (float *p = half[h]; p < half[h] + rows * SIDE; p += SIDE)
				_mm512_store_ps(p, (_mm512_load_ps(p) + _mm512_load_ps(p + SQUARE)) +
						   (_mm512_load_ps(p + 2 * SQUARE) + _mm512_load_ps(p + 3 * SQUARE)));
		for (int h = 0; h < (swiglu ? 1 : 2); h++) {
			const int32_t n = unit * (swiglu ? SIDE : STRIP) + h * SIDE, left = a->outputs - n;
			if (left > 0)
				cpu_finish_avx512(a, n, left < SIDE ? left : SIDE, m, rows, (void *)half[h], (void *)half[1], top);
		}
	}
}

TARGET void cpu_tiles_amx(const void *args, int32_t chunk, float *scratch)
{
	static void (*const unpack[2][3])(int32_t, uint8_t *, const struct strip *) = {
		{NAME(unpack_0_5), NAME(unpack_0_6), NAME(unpack_0_7)},
		{NAME(unpack_1_5), NAME(unpack_1_6), NAME(unpack_1_7)},
	};
	static void (*const multiply[])(const struct pass *) = {NAME(multiply_4), NAME(multiply_8), NAME(multiply_12)};
	const struct cpu_linear *a = args;
	if (a->m <= FEW) {
		struct cpu_linear few = *a;
		few.units = ceil_div(a->outputs, a->act == CPU_SWIGLU ? CPU_TILE / 2 : CPU_TILE);
		few.per = a->per * (STRIP / CPU_TILE);
		cpu_integer_avx512vnni(&few, chunk, scratch);
		return;
	}
	CPU_CHUNK(a, chunk, from, to);
	struct cpu_top *top = cpu_tops(a, chunk, from * STRIP);
	const struct cpu_part *part = a->w->parts;
	const int32_t stages = ceil_div(a->w->cols, STAGE), stored = (int32_t)cpu_padded(a->w->cols);
	const int32_t last = ceil_div(a->m % SIDE, 4) % 4, tiles = (a->m + 3) / SIDE; // of 16 rows; last: of rows / 4 beyond them
	float *const sums = scratch + FLIGHT * SQUARE;
	uint8_t *const w = (uint8_t *)(sums + ceil_div(a->m, SIDE) * 2 * TURNS * SQUARE);
	const int32_t flights = stages * ceil_div(a->m, SIDE) * 2; // of a strip
	struct fetch fetch = {
		.row_bytes = (int32_t)part->row_bytes,
		.scale_bytes = 2 * part->groups,
		.lines = ceil_div(STRIP * ceil_div((int32_t)part->row_bytes, 64), flights),
	};
	struct pass whole = {.sums = sums, .products = (int32_t *)scratch, .fetch = &fetch, .stages = stages, .tiles = tiles};
	struct pass rest = whole;
	rest.sums += tiles * 2 * TURNS * SQUARE;
	rest.tiles = 1;
	struct strip strips[2], *now = &strips[0], *next = &strips[1];
	find_strip(now, a, from);
	for (int32_t unit = from; unit < to; unit++) {
		const int more = unit + 1 < to;
		if (more)
			find_strip(next, a, unit + 1);
		fetch.strip = next;
		fetch.row = more ? 0 : STRIP;
		fetch.at = 0;
		unpack[part->format == CPU_INT4][part->group_shift - 5](stored, w, now);
		for (int32_t s = 0; s < stages; s += PANEL) {
			whole.panel = rest.panel = stages - s < PANEL ? stages - s : PANEL;
			whole.more = rest.more = s > 0;
			whole.w = rest.w = w + s * BLOCK;
			whole.x = (const uint8_t *)a->prepared + s * BLOCK;
			rest.x = whole.x + (int64_t)tiles * TURNS * stages * BLOCK;
			if (tiles)
				NAME(multiply_16)(&whole);
			if (last)
				multiply[last - 1](&rest);
		}
		NAME(finish)(a, unit, sums, top);
		struct strip *done = now;
		now = next;
		next = done;
	}
	_tile_release();
}
#else
#include "cpu.h"

int32_t cpu_amx_permit(void) { return 0; }
#endif
