// Linear over int8 and int4 weights for many activation rows, in AMX tiles of int8.
//
// The arithmetic is that of integer.c with AVX-512 VNNI, to the bit, and few rows are left to it. A tile multiplies a block
// of 32 columns of 16 weight rows with 16 activation rows; its products are exact. Work goes by strips: 32 weight rows, or 16
// gate rows with their 16 up rows, one half after the other. A half is unpacked once; then tile after tile of activations
// passes over it, with four sums for each product, by turns.
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
	BLOCKS = 4,          // of a stage
	STAGE = BLOCKS * CPU_BLOCK,
	STRIP = 2 * SIDE,    // weight rows
	PAIR = SIDE * 64,    // bytes of two blocks of 16 rows, side by side
	CODES = 2 * PAIR,    // bytes of a stage
	FLIGHT = 4,          // tiles of products under way
	PREPARED = 64 + SIDE * CPU_BLOCK, // bytes of a block of activations: scales [16], codes [8][16][4]
};

// Tiles: products 0..3, weights 4 and 5, activations 6 and 7.
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

// Activations [m][k] become blocks [⌈m/16⌉][stages][4], filled up with zeros. int4 codes come out of their nibbles times 16,
// which the scales take back.
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
	const int32_t blocks = BLOCKS * ceil_div(a->k, STAGE);
	for (int32_t t = from; t < to; t++) {
		const int32_t rows = a->m - t * SIDE < SIDE ? a->m - t * SIDE : SIDE;
		float factor[SIDE];
		for (int i = 0; i < rows; i++)
			factor[i] = NAME(row_factor)(a, t * SIDE + i);
		uint8_t *out = (uint8_t *)a->prepared + (int64_t)t * blocks * PREPARED;
		for (int32_t b = 0; b < blocks; b++, out += PREPARED) {
			__m512 codes[SIDE];
			float scales[SIDE] = {0};
			for (int i = 0; i < SIDE; i++) {
				float v[CPU_BLOCK];
				int8_t c[CPU_BLOCK] = {0};
				if (i < rows) {
					NAME(take_block)(a, t * SIDE + i, factor[i], b * CPU_BLOCK, v);
					scales[i] = NAME(quantize)(v, c) * (a->format == CPU_INT4 ? 0x1p-4f : 1);
				}
				codes[i] = _mm512_castsi512_ps(_mm512_zextsi256_si512(_mm256_loadu_si256((const void *)c)));
			}
			NAME(transpose)(codes);
			memcpy(out, scales, sizeof scales);
			for (int p = 0; p < CPU_BLOCK / 4; p++)
				_mm512_storeu_ps(out + 64 + 64 * p, codes[p]);
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

// Unpacks 16 rows to codes [stages][2][16][64] and scales [stages][16][4]; columns that are not stored become zero. The 16
// rows that follow, if any, are fetched from memory meanwhile.
fn void NAME(unpack_stage)(int int4, int shift, int32_t columns, uint8_t *codes, float *scales, const struct strip *w, const struct strip *next, int32_t stage, int first)
{
	const int64_t at = (int64_t)stage * (int4 ? STAGE / 2 : STAGE), scale_at = 2 * (int64_t)stage * (STAGE >> shift);
	const __mmask8 some = (__mmask8)((1 << ((columns + (1 << shift) - 1) >> shift)) - 1);
	const __m512i counts = _mm512_set_epi64(0, 0, 4, 4, 0, 0, 4, 4), mask = _mm512_set1_epi8(-16), flip = _mm512_set1_epi8(-128);
	for (int r = 0; r < SIDE; r++) {
		if (next) {
			for (int64_t i = 0; i < (int4 ? STAGE / 2 : STAGE); i += 64)
				_mm_prefetch((const char *)next->codes[(first ^ SIDE) + r] + at + i, _MM_HINT_T1);
			_mm_prefetch((const char *)next->scales[(first ^ SIDE) + r] + scale_at, _MM_HINT_T1);
		}
		_mm_storeu_ps(scales + BLOCKS * r, _mm_cvtph_ps(_mm_maskz_loadu_epi16(some, w->scales[first + r] + scale_at)));
		const uint8_t *p = w->codes[first + r] + at;
		for (int i = 0; i < 2; i++) {
			const int32_t left = columns - i * 64;
			__m512i v;
			if (int4) {
				const __m256i n = left >= 64 ? _mm256_loadu_si256((const void *)(p + 32 * i))
							     : _mm256_maskz_loadu_epi8(left > 0 ? 0xffff : 0, p + 32 * i);
				// Each block twice: its low nibbles moved up, its high ones as they are. A code's top bit is flipped, which
				// takes 8 off, times 16.
				v = _mm512_permutexvar_epi64(_mm512_set_epi64(3, 2, 3, 2, 1, 0, 1, 0), _mm512_castsi256_si512(n));
				v = _mm512_ternarylogic_epi64(_mm512_sllv_epi64(v, counts), mask, flip, 0x6a); // v & mask ^ flip
			} else {
				v = _mm512_maskz_loadu_epi8(left >= 64 ? ~0ull : left > 0 ? 0xffffffff : 0, p + 64 * i);
			}
			_mm512_store_si512(codes + i * PAIR + r * 64, v);
		}
	}
}

fn void NAME(unpack)(int int4, int shift, int32_t stored, uint8_t *codes, float *scales, const struct strip *w, const struct strip *next, int first)
{
	int32_t s = 0;
	for (; s < stored / STAGE; s++)
		NAME(unpack_stage)(int4, shift, STAGE, codes + s * CODES, scales + s * SIDE * BLOCKS, w, next, s, first);
	if (stored % STAGE)
		NAME(unpack_stage)(int4, shift, stored % STAGE, codes + s * CODES, scales + s * SIDE * BLOCKS, w, next, s, first);
}

// One tile of products: a block of weights with a block of activations.
#define PRODUCT(t, weights, activations) \
	do { \
		_tile_zero(t); \
		_tile_loadd(weights, codes + (t) * CODES, 64); \
		_tile_loadd(activations, x + 64 + (int64_t)(t) * BLOCKS * PREPARED, 64); \
		_tile_dpbssd(t, weights, activations); \
	} while (0)

// Products [stages][16][16] of one block of each of up to FLIGHT stages.
fn void NAME(multiply)(int32_t *products, const uint8_t *codes, const uint8_t *x, int32_t stages)
{
	PRODUCT(0, 4, 6);
	if (stages > 1)
		PRODUCT(1, 5, 7);
	if (stages > 2)
		PRODUCT(2, 4, 6);
	if (stages > 3)
		PRODUCT(3, 5, 7);
	_tile_stored(0, products, 64);
	if (stages > 1)
		_tile_stored(1, products + 256, 64);
	if (stages > 2)
		_tile_stored(2, products + 512, 64);
	if (stages > 3)
		_tile_stored(3, products + 768, 64);
}

// Adds them, times their scales, to the sums of 16 weight rows.
fn void NAME(add_up)(__m512 sums[SIDE], const int32_t *products, const float *scales, const uint8_t *x, int32_t stages)
{
	for (int s = 0; s < stages; s++, products += 256, scales += SIDE * BLOCKS, x += BLOCKS * PREPARED) {
		const __m512 xs = _mm512_loadu_ps(x);
#pragma GCC unroll 16
		for (int r = 0; r < SIDE; r++)
			sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(products + r * SIDE)), xs * _mm512_set1_ps(scales[BLOCKS * r]), sums[r]);
	}
}

