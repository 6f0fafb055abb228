// Linear over int8 and int4 weights in integer dot products.
//
// Every 32 columns of an activation row become int8 codes with a scale, largest magnitude / 127. The dot product of the
// codes of such a block is exact; times both scales it is added to float sums in a fixed order, so that a result depends on
// its two rows alone. An activation is off by at most half a scale, so that a result is within 1/254 · Σ over blocks of
// (largest |x|) · Σ|w|; a block below 2⁻¹⁰⁰ counts as zero, one with a value that is not finite as NaN.
//
// Weights enter as unsigned bytes, nibbles 0..15 and codes + 128; the excess goes off with what a block's sum starts from.
// Without VNNI int8 weights enter as magnitudes and the activations take their signs: two products then fit 16 bits.
#ifndef ISA
#if defined(__x86_64__)
#include "cpu.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define CAT2(a, b) a##_##b
#define CAT(a, b) CAT2(a, b)
#define NAME(f) CAT(f, ISA)

#define ISA avx2
#define LEVEL 1
#define VNNI 0
#include "integer.c"

#define ISA avxvnni
#define LEVEL 1
#define VNNI 1
#include "integer.c"

#define ISA avx512
#define LEVEL 2
#define VNNI 0
#include "integer.c"

#define ISA avx512vnni
#define LEVEL 2
#define VNNI 1
#include "integer.c"
#endif
#else
#include "simd.h"
#undef vi
#undef BYTES
#define vi NAME(vi)
#if LEVEL == 2
#if VNNI
#undef TARGET
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")))
#endif
enum { NAME(BYTES) = 64 };
typedef __m512i vi;
fn vi NAME(i_load)(const void *p) { return _mm512_loadu_si512(p); }
fn vi NAME(i_zero)(void) { return _mm512_setzero_si512(); }
fn vi NAME(i_low)(vi a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
fn vi NAME(i_high)(vi a) { return NAME(i_low)(_mm512_srli_epi16(a, 4)); }
fn vf NAME(i_float)(vi a) { return _mm512_cvtepi32_ps(a); }
#if VNNI
fn vi NAME(i_dot)(vi sum, vi u, vi s) { return _mm512_dpbusd_epi32(sum, u, s); }
fn vi NAME(i_dot_signed)(vi sum, vi w, vi x) { return NAME(i_dot)(sum, _mm512_xor_si512(w, _mm512_set1_epi8(-128)), x); }
#else
fn vi NAME(i_dot)(vi sum, vi u, vi s)
{
	return _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(u, s), _mm512_set1_epi16(1)));
}
fn vi NAME(i_dot_signed)(vi sum, vi w, vi x)
{
	const vi s = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
	return NAME(i_dot)(sum, _mm512_abs_epi8(w), s);
}
#endif
// Up to four scales, by lanes as spread says.
fn vf NAME(i_scales)(const uint8_t *p, int count, vi spread)
{
	const __m128i h = _mm_maskz_loadu_epi16((__mmask8)((1 << count) - 1), p);
	return _mm512_permutexvar_ps(spread, _mm512_castps128_ps512(_mm_cvtph_ps(h)));
}
#else
#if VNNI
#undef TARGET
#define TARGET __attribute__((target("avx2,fma,f16c,avxvnni")))
#endif
enum { NAME(BYTES) = 32 };
typedef __m256i vi;
fn vi NAME(i_load)(const void *p) { return _mm256_loadu_si256(p); }
fn vi NAME(i_zero)(void) { return _mm256_setzero_si256(); }
fn vi NAME(i_low)(vi a) { return _mm256_and_si256(a, _mm256_set1_epi8(15)); }
fn vi NAME(i_high)(vi a) { return NAME(i_low)(_mm256_srli_epi16(a, 4)); }
fn vf NAME(i_float)(vi a) { return _mm256_cvtepi32_ps(a); }
#if VNNI
fn vi NAME(i_dot)(vi sum, vi u, vi s) { return _mm256_dpbusd_avx_epi32(sum, u, s); }
fn vi NAME(i_dot_signed)(vi sum, vi w, vi x) { return NAME(i_dot)(sum, _mm256_xor_si256(w, _mm256_set1_epi8(-128)), x); }
#else
fn vi NAME(i_dot)(vi sum, vi u, vi s)
{
	return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1)));
}
fn vi NAME(i_dot_signed)(vi sum, vi w, vi x) { return NAME(i_dot)(sum, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w)); }
#endif
fn vf NAME(i_scales)(const uint8_t *p, int count, vi spread)
{
	int two = p[0] | p[1] << 8;
	if (count > 1)
		memcpy(&two, p, sizeof two);
	return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_cvtph_ps(_mm_cvtsi32_si128(two))), spread);
}
#endif
#define BYTES NAME(BYTES)
#include "norm.h"
#include "tile.h"

