// Rounds a block of activations to int8: code = round(x · 127 / largest |x|), scale = largest / 127. A block below 2⁻⁸⁰
// becomes zero, one with a value that is not finite gets codes of zero and NaN as its scale.
TARGET static inline float NAME(quantize)(const float x[CPU_BLOCK], int8_t codes[CPU_BLOCK])
{
#if LEVEL == 2
	const __m512 v0 = _mm512_loadu_ps(x), v1 = _mm512_loadu_ps(x + 16);
	const __m512i size = _mm512_set1_epi32(0x7fffffff);
	const uint32_t top = _mm512_reduce_max_epu32(
		_mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(v0), size), _mm512_and_si512(_mm512_castps_si512(v1), size)));
#else
	uint32_t bits[CPU_BLOCK], top = 0;
	memcpy(bits, x, sizeof bits);
	for (int i = 0; i < CPU_BLOCK; i++)
		top = top > (bits[i] & 0x7fffffff) ? top : bits[i] & 0x7fffffff;
#endif
	float largest;
	memcpy(&largest, &top, sizeof largest);
	if (top >= 0x7f800000 || largest < 0x1p-80f) {
		memset(codes, 0, CPU_BLOCK);
		return top >= 0x7f800000 ? NAN : 0;
	}
	const float inverse = 127 / largest;
#if LEVEL == 2
	_mm_storeu_si128((__m128i *)codes, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v0 * inverse)));
	_mm_storeu_si128((__m128i *)(codes + 16), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v1 * inverse)));
#elif defined(__aarch64__)
	for (int i = 0; i < CPU_BLOCK; i += 8) {
		const int32x4_t a = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), inverse));
		const int32x4_t b = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i + 4), inverse));
		vst1_s8(codes + i, vmovn_s16(vcombine_s16(vmovn_s32(a), vmovn_s32(b))));
	}
#else
	for (int i = 0; i < CPU_BLOCK; i++) {
		const float shifted = x[i] * inverse + 0x1.8p23f;
		int32_t code;
		memcpy(&code, &shifted, sizeof code);
		codes[i] = (int8_t)(code - 0x4b400000);
	}
#endif
	return largest / 127;
}

// The RMSNorm factor of a row, if a norm is to be applied.
fn float NAME(row_factor)(const struct cpu_prepare *a, int32_t m)
{
	return a->gain ? NAME(norm_factor)(a->x + (int64_t)m * a->k, a->k, a->eps) : 1;
}

// Columns from.. of row m, normed if asked for, filled up with zeros.
TARGET static inline void NAME(take_block)(const struct cpu_prepare *a, int32_t m, float factor, int32_t from, float v[CPU_BLOCK])
{
	const float *x = a->x + (int64_t)m * a->k + from, *gain = a->gain + from, *ada = cpu_ada_row(a, m);
	const int32_t count = a->k - from < CPU_BLOCK ? a->k - from : CPU_BLOCK;
	if (count < CPU_BLOCK)
		memset(v, 0, CPU_BLOCK * sizeof *v);
	if (count <= 0)
		return;
	if (!a->gain) {
		memcpy(v, x, (size_t)count * sizeof *v);
		return;
	}
	for (int32_t i = 0; i < count; i++)
		v[i] = x[i] * factor * gain[i];
	if (ada)
		for (int32_t i = 0; i < count; i++)
			v[i] *= 1 + ada[from + i];
}
