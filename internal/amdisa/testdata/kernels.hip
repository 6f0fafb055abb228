// Kernels of the kinds that the engine runs.
#include "device.h"
static __device__ float wave_sum(float v) {
  for (int m = WAVE / 2; m > 0; m >>= 1) v += shuffle_xor(v, m);
  return v;
}
static __device__ float block_sum(float v, float* part) {
  v = wave_sum(v);
  if (lane_id() == 0) part[TID / WAVE] = v;
  barrier();
  float t = 0.f;
  for (int i = 0; i < 128 / WAVE; i++) t += part[i];
  barrier();
  return t;
}
// y[row] = sum over cols of w[row][col] x[col]: 8 nibbles a word, less 8, one half scale per 32 weights.
extern "C" __global__ void LAUNCH(128) int4_matvec(const u32* w, const half_t* scale, const half_t* x, float* y, int rows, int cols) {
  __shared__ float part[4];
  int row = GROUP, words = cols / 8;
  float acc = 0.f;
  for (int i = TID; i < words; i += 128) {
    u32 q = w[(u64)row * words + i];
    const half2* xp = (const half2*)(x + i * 8);
    float d = 0.f;
    for (int j = 0; j < 4; j++) {
      u32 h = 0x64006400u | (q >> 8 * j & 15) | (q >> (8 * j + 4) & 15) << 16;
      d = __builtin_amdgcn_fdot2(H(h) - (half2){1032, 1032}, xp[j], d, false);
    }
    acc += d * (float)scale[(u64)row * (cols / 32) + (i >> 2)];
  }
  acc = block_sum(acc, part);
  if (TID == 0 && row < rows) y[row] = acc;
}
// One query row of attention: o[d] = sum over t of softmax(q k[t]) v[t][d], 64 dimensions.
extern "C" __global__ void LAUNCH(128) attention_row(const float* q, const float* k, const float* v, float* o, int n) {
  extern __shared__ float score[];
  __shared__ float part[4];
  float top = -__builtin_inff();
  for (int t = TID; t < n; t += 128) {
    float s = 0.f;
    for (int d = 0; d < 64; d++) s += q[d] * k[t * 64 + d];
    score[t] = s;
    top = __builtin_fmaxf(top, s);
  }
  for (int m = WAVE / 2; m > 0; m >>= 1) top = __builtin_fmaxf(top, shuffle_xor(top, m));
  if (lane_id() == 0) part[TID / WAVE] = top;
  barrier();
  for (int i = 0; i < 128 / WAVE; i++) top = __builtin_fmaxf(top, part[i]);
  barrier();
  float sum = 0.f;
  for (int t = TID; t < n; t += 128) {
    float e = __builtin_amdgcn_exp2f((score[t] - top) * 1.44269504f);
    score[t] = e;
    sum += e;
  }
  sum = block_sum(sum, part);
  if (TID < 64) {
    float acc = 0.f;
    for (int t = 0; t < n; t++) acc += score[t] * v[t * 64 + TID];
    o[TID] = acc / sum;
  }
}
// c = a b, 16 x 16 times 16 x 16, halves or bf16 into floats, on the matrix unit where there is one.
#if defined(__GFX9__)
#define GEMM(name, X, mfma, wmma11, wmma12, WIDEN) extern "C" __global__ void LAUNCH(64) name(const X* a, const X* b, float* c) { \
  int l = lane_id(), i = l % 16; \
  typedef X vector __attribute__((ext_vector_type(4))); \
  vector x, y; \
  for (int j = 0; j < 4; j++) { x[j] = a[i * 16 + 4 * (l / 16) + j]; y[j] = b[(4 * (l / 16) + j) * 16 + i]; } \
  float4v d = {0, 0, 0, 0}; \
  d = mfma(x, y, d, 0, 0, 0); \
  for (int r = 0; r < 4; r++) c[(4 * (l / 16) + r) * 16 + i] = d[r]; }
#elif defined(__GFX11__)
#define GEMM(name, X, mfma, wmma11, wmma12, WIDEN) extern "C" __global__ void LAUNCH(64) name(const X* a, const X* b, float* c) { \
  int l = lane_id(), i = l % 16; \
  typedef X vector __attribute__((ext_vector_type(16))); \
  vector x, y; \
  for (int j = 0; j < 16; j++) { x[j] = a[i * 16 + j]; y[j] = b[j * 16 + i]; } \
  float8v d = {0, 0, 0, 0, 0, 0, 0, 0}; \
  d = wmma11(x, y, d); \
  for (int r = 0; r < 8; r++) c[(2 * r + l / 16) * 16 + i] = d[r]; }