// Prepared activations: for every 2·BYTES columns two vectors of codes, then one (int4) or two (int8) of what the sums start
// from, then as many of scales. Codes lie as the weights come out of their bytes.
fn int NAME(sums)(int format) { return format == CPU_INT4 ? 1 : 2; }
fn int NAME(unit_bytes)(int format) { return (2 + 2 * NAME(sums)(format)) * BYTES; }
TARGET static int64_t NAME(row_bytes)(int format, int32_t k) { return (int64_t)((k + 2 * BYTES - 1) / (2 * BYTES)) * NAME(unit_bytes)(format); }

TARGET static void NAME(quantize)(int format, const float x[CPU_BLOCK], uint8_t *unit, int block)
{
	uint32_t bits[CPU_BLOCK], top = 0;
	memcpy(bits, x, sizeof bits);
	for (int i = 0; i < CPU_BLOCK; i++)
		top = top > (bits[i] & 0x7fffffff) ? top : bits[i] & 0x7fffffff;
	float largest;
	memcpy(&largest, &top, sizeof largest);
	const int finite = top < 0x7f800000;
	const float inverse = finite && largest >= 0x1p-100f ? 127 / largest : 0, scale = finite ? (inverse != 0 ? largest / 127 : 0) : NAN;
	int8_t codes[CPU_BLOCK] = {0};
	int32_t sums[CPU_BLOCK / 4] = {0};
	for (int i = 0; i < CPU_BLOCK && inverse != 0; i++) {
		const float shifted = x[i] * inverse + 0x1.8p23f;
		int32_t code;
		memcpy(&code, &shifted, sizeof code);
		codes[i] = (int8_t)(code - 0x4b400000);
		sums[i / 4] += codes[i];
	}
	int32_t *start = (int32_t *)(unit + 2 * BYTES);
	float *scales = (float *)(unit + (2 + NAME(sums)(format)) * BYTES);
	if (format == CPU_INT4) {
		memcpy(unit + block * 16, codes, 16);
		memcpy(unit + BYTES + block * 16, codes + 16, 16);
		for (int q = 0; q < 4; q++) {
			start[block * 4 + q] = -8 * (sums[q] + sums[4 + q]);
			scales[block * 4 + q] = scale;
		}
		return;
	}
	memcpy(unit + block * 32, codes, 32);
	for (int q = 0; q < 8; q++) {
		start[block * 8 + q] = VNNI ? -128 * sums[q] : 0;
		scales[block * 8 + q] = scale;
	}
}

TARGET void NAME(cpu_prepare)(const void *args, int32_t chunk, float *scratch)
{
	const struct cpu_prepare *a = args;
	CPU_CHUNK(a, chunk, from, to);
	(void)scratch;
	for (int32_t m = from; m < to; m++) {
		const float *x = a->x + (int64_t)m * a->k, *ada = cpu_ada_row(a, m);
		const float s = a->gain ? NAME(norm_factor)(x, a->k, a->eps) : 1;
		uint8_t *unit = (uint8_t *)a->prepared + m * NAME(row_bytes)(a->format, a->k);
		const int32_t blocks = 2 * BYTES / CPU_BLOCK;
		for (int32_t b = 0; b * CPU_BLOCK < a->k || b % blocks; b++) {
			float v[CPU_BLOCK] = {0};
			for (int32_t i = 0, c = b * CPU_BLOCK; i < CPU_BLOCK && c < a->k; i++, c++)
				v[i] = a->gain ? x[c] * s * a->gain[c] * (ada ? 1 + ada[c] : 1) : x[c];
			NAME(quantize)(a->format, v, unit + b / blocks * NAME(unit_bytes)(a->format), b % blocks);
		}
	}
}

