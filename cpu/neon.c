// Linear over int8 and int4 weights in integer dot products of NEON: four products to a lane (dotprod), or matrices of two rows
// by eight columns (i8mm), which two activation rows share.
//
// The arithmetic is that of integer.c with AVX-512, to the bit, whatever the instructions: every fourth block of 32 columns adds
// to the same one of four float sums, whose lanes are the weight rows of a tile. int4 codes come out of their nibbles times 16,
// which the scales of the activations take back.
#ifndef ISA
#if defined(__aarch64__)
#include "cpu.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#define CAT2(a, b) a##_##b
#define CAT(a, b) CAT2(a, b)
#define NAME(f) CAT(f, ISA)
#define LEVEL 0

enum { TURNS = 4, STAGE = TURNS * CPU_BLOCK, UNIT = STAGE + TURNS * sizeof(float) };

#define ISA neon_dotprod
#define MATRIX 0
#include "neon.c"

#define ISA neon_i8mm
#define MATRIX 1
#include "neon.c"
#endif
#else
#include "simd.h"
#undef TARGET
#if MATRIX
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))
#else
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#endif
#define FINISH cpu_finish_generic
#include "norm.h"
#include "quantize.h"
#include "tile.h"

static int32_t NAME(units)(int32_t k) { return (k + STAGE - 1) / STAGE; }

// Prepared activations: for every STAGE columns their codes, then the scales of their blocks. With i8mm rows go in pairs, as long
// as there are two: eight codes of one and eight of the other by turns, then the scales of one and those of the other.
TARGET void NAME(cpu_prepare)(const void *args, int32_t chunk, float *scratch)
{
	const struct cpu_prepare *a = args;
	CPU_CHUNK(a, chunk, from, to);
	(void)scratch;
	const int32_t units = NAME(units)(a->k);
	const float back = a->format == CPU_INT4 ? 0x1p-4f : 1;
	for (int32_t m = from; m < to; m++) {
		const float factor = NAME(row_factor)(a, m);
		const int paired = MATRIX && (m | 1) < a->m, width = 1 + paired, lane = paired ? m & 1 : 0;
		uint8_t *unit = (uint8_t *)a->prepared + (int64_t)(m - lane) * units * UNIT;
		for (int32_t u = 0; u < units; u++, unit += width * UNIT) {
			for (int t = 0; t < TURNS; t++) {
				float v[CPU_BLOCK];
				int8_t codes[CPU_BLOCK];
				NAME(take_block)(a, m, factor, (u * TURNS + t) * CPU_BLOCK, v);
				const float scale = NAME(quantize)(v, codes) * back;
				for (int i = 0; i < CPU_BLOCK; i += 8)
					memcpy(unit + (t * CPU_BLOCK + i) * width + 8 * lane, codes + i, 8);
				memcpy(unit + STAGE * width + (lane * TURNS + t) * (int)sizeof scale, &scale, sizeof scale);
			}
		}
	}
}

// A stage's scales from group on, count of each row: lane r of scale[t] is that of block t in row r.
fn void NAME(scales)(float32x4_t scale[TURNS], const struct cpu_row w[CPU_TILE], int32_t group, int count, int shift)
{
	float32x4_t row[CPU_TILE];
	for (int r = 0; r < CPU_TILE; r++) {
		uint16_t h[TURNS] = {0};
		const uint8_t *p = w[r].scales + 2 * group;
		if (count == STAGE >> shift)
			memcpy(h, p, 2 * (STAGE >> shift));
		else
			memcpy(h, p, 2 * (size_t)count);
		row[r] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h)));
	}
	const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(row[0], row[1])), b = vreinterpretq_f64_f32(vtrn2q_f32(row[0], row[1]));
	const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(row[2], row[3])), d = vreinterpretq_f64_f32(vtrn2q_f32(row[2], row[3]));
	const float64x2_t column[TURNS] = {vtrn1q_f64(a, c), vtrn1q_f64(b, d), vtrn2q_f64(a, c), vtrn2q_f64(b, d)};
	for (int t = 0; t < TURNS; t++)
		scale[t] = vreinterpretq_f32_f64(column[t * CPU_BLOCK >> shift]);
}

// Adds the products of a block to a sum: those of an activation row with the rows of a tile, times both scales.
fn float32x4_t NAME(add)(float32x4_t sum, int32x4_t products, float32x4_t scale, const uint8_t *x_scale)
{
	return vfmaq_f32(sum, vcvtq_f32_s32(products), vmulq_f32(scale, vreinterpretq_f32_u32(vld1q_dup_u32((const void *)x_scale))));
}

