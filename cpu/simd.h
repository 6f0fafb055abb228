// A vector of LANES floats for the instruction set that ISA and LEVEL name. Included once per instruction set.
//
// fn marks every function that uses it. BLOCK_ROWS is how many activation rows fit in registers beside a tile of four
// weight rows; VECTORS is how many vectors make up CPU_BLOCK elements.
#undef TARGET
#undef fn
#undef vf
#undef LANES
#undef VECTORS
#undef BLOCK_ROWS

#define vf NAME(vf)
#define fn TARGET static inline __attribute__((always_inline))

#if LEVEL == 2
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define LANES 16
#define BLOCK_ROWS 4
typedef __m512 vf;

fn vf NAME(v_zero)(void) { return _mm512_setzero_ps(); }
fn vf NAME(v_all)(float x) { return _mm512_set1_ps(x); }
fn vf NAME(v_load)(const void *p) { return _mm512_loadu_ps(p); }
fn void NAME(v_store)(float *p, vf a) { _mm512_storeu_ps(p, a); }
fn vf NAME(v_fma)(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
fn vf NAME(v_max)(vf a, vf b) { return _mm512_max_ps(a, b); }
fn vf NAME(v_min)(vf a, vf b) { return _mm512_min_ps(a, b); }
fn float NAME(v_sum)(vf a) { return _mm512_reduce_add_ps(a); }
fn float NAME(v_top)(vf a) { return _mm512_reduce_max_ps(a); }
fn vf NAME(v_bf16)(const uint8_t *p)
{
	const __m256i h = _mm256_loadu_si256((const void *)p);
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
fn vf NAME(v_f16)(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
fn vf NAME(v_int8)(const uint8_t *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p))); }
fn float NAME(half)(const uint8_t *p)
{
	uint16_t h;
	memcpy(&h, p, 2);
	return _cvtsh_ss(h);
}
// p · 2^n, where n is the integer in the low bits of t = n + 1.5·2²³. Two steps, so that neither factor overflows.
fn vf NAME(v_scale)(vf p, vf t)
{
	const __m512i n = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(0x4b400000));
	const __m512i h = _mm512_srai_epi32(n, 1), bias = _mm512_set1_epi32(127);
	const __m512i a = _mm512_slli_epi32(_mm512_add_epi32(h, bias), 23);
	const __m512i b = _mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(n, h), bias), 23);
	return _mm512_mul_ps(_mm512_mul_ps(p, _mm512_castsi512_ps(a)), _mm512_castsi512_ps(b));
}

#elif LEVEL == 1
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define LANES 8
#define BLOCK_ROWS 2
typedef __m256 vf;

fn vf NAME(v_zero)(void) { return _mm256_setzero_ps(); }
fn vf NAME(v_all)(float x) { return _mm256_set1_ps(x); }
fn vf NAME(v_load)(const void *p) { return _mm256_loadu_ps(p); }
fn void NAME(v_store)(float *p, vf a) { _mm256_storeu_ps(p, a); }
fn vf NAME(v_fma)(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
fn vf NAME(v_max)(vf a, vf b) { return _mm256_max_ps(a, b); }
fn vf NAME(v_min)(vf a, vf b) { return _mm256_min_ps(a, b); }
fn float NAME(v_sum)(vf a)
{
	__m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
	s = _mm_add_ps(s, _mm_movehl_ps(s, s));
	return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
fn float NAME(v_top)(vf a)
{
	__m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
	s = _mm_max_ps(s, _mm_movehl_ps(s, s));
	return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
fn vf NAME(v_bf16)(const uint8_t *p)
{
	const __m128i h = _mm_loadu_si128((const void *)p);
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
fn vf NAME(v_f16)(const uint8_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p)); }
fn vf NAME(v_int8)(const uint8_t *p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p))); }
fn float NAME(half)(const uint8_t *p)
{
	uint16_t h;
	memcpy(&h, p, 2);
	return _cvtsh_ss(h);
}
fn vf NAME(v_scale)(vf p, vf t)
{
	const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(0x4b400000));
	const __m256i h = _mm256_srai_epi32(n, 1), bias = _mm256_set1_epi32(127);
	const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(h, bias), 23);
	const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, h), bias), 23);
	return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}

#else // plain C over the compiler's own vectors: SSE2 on amd64, NEON on arm64
#define TARGET
#define LANES 4
#if defined(__aarch64__) // thirty-two registers
#define BLOCK_ROWS 4
#else
#define BLOCK_ROWS 2
#endif
typedef float vf __attribute__((vector_size(16)));
typedef int32_t NAME(vi) __attribute__((vector_size(16)));
typedef uint32_t NAME(vu) __attribute__((vector_size(16)));
typedef uint16_t NAME(half4) __attribute__((vector_size(8)));
typedef int8_t NAME(char4) __attribute__((vector_size(4)));
typedef float NAME(any) __attribute__((vector_size(16), aligned(1), may_alias));

