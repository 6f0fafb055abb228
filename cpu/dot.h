// Dot products of a tile of four weight rows with up to BLOCK_ROWS activation rows, for one instruction set.
//
// Every (weight row, activation row) pair has one vector accumulator of its own that walks the columns from left to
// right, and the lanes are added in a fixed tree. So a result depends on its two rows alone, whatever else is in the
// tile, and unpacking a row first gives the same bits: code · scale is exact in a float.
#include "simd.h"

// A group's scale, in the shape that element wants.
fn vf NAME(scale)(int format, const uint8_t *scales)
{
	(void)format;
	const vf s = NAME(v_all)(NAME(half)(scales));
#if LEVEL == 2
	if (format == CPU_INT4) // all sixteen values of a nibble
		return s * _mm512_set_ps(7, 6, 5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5, -6, -7, -8);
#endif
	return s;
}

// Vector v of the block that starts at p.
fn vf NAME(element)(int format, const uint8_t *p, int v, vf scale)
{
	const int at = v * LANES;
	switch (format) {
	case CPU_F32:
		return NAME(v_load)(p + 4 * at);
	case CPU_BF16:
		return NAME(v_bf16)(p + 2 * at);
	case CPU_F16:
		return NAME(v_f16)(p + 2 * at);
	case CPU_INT8:
		return NAME(v_int8)(p + at) * scale;
	default: {
		const int high = at >= CPU_BLOCK / 2; // the second half of a block is in the high nibbles
		p += at % (CPU_BLOCK / 2);
#if LEVEL == 2
		const __m512i n = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
		return _mm512_permutexvar_ps(high ? _mm512_srli_epi32(n, 4) : n, scale);
#elif LEVEL == 1
		__m256i n = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
		n = high ? _mm256_srli_epi32(n, 4) : _mm256_and_si256(n, _mm256_set1_epi32(15));
		return _mm256_cvtepi32_ps(_mm256_sub_epi32(n, _mm256_set1_epi32(8))) * scale;
#else
		uint32_t four;
		memcpy(&four, p, sizeof four);
		four = (high ? four >> 4 : four) & 0x0f0f0f0f;
		return (NAME(v_int8)((const uint8_t *)&four) - 8) * scale;
#endif
	}
	}
}

// Copies size bytes to dst and fills the rest of its room with zeros.
TARGET static __attribute__((noinline)) void *NAME(fill)(void *dst, const void *src, size_t size, size_t room)
{
	memset(dst, 0, room);
	return memcpy(dst, src, size);
}

// Bytes of b elements.
fn int64_t NAME(offset)(int format, int64_t b)
{
	return format == CPU_F32 ? 4 * b : format == CPU_INT8 ? b : format == CPU_INT4 ? b / 2 : 2 * b;
}

// out[r][m] = w[r] · x[m], x [rows] apart by ldx. All w share a format and group size. ahead, if not 0, is how many bytes
// on the next tile lies in memory: its rows are short enough that the processor's own prefetch would start anew with each.
fn void NAME(tile)(int format, int rows, float out[CPU_TILE][BLOCK_ROWS], const struct cpu_row w[CPU_TILE],
	const float *x, int64_t ldx, int32_t cols, int64_t ahead)
{
	const int32_t group = (1 << w[0].group_shift) - 1;
	vf acc[CPU_TILE][BLOCK_ROWS], scale[CPU_TILE];
	const uint8_t *codes[CPU_TILE];
	const float *xs[BLOCK_ROWS];
	float last[BLOCK_ROWS][CPU_BLOCK];
	uint8_t bytes[CPU_TILE][CPU_BLOCK * 4];
	for (int r = 0; r < CPU_TILE; r++) {
		codes[r] = w[r].data;
		scale[r] = NAME(v_zero)();
		for (int m = 0; m < rows; m++)
			acc[r][m] = NAME(v_zero)();
	}
	for (int m = 0; m < rows; m++)
		xs[m] = x + m * ldx;
	// All whole blocks from where they are, then what is left over as one more block, copied out and filled up.
	for (int32_t from = 0, n = cols / CPU_BLOCK * CPU_BLOCK; from < cols; from += n) {
		if (cols - from < CPU_BLOCK) {
			for (int r = 0; r < CPU_TILE; r++) {
				codes[r] = w[r].data + NAME(offset)(format, from);
				if (format <= CPU_F16) // the others are stored padded
					codes[r] = NAME(fill)(bytes[r], codes[r], NAME(offset)(format, cols - from), sizeof bytes[r]);
			}
			for (int m = 0; m < rows; m++)
				xs[m] = NAME(fill)(last[m], x + m * ldx + from, (size_t)(cols - from) * sizeof(float), sizeof last[m]);
			n = CPU_BLOCK;
		}
		for (int32_t b = 0; b < n; b += CPU_BLOCK) {
			if (ahead)
				for (int r = 0; r < CPU_TILE; r++)
					__builtin_prefetch((const void *)((uintptr_t)codes[r] + (uintptr_t)(NAME(offset)(format, b) + ahead)));
			if (format > CPU_F16 && !(b & group))
				for (int r = 0; r < CPU_TILE; r++)
					scale[r] = NAME(scale)(format, w[r].scales + 2 * ((from + b) >> w[0].group_shift));
#pragma GCC unroll 8
			for (int v = 0; v < VECTORS; v++) {
				vf xv[BLOCK_ROWS];
				for (int m = 0; m < rows; m++)
					xv[m] = NAME(v_load)(xs[m] + b + v * LANES);
				for (int r = 0; r < CPU_TILE; r++) {
					const vf e = NAME(element)(format, codes[r] + NAME(offset)(format, b), v, scale[r]);
					for (int m = 0; m < rows; m++)
						acc[r][m] = NAME(v_fma)(e, xv[m], acc[r][m]);
				}
			}
		}
	}
	for (int r = 0; r < CPU_TILE; r++)
		for (int m = 0; m < rows; m++)
			out[r][m] = NAME(v_sum)(acc[r][m]);
}

// The tile for a number of rows only known at run time, 1..BLOCK_ROWS.
fn void NAME(tile_rows)(int format, int rows, float out[CPU_TILE][BLOCK_ROWS], const struct cpu_row w[CPU_TILE],
	const float *x, int64_t ldx, int32_t cols, int64_t ahead)
{
	switch (rows) {
	case 1:
		NAME(tile)(format, 1, out, w, x, ldx, cols, ahead);
		break;
#if BLOCK_ROWS > 2
	case 2:
		NAME(tile)(format, 2, out, w, x, ldx, cols, ahead);
		break;
	case 3:
		NAME(tile)(format, 3, out, w, x, ldx, cols, ahead);
		break;
#endif
	default:
		NAME(tile)(format, BLOCK_ROWS, out, w, x, ldx, cols, ahead);
	}
}

TARGET static void NAME(tile_f32)(int rows, float out[CPU_TILE][BLOCK_ROWS], const struct cpu_row w[CPU_TILE],
	const float *x, int64_t ldx, int32_t cols)
{
	NAME(tile_rows)(CPU_F32, rows, out, w, x, ldx, cols, 0);
}
