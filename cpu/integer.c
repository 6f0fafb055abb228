// Linear over int8 and int4 weights in integer dot products.
//
// Every 32 columns of an activation row become int8 codes with a scale, largest magnitude / 127. The dot product of such a
// block is exact; times both scales it is added to one of four float sums (two in vectors of 256 bits), by turns. So a result
// depends on its two rows alone. An activation is off by at most half a scale, so that a result is within
// 1/254 · Σ over blocks of (largest |x|) · Σ|w|; the typical error is half a percent of a typical result. A block below 2⁻⁸⁰
// counts as zero, one with a value that is not finite as NaN.
//
// Weights enter as unsigned bytes, nibbles 0..15 and codes + 128; the excess goes off with what a block's sum starts from.
// Without VNNI int8 weights enter as magnitudes and the activations take their signs: two products then fit 16 bits.
// neon.c does the same on arm64.
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
#undef UNIT
#undef BLOCKS
#undef BLOCK_ROWS
#define BLOCK_ROWS (LEVEL == 2 ? 8 : 4)
#define vi NAME(vi)
#if LEVEL == 2
#if VNNI
#undef TARGET
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")))
#endif
#define BYTES 64
typedef __m512i vi;
fn vi NAME(i_load)(const void *p) { return _mm512_loadu_si512(p); }
fn vi NAME(i_zero)(void) { return _mm512_setzero_si512(); }
fn vi NAME(i_low)(vi a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
fn vi NAME(i_high)(vi a) { return NAME(i_low)(_mm512_srli_epi16(a, 4)); }
fn vf NAME(i_float)(vi a) { return _mm512_cvtepi32_ps(a); }
fn vi NAME(i_add)(vi a, vi b) { return _mm512_add_epi32(a, b); }
fn vi NAME(i_low32)(vi a, vi b) { return _mm512_unpacklo_epi32(a, b); }
fn vi NAME(i_high32)(vi a, vi b) { return _mm512_unpackhi_epi32(a, b); }
fn vi NAME(i_low64)(vi a, vi b) { return _mm512_unpacklo_epi64(a, b); }
fn vi NAME(i_high64)(vi a, vi b) { return _mm512_unpackhi_epi64(a, b); }
// First and second halves of the blocks in two vectors.
fn vi NAME(i_first)(vi a, vi b) { return _mm512_shuffle_i64x2(a, b, 0x88); }
fn vi NAME(i_second)(vi a, vi b) { return _mm512_shuffle_i64x2(a, b, 0xdd); }
fn __m128 NAME(v_fold)(vf a)
{
	return _mm_add_ps(_mm_add_ps(_mm512_castps512_ps128(a), _mm512_extractf32x4_ps(a, 1)),
		_mm_add_ps(_mm512_extractf32x4_ps(a, 2), _mm512_extractf32x4_ps(a, 3)));
}
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
// A unit's scales of four rows, count of each: lane 4b + r is that of block b in row r.
fn vf NAME(i_scales)(const uint8_t *const p[CPU_TILE], int count, int shift)
{
	const __mmask8 some = (__mmask8)((1 << count) - 1);
	const __m128i a = _mm_unpacklo_epi16(_mm_maskz_loadu_epi16(some, p[0]), _mm_maskz_loadu_epi16(some, p[1]));
	const __m128i b = _mm_unpacklo_epi16(_mm_maskz_loadu_epi16(some, p[2]), _mm_maskz_loadu_epi16(some, p[3]));
	__m128i low = _mm_unpacklo_epi32(a, b), high = _mm_unpackhi_epi32(a, b); // groups 0 and 1, 2 and 3
	if (shift == 6) {
		high = _mm_unpackhi_epi64(low, low);
		low = _mm_unpacklo_epi64(low, low);
	} else if (shift == 7) {
		high = low = _mm_unpacklo_epi64(low, low);
	}
	return _mm512_cvtph_ps(_mm256_set_m128i(high, low));
}
#else
#if VNNI
#undef TARGET
#define TARGET __attribute__((target("avx2,fma,f16c,avxvnni")))
#endif
#define BYTES 32
typedef __m256i vi;
fn vi NAME(i_load)(const void *p) { return _mm256_loadu_si256(p); }
fn vi NAME(i_zero)(void) { return _mm256_setzero_si256(); }
fn vi NAME(i_low)(vi a) { return _mm256_and_si256(a, _mm256_set1_epi8(15)); }
fn vi NAME(i_high)(vi a) { return NAME(i_low)(_mm256_srli_epi16(a, 4)); }
fn vf NAME(i_float)(vi a) { return _mm256_cvtepi32_ps(a); }
fn vi NAME(i_add)(vi a, vi b) { return _mm256_add_epi32(a, b); }
fn vi NAME(i_low32)(vi a, vi b) { return _mm256_unpacklo_epi32(a, b); }
fn vi NAME(i_high32)(vi a, vi b) { return _mm256_unpackhi_epi32(a, b); }
fn vi NAME(i_low64)(vi a, vi b) { return _mm256_unpacklo_epi64(a, b); }
fn vi NAME(i_high64)(vi a, vi b) { return _mm256_unpackhi_epi64(a, b); }
fn vi NAME(i_first)(vi a, vi b) { return _mm256_permute2x128_si256(a, b, 0x20); }
fn vi NAME(i_second)(vi a, vi b) { return _mm256_permute2x128_si256(a, b, 0x31); }
fn __m128 NAME(v_fold)(vf a) { return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)); }
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
fn __m128i NAME(two)(const uint8_t *p, int count)
{
	int two = p[0] | p[1] << 8;
	if (count > 1)
		memcpy(&two, p, sizeof two);
	return _mm_cvtsi32_si128(two);
}
fn vf NAME(i_scales)(const uint8_t *const p[CPU_TILE], int count, int shift)
{
	const __m128i a = _mm_unpacklo_epi16(NAME(two)(p[0], count), NAME(two)(p[1], count));
	const __m128i b = _mm_unpacklo_epi16(NAME(two)(p[2], count), NAME(two)(p[3], count));
	const __m128i both = _mm_unpacklo_epi32(a, b);
	return _mm256_cvtph_ps(shift > 5 ? _mm_unpacklo_epi64(both, both) : both);
}
#endif
#undef FINISH
#if LEVEL == 2
#define FINISH cpu_finish_avx512
#else
#define FINISH cpu_finish_avx2
#endif
#include "norm.h"
#include "quantize.h"
#include "tile.h"