#if MATRIX
// The same for a pair of rows, where x has their codes and its scales.
fn void NAME(add_pair)(float32x4_t *one, float32x4_t *other, const int8x16_t code[CPU_TILE][2], float32x4_t scale, const uint8_t *x,
	const uint8_t *x_scale)
{
	int32x4_t low = vdupq_n_s32(0), high = low; // products with the rows 0 and 1, 2 and 3 of the tile: of one, of the other
	for (int h = 0; h < 2; h++) {
		const int64x2_t a = vreinterpretq_s64_s8(code[0][h]), b = vreinterpretq_s64_s8(code[1][h]);
		const int64x2_t c = vreinterpretq_s64_s8(code[2][h]), d = vreinterpretq_s64_s8(code[3][h]);
		const int8x16_t x0 = vld1q_s8((const void *)(x + 32 * h)), x1 = vld1q_s8((const void *)(x + 32 * h + 16));
		low = vmmlaq_s32(low, x0, vreinterpretq_s8_s64(vzip1q_s64(a, b)));
		high = vmmlaq_s32(high, x0, vreinterpretq_s8_s64(vzip1q_s64(c, d)));
		low = vmmlaq_s32(low, x1, vreinterpretq_s8_s64(vzip2q_s64(a, b)));
		high = vmmlaq_s32(high, x1, vreinterpretq_s8_s64(vzip2q_s64(c, d)));
	}
	const int64x2_t l = vreinterpretq_s64_s32(low), h = vreinterpretq_s64_s32(high);
	*one = NAME(add)(*one, vreinterpretq_s32_s64(vzip1q_s64(l, h)), scale, x_scale);
	*other = NAME(add)(*other, vreinterpretq_s32_s64(vzip2q_s64(l, h)), scale, x_scale + TURNS * sizeof(float));
}
#endif

fn float32x4_t NAME(add_row)(float32x4_t sum, const int8x16_t code[CPU_TILE][2], float32x4_t scale, const uint8_t *x,
	const uint8_t *x_scale)
{
	const int8x16_t x0 = vld1q_s8((const void *)x), x1 = vld1q_s8((const void *)(x + 16));
	int32x4_t d[CPU_TILE];
	for (int r = 0; r < CPU_TILE; r++)
		d[r] = vdotq_s32(vdotq_s32(vdupq_n_s32(0), code[r][0], x0), code[r][1], x1);
	return NAME(add)(sum, vpaddq_s32(vpaddq_s32(d[0], d[1]), vpaddq_s32(d[2], d[3])), scale, x_scale);
}

// Dot products of a tile's rows with those from x on. ahead: bytes to the next tile.
fn void NAME(dots)(int format, int shift, int rows, float out[BLOCK_ROWS][CPU_TILE], const struct cpu_row w[CPU_TILE], const uint8_t *x,
	int64_t apart, int32_t cols, int64_t ahead)
{
	const int nibbles = format == CPU_INT4, bytes = nibbles ? STAGE / 2 : STAGE;
	const int pairs = MATRIX ? rows / 2 : 0;
	const int32_t stored = (int32_t)cpu_padded(cols);
	float32x4_t acc[BLOCK_ROWS][TURNS];
	for (int m = 0; m < rows; m++)
		for (int t = 0; t < TURNS; t++)
			acc[m][t] = vdupq_n_f32(0);
	for (int32_t c = 0; c < stored; c += STAGE, x += UNIT) {
		const int32_t left = stored - c < STAGE ? stored - c : STAGE;
		const uint8_t *codes[CPU_TILE];
		uint8_t last[CPU_TILE][STAGE];
		for (int r = 0; r < CPU_TILE; r++) {
			codes[r] = w[r].data + (nibbles ? c / 2 : c);
			for (int i = 0; i < bytes; i += 64)
				__builtin_prefetch((const void *)((uintptr_t)codes[r] + (uintptr_t)(2 * ahead + i)), 0, 2);
			if (left < STAGE) {
				memset(last[r], 0, sizeof last[r]);
				codes[r] = memcpy(last[r], codes[r], (size_t)(nibbles ? left / 2 : left));
			}
		}
		float32x4_t scale[TURNS];
		NAME(scales)(scale, w, c >> shift, (left + (1 << shift) - 1) >> shift, shift);
#pragma GCC unroll 4
		for (int t = 0; t < TURNS; t++) {
			int8x16_t code[CPU_TILE][2];
			for (int r = 0; r < CPU_TILE; r++) {
				const uint8_t *p = codes[r] + t * bytes / TURNS;
				if (nibbles) {
					const int8x16_t flipped = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p), vdupq_n_u8(0x88))); // less 8
					code[r][0] = vshlq_n_s8(flipped, 4);
					code[r][1] = vandq_s8(flipped, vdupq_n_s8(-16));
				} else {
					code[r][0] = vld1q_s8((const void *)p);
					code[r][1] = vld1q_s8((const void *)(p + 16));
				}
			}
#if MATRIX
			for (int m = 0; m < 2 * pairs; m += 2) {
				const uint8_t *q = x + m * apart + c / STAGE * UNIT; // a pair's units are twice as long
				NAME(add_pair)(&acc[m][t], &acc[m + 1][t], code, scale[t], q + 2 * t * CPU_BLOCK, q + 2 * STAGE + t * sizeof(float));
			}
#endif
			for (int m = 2 * pairs; m < rows; m++) {
				const uint8_t *q = x + m * apart;
				acc[m][t] = NAME(add_row)(acc[m][t], code, scale[t], q + t * CPU_BLOCK, q + STAGE + t * sizeof(float));
			}
		}
	}
	for (int m = 0; m < rows; m++)
		vst1q_f32(out[m], vaddq_f32(vaddq_f32(acc[m][0], acc[m][1]), vaddq_f32(acc[m][2], acc[m][3])));
}

#include "panels.h"
#undef FINISH
#undef ISA
#undef MATRIX
#endif
