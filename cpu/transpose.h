// The transpose of 16 × 16 floats held in sixteen vectors. For x86 with AVX-512.
TARGET static inline __attribute__((always_inline)) void NAME(transpose)(__m512 r[16])
{
	__m512 t[16], u[16];
	for (int i = 0; i < 16; i += 2) {
		t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
		t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
	}
	// u[4i+j]: column 4l+j of rows 4i.. in 128-bit lane l
	for (int i = 0; i < 16; i += 4) {
		for (int j = 0; j < 2; j++) {
			const __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + j + 2]);
			u[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
			u[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
		}
	}
	for (int j = 0; j < 4; j++) {
		const __m512 a = _mm512_shuffle_f32x4(u[j], u[4 + j], 0x44), b = _mm512_shuffle_f32x4(u[j], u[4 + j], 0xee);
		const __m512 c = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0x44), d = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0xee);
		r[j] = _mm512_shuffle_f32x4(a, c, 0x88);
		r[4 + j] = _mm512_shuffle_f32x4(a, c, 0xdd);
		r[8 + j] = _mm512_shuffle_f32x4(b, d, 0x88);
		r[12 + j] = _mm512_shuffle_f32x4(b, d, 0xdd);
	}
}
