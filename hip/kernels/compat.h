// compat.h: everything in which the compilers and targets differ. Kernel files are appended to it and include nothing.
//
// Passed by the host: WAVE, lanes of a wave (32 or 64). Optional: MATRIX, to override the choice below.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define MATRIX_DOT 0    // no matrix unit: two-element dot products
#define MATRIX_PTX 1    // NVIDIA mma.m16n8k16
#define MATRIX_MFMA 2   // CDNA v_mfma_f32_16x16x16
#define MATRIX_WMMA11 3 // RDNA3 v_wmma 16x16x16, operands doubled over both halves of a wave
#define MATRIX_WMMA12 4 // RDNA4 v_wmma 16x16x16, operands split over both halves of a wave

#ifndef MATRIX
#if defined(__CUDA_ARCH__)
#define MATRIX MATRIX_PTX
#elif defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
#define MATRIX MATRIX_MFMA
#elif defined(__GFX11__)
#define MATRIX MATRIX_WMMA11
#elif defined(__GFX12__)
#define MATRIX MATRIX_WMMA12
#else
#define MATRIX MATRIX_DOT
#endif
#endif

#if defined(__CUDA_ARCH__)

#define INLINE __device__ __forceinline__
// KERNEL takes the threads of a block and how many blocks a multiprocessor should hold.
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define TID ((int)threadIdx.x)
#define BLOCK_X ((int)blockIdx.x)
#define BLOCK_Y ((int)blockIdx.y)
#define BLOCK_Z ((int)blockIdx.z)
#define BITS(f) __float_as_uint(f)
#define FLOAT(u) __uint_as_float(u)
#define FMA(a, b, c) fmaf(a, b, c)
#define FMAX(a, b) fmaxf(a, b)
#define FABS(a) fabsf(a)