// Prepared activations: for every 2·BYTES columns a vector of the blocks' first sixteen codes each, one of the others, one of
// what the sums start from and one of scales, the last two with four lanes to a block.
#define UNIT (4 * BYTES)
#define BLOCKS (BYTES / 16)
static int32_t NAME(units)(int32_t k) { return (k + 2 * BYTES - 1) / (2 * BYTES); }

TARGET void NAME(cpu_prepare)(const void *args, int32_t chunk, float *scratch)
{
	const struct cpu_prepare *a = args;
	CPU_CHUNK(a, chunk, from, to);
	(void)scratch;
	const int excess = a->format == CPU_INT4 ? 8 : VNNI ? 128 : 0;
	for (int32_t m = from; m < to; m++) {
		const float factor = NAME(row_factor)(a, m);
		uint8_t *unit = (uint8_t *)a->prepared + (int64_t)m * NAME(units)(a->k) * UNIT;
		for (int32_t b = 0; b < NAME(units)(a->k) * BLOCKS; b++) {
			const int at = 16 * (b % BLOCKS);
			float v[CPU_BLOCK];
			int8_t codes[CPU_BLOCK];
			NAME(take_block)(a, m, factor, b * CPU_BLOCK, v);
			const float scale = NAME(quantize)(v, codes);
			memcpy(unit + at, codes, 16);
			memcpy(unit + BYTES + at, codes + 16, 16);
			for (int q = 0; q < 4; q++) {
				int32_t sum = 0;
				for (int i = 4 * q; i < 4 * q + 4; i++)
					sum -= codes[i] + codes[16 + i];
				sum *= excess;
				memcpy(unit + 2 * BYTES + at + 4 * q, &sum, sizeof sum);
				memcpy(unit + 3 * BYTES + at + 4 * q, &scale, sizeof scale);
			}
			if (b % BLOCKS == BLOCKS - 1)
				unit += UNIT;
		}
	}
}