// Dot products of a tile's rows with those from x on. ahead: bytes to the next tile.
fn void NAME(dots)(int format, int rows, float out[CPU_TILE][BLOCK_ROWS], const struct cpu_row w[CPU_TILE], const uint8_t *x, int64_t apart,
	int32_t cols, int64_t ahead)
{
	const int shift = w[0].group_shift, sums = NAME(sums)(format), nibbles = format == CPU_INT4;
	const int32_t stored = (int32_t)cpu_padded(cols);
	vf acc[CPU_TILE][BLOCK_ROWS];
	for (int r = 0; r < CPU_TILE; r++)
		for (int m = 0; m < rows; m++)
			acc[r][m] = NAME(v_zero)();
	// Which of a unit's groups a lane belongs to.
	vi spread[2];
	for (int v = 0; v < sums; v++) {
		int32_t of[LANES];
		for (int l = 0; l < LANES; l++)
			of[l] = (v * BYTES + l / (nibbles ? 4 : 8) * CPU_BLOCK) >> shift;
		spread[v] = NAME(i_load)(of);
	}
	for (int32_t c = 0; c < stored; c += 2 * BYTES, x += NAME(unit_bytes)(format)) {
		const int32_t left = stored - c < 2 * BYTES ? stored - c : 2 * BYTES;
		const int groups = (left + (1 << shift) - 1) >> shift;
		vi code[CPU_TILE][2];
		vf scale[CPU_TILE][2];
		for (int r = 0; r < CPU_TILE; r++) {
			const uint8_t *p = w[r].data + (nibbles ? c / 2 : c), *scales = w[r].scales + 2 * (c >> shift);
			uint8_t last[2 * BYTES];
			for (int i = 0; i < (nibbles ? BYTES : 2 * BYTES); i += 64)
				__builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)(ahead + i)));
			if (left < 2 * BYTES) {
				memset(last, 0, sizeof last);
				p = memcpy(last, p, (size_t)(nibbles ? left / 2 : left));
			}
			code[r][0] = NAME(i_load)(p);
			if (nibbles) {
				code[r][1] = NAME(i_high)(code[r][0]);
				code[r][0] = NAME(i_low)(code[r][0]);
			} else {
				code[r][1] = NAME(i_load)(p + BYTES);
			}
			for (int v = 0; v < sums; v++)
				scale[r][v] = NAME(i_scales)(scales, groups, spread[v]);
		}
		for (int m = 0; m < rows; m++) {
			const uint8_t *q = x + m * apart;
			for (int r = 0; r < CPU_TILE; r++) {
				const vi x0 = NAME(i_load)(q), x1 = NAME(i_load)(q + BYTES);
				if (nibbles) {
					const vi d = NAME(i_dot)(NAME(i_dot)(NAME(i_load)(q + 2 * BYTES), code[r][0], x0), code[r][1], x1);
					acc[r][m] = NAME(v_fma)(NAME(i_float)(d), scale[r][0] * NAME(v_load)(q + 3 * BYTES), acc[r][m]);
					continue;
				}
				const vi d0 = NAME(i_dot_signed)(VNNI ? NAME(i_load)(q + 2 * BYTES) : NAME(i_zero)(), code[r][0], x0);
				const vi d1 = NAME(i_dot_signed)(VNNI ? NAME(i_load)(q + 3 * BYTES) : NAME(i_zero)(), code[r][1], x1);
				acc[r][m] = NAME(v_fma)(NAME(i_float)(d0), scale[r][0] * NAME(v_load)(q + 4 * BYTES), acc[r][m]);
				acc[r][m] = NAME(v_fma)(NAME(i_float)(d1), scale[r][1] * NAME(v_load)(q + 5 * BYTES), acc[r][m]);
			}
		}
	}
	for (int r = 0; r < CPU_TILE; r++)
		for (int m = 0; m < rows; m++)
			out[r][m] = NAME(v_sum)(acc[r][m]);
}

// Goes over tiles from..to with all rows, in panels that stay in cache while row after row passes.
fn void NAME(panels)(int format, const struct cpu_linear *a, int32_t from, int32_t to, struct cpu_top *top)
{
	enum { PANEL = 128 << 10 };
	const struct cpu_part *part = a->w->parts;
	const int32_t cols = a->w->cols, fit = (int32_t)(PANEL / (CPU_TILE * part->row_bytes)), tiles = fit > 1 ? fit : 1;
	const int64_t apart = NAME(row_bytes)(format, cols), ahead = part->row_bytes * (a->act == CPU_SWIGLU ? CPU_TILE / 2 : CPU_TILE);
	for (int32_t panel = from; panel < to; panel += tiles) {
		const int32_t end = to - panel < tiles ? to : panel + tiles;
		for (int32_t m = 0; m < a->m; m += BLOCK_ROWS) {
			const uint8_t *x = (const uint8_t *)a->prepared + m * apart;
			const int rows = a->m - m < BLOCK_ROWS ? a->m - m : BLOCK_ROWS;
			for (int32_t tile = panel; tile < end; tile++) {
				struct cpu_row w[CPU_TILE];
				float out[CPU_TILE][BLOCK_ROWS];
				NAME(tile_weights)(a, tile, w);
				switch (rows) {
				case 1:
					NAME(dots)(format, 1, out, w, x, apart, cols, ahead);
					break;
#if BLOCK_ROWS > 2
				case 2:
					NAME(dots)(format, 2, out, w, x, apart, cols, ahead);
					break;
				case 3:
					NAME(dots)(format, 3, out, w, x, apart, cols, ahead);
					break;
#endif
				default:
					NAME(dots)(format, BLOCK_ROWS, out, w, x, apart, cols, ahead);
				}
				NAME(finish)(a, tile, m, rows, out, top);
			}
		}
	}
}

TARGET void NAME(cpu_integer)(const void *args, int32_t chunk, float *scratch)
{
	(void)scratch;
	const struct cpu_linear *a = args;
	CPU_CHUNK(a, chunk, from, to);
	struct cpu_top *top = cpu_tops(a, chunk, from * CPU_TILE);
	if (a->w->parts->format == CPU_INT4)
		NAME(panels)(CPU_INT4, a, from, to, top);
	else
		NAME(panels)(CPU_INT8, a, from, to, top);
}
#undef ISA
#undef LEVEL
#undef VNNI
#endif