// The sums over every fourth block of 16 weight rows with 16 activation rows. The products of one flight are made while those
// of the one before are added up.
TARGET static void NAME(quarter)(__m512 sums[SIDE], const uint8_t *codes, const float *scales, const uint8_t *x, int32_t stages, int32_t *products)
{
	__m512 acc[SIDE];
	for (int r = 0; r < SIDE; r++)
		acc[r] = _mm512_setzero_ps();
	int turn = 0;
	for (int32_t s = 0; s < stages; s += FLIGHT, turn ^= 1) {
		NAME(multiply)(products + turn * FLIGHT * 256, codes + s * CODES, x + (int64_t)s * BLOCKS * PREPARED, stages - s);
		if (s) {
			const int32_t before = s - FLIGHT;
			NAME(add_up)(acc, products + (turn ^ 1) * FLIGHT * 256, scales + before * SIDE * BLOCKS, x + (int64_t)before * BLOCKS * PREPARED, FLIGHT);
		}
	}
	const int32_t before = (stages - 1) / FLIGHT * FLIGHT;
	NAME(add_up)(acc, products + (turn ^ 1) * FLIGHT * 256, scales + before * SIDE * BLOCKS, x + (int64_t)before * BLOCKS * PREPARED, stages - before);
	for (int r = 0; r < SIDE; r++)
		sums[r] = acc[r];
}