fn vf NAME(v_zero)(void) { return (vf){0}; }
fn vf NAME(v_all)(float x) { return (vf){x, x, x, x}; }
fn vf NAME(v_load)(const void *p) { return *(const NAME(any) *)p; }
fn void NAME(v_store)(float *p, vf a) { *(NAME(any) *)p = a; }
fn vf NAME(v_fma)(vf a, vf b, vf c) { return a * b + c; }
fn vf NAME(v_pick)(NAME(vi) mask, vf a, vf b) { return (vf)(((NAME(vi))a & mask) | ((NAME(vi))b & ~mask)); }
fn vf NAME(v_max)(vf a, vf b) { return NAME(v_pick)(a > b, a, b); }
fn vf NAME(v_min)(vf a, vf b) { return NAME(v_pick)(a < b, a, b); }
fn float NAME(v_sum)(vf a) { return (a[0] + a[2]) + (a[1] + a[3]); }
fn float NAME(v_top)(vf a)
{
	const float b = a[0] > a[1] ? a[0] : a[1], c = a[2] > a[3] ? a[2] : a[3];
	return b > c ? b : c;
}
fn NAME(vu) NAME(v_shorts)(const uint8_t *p) // zero-extended
{
	NAME(half4) h;
	memcpy(&h, p, sizeof h);
	return __builtin_convertvector(h, NAME(vu));
}
fn vf NAME(v_bf16)(const uint8_t *p) { return (vf)(NAME(v_shorts)(p) << 16); }
#if defined(__aarch64__)
fn vf NAME(v_f16)(const uint8_t *p)
{
	NAME(half4) h;
	memcpy(&h, p, sizeof h);
	return vcvt_f32_f16((float16x4_t)h);
}
fn float NAME(half)(const uint8_t *p)
{
	__fp16 h;
	memcpy(&h, p, sizeof h);
	return h;
}
#else
// The exponent and fraction in a float's place, times the difference of the biases; what then reaches 2¹⁶ is infinite
// or no number.
fn vf NAME(v_widen)(NAME(vu) h)
{
	const vf f = (vf)((h & 0x7fff) << 13) * 0x1p112f;
	return (vf)((NAME(vu))f | ((NAME(vu))(f >= 0x1p16f) & 0x7f800000) | (h & 0x8000) << 16);
}
fn vf NAME(v_f16)(const uint8_t *p) { return NAME(v_widen)(NAME(v_shorts)(p)); }
fn float NAME(half)(const uint8_t *p)
{
	uint16_t h;
	memcpy(&h, p, 2);
	return NAME(v_widen)((NAME(vu)){h})[0];
}
#endif
fn vf NAME(v_int8)(const uint8_t *p)
{
	NAME(char4) c;
	memcpy(&c, p, sizeof c);
	return __builtin_convertvector(__builtin_convertvector(c, NAME(vi)), vf);
}
fn vf NAME(v_scale)(vf p, vf t)
{
	const NAME(vi) n = (NAME(vi))t - 0x4b400000, h = n >> 1;
	const NAME(vu) a = (NAME(vu))(h + 127) << 23, b = (NAME(vu))(n - h + 127) << 23;
	return p * (vf)a * (vf)b;
}
#endif

#define VECTORS (CPU_BLOCK / LANES)

// e^x with an error under 2 units in the last place, down to zero and up to infinity: 2^n · e^r with |r| ≤ ln 2 / 2 and
// the power series of e^r to the seventh order.
fn vf NAME(v_exp)(vf x)
{
	x = NAME(v_max)(NAME(v_all)(-104), NAME(v_min)(NAME(v_all)(89), x)); // in this order a NaN stays
	const vf shift = NAME(v_all)(0x1.8p23f);
	const vf t = NAME(v_fma)(x, NAME(v_all)(0x1.715476p0f), shift);
	const vf n = t - shift;
	const vf r = NAME(v_fma)(n, NAME(v_all)(0x1.bd0106p-13f), NAME(v_fma)(n, NAME(v_all)(-0x1.63p-1f), x));
	vf p = NAME(v_all)(1.0f / 5040);
	p = NAME(v_fma)(p, r, NAME(v_all)(1.0f / 720));
	p = NAME(v_fma)(p, r, NAME(v_all)(1.0f / 120));
	p = NAME(v_fma)(p, r, NAME(v_all)(1.0f / 24));
	p = NAME(v_fma)(p, r, NAME(v_all)(1.0f / 6));
	p = NAME(v_fma)(p, r, NAME(v_all)(0.5f));
	p = NAME(v_fma)(p, r, NAME(v_all)(1));
	p = NAME(v_fma)(p, r, NAME(v_all)(1));
	return NAME(v_scale)(p, t);
}