#elif defined(__GFX12__)
#define GEMM(name, X, mfma, wmma11, wmma12, WIDEN) extern "C" __global__ void LAUNCH(64) name(const X* a, const X* b, float* c) { \
  int l = lane_id(), i = l % 16; \
  typedef X vector __attribute__((ext_vector_type(8))); \
  vector x, y; \
  for (int j = 0; j < 8; j++) { x[j] = a[i * 16 + 8 * (l / 16) + j]; y[j] = b[(8 * (l / 16) + j) * 16 + i]; } \
  float8v d = {0, 0, 0, 0, 0, 0, 0, 0}; \
  d = wmma12(x, y, d); \
  for (int r = 0; r < 8; r++) c[(r + 8 * (l / 16)) * 16 + i] = d[r]; }
#else
#define GEMM(name, X, mfma, wmma11, wmma12, WIDEN) extern "C" __global__ void LAUNCH(64) name(const X* a, const X* b, float* c) { \
  for (int e = lane_id(); e < 256; e += WAVE) { \
    float s = 0.f; \
    for (int k = 0; k < 16; k++) s += WIDEN(a[e / 16 * 16 + k]) * WIDEN(b[k * 16 + e % 16]); \
    c[e] = s; } }
#endif
#define FROM_HALF(v) ((float)(v))
#define FROM_BF16(v) F((u32)(u16)(v) << 16)
GEMM(gemm16, half_t, __builtin_amdgcn_mfma_f32_16x16x16f16, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12, FROM_HALF)
GEMM(gemm16_bf16, short, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12, FROM_BF16)
// All workgroups wait for each other, phase after phase: a phase reads what the next workgroup wrote in the one before.
static __device__ void meet(u32* arrived, u32 target) {
  barrier();
  if (TID == 0) {
    __hip_atomic_fetch_add(arrived, 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    while (__hip_atomic_load(arrived, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) < target) __builtin_amdgcn_s_sleep(1);
  }
  barrier();
}
extern "C" __global__ void LAUNCH(128) grid_barrier(u32* arrived, u32* values, int groups, int phases) {
  int mine = GROUP * 128 + TID, next = (GROUP + 1) % groups * 128 + (TID ^ 64), side = groups * 128;
  for (int p = 0; p < phases; p++) {
    values[(p + 1) % 2 * side + mine] = values[p % 2 * side + next] * 3 + 1;
    meet(arrived, (p + 1) * groups);
  }
}
// Mistakes.
extern "C" __global__ void LAUNCH(64) bad_matrix(u32* o) {
#if defined(__GFX9__)
  half4 x = {1, 1, 1, 1};
  if (TID < 5) o[TID] = BITS(__builtin_amdgcn_mfma_f32_16x16x16f16(x, x, (float4v){0, 0, 0, 0}, 0, 0, 0)[0]);
#elif defined(__GFX11__)
  half16 x = {1, 1, 1, 1};
  if (TID < 5) o[TID] = BITS(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, x, (float8v){0, 0, 0, 0, 0, 0, 0, 0})[0]);
#elif defined(__GFX12__)
  half8 x = {1, 1, 1, 1};
  if (TID < 5) o[TID] = BITS(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, x, (float8v){0, 0, 0, 0, 0, 0, 0, 0})[0]);
#endif
}
extern "C" __global__ void LAUNCH(64) bad_global(u32* o, int n) { o[n + TID] = 1; }
extern "C" __global__ void LAUNCH(64) bad_lds_read(u32* o) { __shared__ u32 s[64]; if (TID < 63) s[TID] = o[TID]; barrier(); o[TID] = s[TID ^ 1]; }
extern "C" __global__ void LAUNCH(64) bad_lds_bounds(u32* o, int n) { extern __shared__ u32 d[]; d[n + TID] = 1; barrier(); o[TID] = d[TID]; }
extern "C" __global__ void LAUNCH(256) bad_barrier(u32* o) { if (__builtin_amdgcn_readfirstlane(TID) < 64) barrier(); o[TID] = 1; }
extern "C" __global__ void LAUNCH(64) bad_loop(u32* o) { while (__hip_atomic_load(o, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) == 0) {} o[TID] = 1; }
extern "C" __global__ void LAUNCH(64) bad_atomic(u8* o) { __hip_atomic_fetch_add((u32*)(o + 1), 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
extern "C" __global__ void LAUNCH(128) bad_race(u32* o) { __shared__ u32 s[128]; s[TID] = o[TID]; barrier(); u32 v = s[TID]; s[TID ^ 64] = v + 1; barrier(); o[TID] = s[TID]; }