// Finishes a strip's sums [⌈m/16⌉][2][16][16].
TARGET static void NAME(finish)(const struct cpu_linear *a, int32_t unit, const float *sums, struct cpu_top *top)
{
	const int swiglu = a->act == CPU_SWIGLU;
	for (int32_t m = 0; m < a->m; m += SIDE, sums += 2 * SIDE * SIDE) {
		__m512 v[2][SIDE];
		for (int h = 0; h < 2; h++) {
			for (int i = 0; i < SIDE; i++)
				v[h][i] = _mm512_loadu_ps(sums + (h * SIDE + i) * SIDE);
			NAME(transpose)(v[h]);
		}
		for (int h = 0; h < (swiglu ? 1 : 2); h++) {
			const int32_t n = unit * (swiglu ? SIDE : STRIP) + h * SIDE, left = a->outputs - n;
			for (int i = 0; i < SIDE && m + i < a->m && left > 0; i++) {
				float y[SIDE], up[SIDE];
				_mm512_storeu_ps(y, v[h][i]);
				_mm512_storeu_ps(up, v[1][i]);
				cpu_finish_avx512(a, n, left < SIDE ? left : SIDE, m + i, y, up, top);
			}
		}
	}
}

TARGET void cpu_tiles_amx(const void *args, int32_t chunk, float *scratch)
{
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
	const int32_t stages = ceil_div(a->w->cols, STAGE), stored = (int32_t)cpu_padded(a->w->cols), tiles = ceil_div(a->m, SIDE);
	struct tile_config config = {.palette = 1};
	for (int t = 0; t < 8; t++) {
		config.rows[t] = t < 6 ? SIDE : CPU_BLOCK / 4;
		config.row_bytes[t] = t == 4 || t == 5 ? CPU_BLOCK : 64;
	}
	_tile_loadconfig(&config);
	float *const sums = scratch; // [tiles][2][16][16]
	int32_t *const products = (int32_t *)(sums + tiles * 2 * SIDE * SIDE);
	float *const scales = (float *)(products + 2 * FLIGHT * SIDE * SIDE);
	uint8_t *const codes = (uint8_t *)(scales + stages * SIDE * BLOCKS);
	struct strip strips[2], *now = &strips[0], *next = &strips[1];
	find_strip(now, a, from);
	for (int32_t unit = from; unit < to; unit++) {
		const int more = unit + 1 < to;
		if (more)
			find_strip(next, a, unit + 1);
		for (int h = 0; h < 2; h++) {
			const struct strip *then = !h ? now : more ? next : NULL;
			switch (part->group_shift * 2 + (part->format == CPU_INT4)) {
#define UNPACK(int4, shift) \
	case shift * 2 + int4: \
		NAME(unpack)(int4, shift, stored, codes, scales, now, then, h * SIDE); \
		break;
				UNPACK(0, 5)
				UNPACK(0, 6)
				UNPACK(0, 7)
				UNPACK(1, 5)
				UNPACK(1, 6)
				UNPACK(1, 7)
			}
			for (int32_t t = 0; t < tiles; t++) {
				const uint8_t *x = (const uint8_t *)a->prepared + (int64_t)t * stages * BLOCKS * PREPARED;
				__m512 q[BLOCKS][SIDE];
				for (int b = 0; b < BLOCKS; b++)
					NAME(quarter)(q[b], codes + b / 2 * PAIR + b % 2 * CPU_BLOCK, scales + (b * CPU_BLOCK >> part->group_shift), x + b * PREPARED, stages, products);
				for (int r = 0; r < SIDE; r++)
					_mm512_storeu_ps(sums + ((t * 2 + h) * SIDE + r) * SIDE, (q[0][r] + q[1][r]) + (q[2][r] + q[3][r]));
			}
		}
		NAME(finish)(a, unit, sums, top);
		struct strip *done = now;
		now = next;
		next = done;
	}
	_tile_release();
}
#endif