INLINE void block_sync() { __syncthreads(); }
INLINE float shuffle_xor(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
INLINE float exp2_fast(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
INLINE float rsqrt_fast(float v) { return rsqrtf(v); }

struct Quad {
  u32 v[4];
};
// load_once reads 16 bytes that nothing will read again.
INLINE Quad load_once(const void *p) {
  Quad q;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(q.v[0]), "=r"(q.v[1]), "=r"(q.v[2]), "=r"(q.v[3]) : "l"(p));
  return q;
}
#define GLOBAL
INLINE Quad load16(const void *p) {
  uint4 t = *(const uint4 *)p;
  return {{t.x, t.y, t.z, t.w}};
}
INLINE Quad load16_global(const void *p) {
  __builtin_assume(__isGlobal(p));
  return load16(p);
}
INLINE void store8(void *p, u32 a, u32 b) { *(uint2 *)p = make_uint2(a, b); }
// Between blocks: what a thread wrote before add_release, and what its block wrote before device_release and block_sync, is seen
// after load_acquire gave the sum, block_sync and device_acquire.
INLINE u32 load_acquire(const u32 *p) {
  u32 v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
INLINE void add_release(u32 *p, u32 n) { asm volatile("red.release.gpu.global.add.u32 [%0], %1;" : : "l"(p), "r"(n) : "memory"); }
INLINE u32 take_ticket(u32 *p) { // counts up, and is both an acquire and a release
  u32 old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(old) : "l"(p) : "memory");
  return old;
}
INLINE void device_release() {} // block_sync and the release that follows carry over to the block
INLINE void device_acquire() {}
INLINE void rest() {}
INLINE int wave_index() { return TID / WAVE; }
INLINE void pin(float &) {}
INLINE int zero_after(float) { return 0; } // ptxas keeps registers in check by itself

INLINE float half_to_float(u16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
INLINE u16 float_to_half(float f) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
// Two halves in a word: a + c, and a·b + c.
INLINE u32 half2_add(u32 a, u32 c) {
  u32 r;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(c));
  return r;
}
INLINE u32 half2_fma(u32 a, u32 b, u32 c) {
  u32 r;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
// bytes_to_halves turns bytes 2·pair and 2·pair+1 of a word into the halves 1024 + byte.
INLINE u32 bytes_to_halves(u32 u, int pair) { return __byte_perm(u, 0x64646464u, pair ? 0x4342u : 0x4140u); }
INLINE float half2_dot(u32 a, u32 b, float c) {
  c = FMA(half_to_float((u16)a), half_to_float((u16)b), c);
  return FMA(half_to_float((u16)(a >> 16)), half_to_float((u16)(b >> 16)), c);
}
INLINE void mma_half(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
INLINE void mma_bf16(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// Signed bytes: c += a·b, 16 rows, 8 columns, 32 deep.
INLINE void mma_bytes(int c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// pick is bytes of the eight of a (0..3) and b (4..7), by the nibbles of which.
INLINE u32 pick(u32 a, u32 b, u32 which) { return __byte_perm(a, b, which); }
INLINE u32 shuffle_xor_word(u32 v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }

#else // AMD: compiler builtins only, so that hiprtc and a bare clang both take it

#ifndef __device__
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#endif
#define INLINE static __device__ inline __attribute__((always_inline, unused))
#define KERNEL(threads, blocks) extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(threads, threads))) void
#define TID ((int)__builtin_amdgcn_workitem_id_x())
#define BLOCK_X ((int)__builtin_amdgcn_workgroup_id_x())
#define BLOCK_Y ((int)__builtin_amdgcn_workgroup_id_y())
#define BLOCK_Z ((int)__builtin_amdgcn_workgroup_id_z())
#define BITS(f) __builtin_bit_cast(u32, (float)(f))
#define FLOAT(u) __builtin_bit_cast(float, (u32)(u))
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#define FMAX(a, b) __builtin_fmaxf(a, b)
#define FABS(a) __builtin_fabsf(a)

// Pointers that themselves come from memory do not say where they point; loads that do not know are slow.
#define GLOBAL __attribute__((address_space(1)))
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x8 __attribute__((ext_vector_type(8)));
typedef short s16x4 __attribute__((ext_vector_type(4)));
typedef short s16x8 __attribute__((ext_vector_type(8)));
typedef short s16x16 __attribute__((ext_vector_type(16)));
typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));
typedef _Float16 f16x16 __attribute__((ext_vector_type(16)));

INLINE void block_sync() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
INLINE float shuffle_xor(float v, int mask) {
  int from = (TID & (WAVE - 1)) ^ mask; // blocks are one-dimensional and a multiple of the wave
  return FLOAT(__builtin_amdgcn_ds_bpermute(from << 2, (int)BITS(v)));
}
INLINE float exp2_fast(float v) { return __builtin_exp2f(v); }
INLINE float rsqrt_fast(float v) { return __builtin_amdgcn_rsqf(v); }

struct Quad {
  u32 v[4];
};
INLINE Quad quad(u32x4 t) { return {{t[0], t[1], t[2], t[3]}}; }
// load_once reads 16 bytes that nothing will read again.
INLINE Quad load_once(const void *p) { return quad(__builtin_nontemporal_load((const GLOBAL u32x4 *)p)); }
INLINE Quad load16(const void *p) { return quad(*(const u32x4 *)p); }
INLINE Quad load16_global(const void *p) { return quad(*(const GLOBAL u32x4 *)p); }
INLINE void store8(void *p, u32 a, u32 b) { *(u32x2 *)p = u32x2{a, b}; }
INLINE u32 load_acquire(const u32 *p) { return __hip_atomic_load((u32 *)p, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT); }
INLINE void add_release(u32 *p, u32 n) { (void)__hip_atomic_fetch_add(p, n, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); }
INLINE u32 take_ticket(u32 *p) { return __hip_atomic_fetch_add(p, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT); }
INLINE void device_release() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); } // by every wave: each knows its own writes
INLINE void device_acquire() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
INLINE void rest() { __builtin_amdgcn_s_sleep(1); }
INLINE int wave_index() { return __builtin_amdgcn_readfirstlane(TID / WAVE); } // tells the compiler that it is uniform
// pin keeps the making of v where it is. A matrix instruction whose result only some lanes read is otherwise moved to where only
// those run, and then lacks the other lanes' share of the operands (seen with clang 19, gfx1201).
INLINE void pin(float &v) { asm volatile("" : "+v"(v)); }
// zero_after is 0, to be had only once v is. An address that it is added to is not known earlier: this bounds how many
// loads run ahead of their use, and so the registers that they hold.
INLINE int zero_after(float v) {
  int zero;
  asm volatile("" : "=v"(zero) : "v"(v), "0"(0));
  return zero;
}

INLINE float half_to_float(u16 h) { return (float)__builtin_bit_cast(_Float16, h); }
INLINE u16 float_to_half(float f) { return __builtin_bit_cast(u16, (_Float16)f); }
INLINE u32 half2_add(u32 a, u32 c) { return __builtin_bit_cast(u32, __builtin_bit_cast(f16x2, a) + __builtin_bit_cast(f16x2, c)); }
INLINE u32 half2_fma(u32 a, u32 b, u32 c) {
  return __builtin_bit_cast(u32, __builtin_elementwise_fma(__builtin_bit_cast(f16x2, a), __builtin_bit_cast(f16x2, b), __builtin_bit_cast(f16x2, c)));
}
// bytes_to_halves turns bytes 2·pair and 2·pair+1 of a word into the halves 1024 + byte.
INLINE u32 bytes_to_halves(u32 u, int pair) { return __builtin_amdgcn_perm(0x64646464u, u, pair ? 0x04030402u : 0x04010400u); }
INLINE float half2_dot(u32 a, u32 b, float c) { return __builtin_amdgcn_fdot2(__builtin_bit_cast(f16x2, a), __builtin_bit_cast(f16x2, b), c, false); }

#endif

struct alignas(16) Aligned16 { // the element of dynamic LDS
  u32 v[4];
};

INLINE float bf16_to_float(u16 h) { return FLOAT((u32)h << 16); }
INLINE u16 float_to_bf16(float f) {
  u32 u = BITS(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (u16)(u >> 16 | 0x40u);
  return (u16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

// load_floats reads four floats of device memory.
INLINE void load_floats(float v[4], const float *p) {
  Quad q = load16_global(p);
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] = FLOAT(q.v[i]);
}

INLINE float wave_sum(float v) {
#pragma unroll
  for (int o = WAVE / 2; o > 0; o >>= 1) v += shuffle_xor(v, o);
  return v;
}
INLINE float wave_max(float v) {
#pragma unroll
  for (int o = WAVE / 2; o > 0; o >>= 1) v = FMAX(v, shuffle_xor(v, o));
  return v;
}
// Largest magnitude, NaN if there is one: magnitudes compare as their bits do.
INLINE float magnitude_max(float top, float v) {
  u32 a = BITS(top), b = BITS(v) & 0x7fffffffu;
  return FLOAT(a > b ? a : b);
}
INLINE float wave_magnitude_max(float v) {
#pragma unroll
  for (int o = WAVE / 2; o > 0; o >>= 1) v = magnitude_max(v, shuffle_xor(v, o));
  return v;
}

#define LOG2E 1.44269504088896341f
INLINE float minus_inf() { return FLOAT(0xff800000u); }

// gelu is x·Φ(x); erfc by a rational in t times exp(−z²), absolute error below 2e-7.
INLINE float gelu(float x) {
  float z = FABS(x) * 0.70710678118654752f;
  float t = 1.0f / FMA(0.3275911f, z, 1.0f);
  float p = FMA(t, FMA(t, FMA(t, FMA(t, 1.061405429f, -1.453152027f), 1.421413741f), -0.284496736f), 0.254829592f) * t;
  float half_erfc = 0.5f * p * exp2_fast(-z * z * LOG2E);
  return x * (x < 0 ? half_erfc : 1.0f - half_erfc);
}
INLINE float silu(float x) { return x / (1.0f + exp2_fast(-x * LOG2E)); }