// Dot products of a tile's rows with those from x on. ahead: bytes to the next tile.
fn void NAME(dots)(int format, int shift, int rows, float out[BLOCK_ROWS][CPU_TILE], const struct cpu_row w[CPU_TILE], const uint8_t *x, int64_t apart,
	int32_t cols, int64_t ahead)
{
	const int nibbles = format == CPU_INT4, per = 1 << shift;
	const int32_t stored = (int32_t)cpu_padded(cols);
	vf acc[BLOCK_ROWS];
	for (int m = 0; m < rows; m++)
		acc[m] = NAME(v_zero)();
	for (int32_t c = 0; c < stored; c += 2 * BYTES, x += UNIT) {
		const int32_t left = stored - c < 2 * BYTES ? stored - c : 2 * BYTES;
		const uint8_t *scales[CPU_TILE];
		vi code[CPU_TILE][2];
		for (int r = 0; r < CPU_TILE; r++) {
			const uint8_t *p = w[r].data + (nibbles ? c / 2 : c);
			uint8_t last[2 * BYTES];
			// To the second cache: the first one's few line buffers would not keep up with memory.
			for (int i = 0; i < (nibbles ? BYTES : 2 * BYTES); i += 64)
				__builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)(2 * ahead + i)), 0, 2);
			scales[r] = w[r].scales + 2 * (c >> shift);
			if (left < 2 * BYTES) {
				memset(last, 0, sizeof last);
				p = memcpy(last, p, (size_t)(nibbles ? left / 2 : left));
			}
			const vi a = NAME(i_load)(p);
			if (nibbles) {
				code[r][0] = NAME(i_low)(a);
				code[r][1] = NAME(i_high)(a);
			} else {
				const vi b = NAME(i_load)(p + BYTES);
				code[r][0] = NAME(i_first)(a, b);
				code[r][1] = NAME(i_second)(a, b);
			}
		}
		const vf scale = NAME(i_scales)(scales, (left + per - 1) >> shift, shift);
		for (int m = 0; m < rows; m++) {
			const uint8_t *q = x + m * apart;
			const vi x0 = NAME(i_load)(q), x1 = NAME(i_load)(q + BYTES);
			const vi start = nibbles || VNNI ? NAME(i_load)(q + 2 * BYTES) : NAME(i_zero)();
			vi d[CPU_TILE];
			for (int r = 0; r < CPU_TILE; r++)
				d[r] = nibbles ? NAME(i_dot)(NAME(i_dot)(start, code[r][0], x0), code[r][1], x1)
					       : NAME(i_dot_signed)(NAME(i_dot_signed)(start, code[r][0], x0), code[r][1], x1);
			// Four lanes make a block's sum; those of the four rows come to lie side by side.
			const vi a = NAME(i_add)(NAME(i_low32)(d[0], d[1]), NAME(i_high32)(d[0], d[1]));
			const vi b = NAME(i_add)(NAME(i_low32)(d[2], d[3]), NAME(i_high32)(d[2], d[3]));
			const vi sums = NAME(i_add)(NAME(i_low64)(a, b), NAME(i_high64)(a, b));
			acc[m] = NAME(v_fma)(NAME(i_float)(sums), scale * NAME(v_load)(q + 3 * BYTES), acc[m]);
		}
	}
	for (int m = 0; m < rows; m++)
		_mm_storeu_ps(out[m], NAME(v_fold)(acc[m]));
}

#include "panels.h"
#undef ISA
#undef LEVEL
#undef VNNI
#endif
