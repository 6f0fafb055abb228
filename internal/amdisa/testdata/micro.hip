// One kernel an instruction or idiom: a, b, c are words, one a work-item; the Go test holds the same arithmetic.
#include "device.h"
#define K(name) extern "C" __global__ void LAUNCH(256) name(const u32* a, const u32* b, const u32* c, u32* o)
#define A a[TID]
#define B b[TID]
#define C c[TID]
#define SET(x) { o[TID] = (x); }
K(add_sub) SET(A + B - (C ^ 0x1234567))
K(logic) SET((A & B) | (~A & C) ^ (B | C))
K(shifts) SET((A << (B & 31)) ^ (A >> (C & 31)) ^ (u32)((int)B >> (C & 31)))
K(mul_lo) SET(A * B + C)
K(mul_hi) SET((u32)(((u64)A * B) >> 32) ^ (u32)(((long long)(int)A * (int)C) >> 32))
K(mul64) { u64 x = ((u64)A << 32 | B) * ((u64)B << 32 | C); o[TID] = (u32)(x >> 32) ^ (u32)x; }
K(add64) { u64 x = ((u64)A << 32 | B) + ((u64)C << 32 | A) - B; o[TID] = (u32)(x >> 32) ^ (u32)x; }
K(shift64) { u64 x = (u64)A << 32 | B; o[TID] = (u32)((x << (C & 63)) >> 32) ^ (u32)(x >> (B & 63)) ^ (u32)((long long)x >> (A & 63)); }
K(divide) SET(A / ((B & 1023) + 1) + (int)C % ((int)(A & 255) + 1))
K(bitcount) SET(__builtin_clz(A | 1) * 1000 + __builtin_popcount(B) + 100000 * __builtin_ctz(C | 0x80000000u))
K(reverse) SET(__builtin_bitreverse32(A) ^ __builtin_bswap32(B))
K(fields) SET(((A >> 7) & 0x1ff) ^ ((A & 0x00ff00ff) | (B & ~0x00ff00ff)) ^ (u32)((int)(B << 4) >> 28))
K(perm) SET(__builtin_amdgcn_perm(A, B, 0x05010400u ^ (TID & 3)))
K(alignbit) SET(__builtin_amdgcn_alignbit(A, B, C & 31))
K(sad) SET(__builtin_amdgcn_sad_u8(A, B, C))
K(min_max) { int x = A, y = B, z = C; int m = x > y ? x : y; o[TID] = (u32)(m < z ? m : z) + (A > B ? A : B) - (B < C ? B : C); }
K(short_math) { u16 x = A, y = B, z = C; x = x * y + z; x = x >> (y & 7); short s = (short)y >> 3; o[TID] = (u32)(u16)(x + s); }
K(select) SET((int)A < (int)B ? C : A > C ? B : A == 7 ? 1u : 2u)
K(f_math) SET(BITS(F(A) * F(B) + F(C)))
K(f_fma) SET(BITS(__builtin_fmaf(F(A), F(B), -F(C))))
K(f_sub_abs) SET(BITS(__builtin_fabsf(F(A)) - __builtin_fabsf(F(B)) * 0.5f))
K(f_div) SET(BITS(F(A) / F(B)))
K(f_minmax) SET(BITS(__builtin_fminf(F(A), F(B)) + __builtin_fmaxf(F(C), 0.25f)))
K(f_med3) SET(BITS(__builtin_amdgcn_fmed3f(F(A), -0.5f, F(B))))
K(f_compare) SET((F(A) < F(B)) + 2 * (F(A) >= F(C)) + 4 * (F(B) != F(C)) + 8 * !(F(A) > 0.f))
K(f_class) SET(__builtin_isnan(F(A)) + 2 * __builtin_isinf(F(B)) + 4 * __builtin_isfinite(F(C)))
K(f_round) SET(BITS(__builtin_rintf(F(A) * 4.f) + __builtin_floorf(F(B)) * 8.f + __builtin_truncf(F(C)) + __builtin_ceilf(F(A))))
K(f_ldexp) SET(BITS(__builtin_amdgcn_ldexpf(F(A), (int)(B & 7) - 3)))
K(f_exp2) SET(BITS(__builtin_amdgcn_exp2f(F(A))))
K(f_log2) SET(BITS(__builtin_amdgcn_logf(__builtin_fabsf(F(A)) + 0.1f)))
K(f_rcp) SET(BITS(__builtin_amdgcn_rcpf(F(A) + 3.f)))
K(f_rsq) SET(BITS(__builtin_amdgcn_rsqf(__builtin_fabsf(F(A)) + 1.f)))
K(f_sqrt) SET(BITS(__builtin_amdgcn_sqrtf(__builtin_fabsf(F(A)))))
K(f_sin) SET(BITS(__builtin_amdgcn_sinf(F(A) * 0.125f)))
K(f_double) { double d = (double)F(A); d = __builtin_fma(d, (double)F(B), 1.25) + d * 0.5; o[TID] = BITS((float)d); }
K(cvt_int) SET(BITS((float)(int)A) ^ BITS((float)B) ^ (u32)(int)(F(C) * 1000.f))
K(cvt_bytes) SET(BITS((float)((A >> 16) & 255) + (float)(A & 255) * 256.f))
K(cvt_half) { half2 r = {(half_t)F(A), (half_t)F(B)}; o[TID] = BITS(r); }
K(cvt_float) SET(BITS((float)H(A).x + (float)H(B).y))
K(cvt_pkrtz) SET(BITS(__builtin_amdgcn_cvt_pkrtz(F(A), F(B) * 3.0f)))
K(h_math) { half_t x = H(A).x, y = H(B).x; half_t z = x * y + x - y; o[TID] = __builtin_bit_cast(u16, z); }
K(pk_add) { half2 r = H(A) - (half2){1032, 1032}; o[TID] = BITS(r); }
K(pk_mul) { half2 r = H(A) * H(B); o[TID] = BITS(r); }
K(pk_fma) { half2 r = __builtin_elementwise_fma(H(A), H(B), H(C)); o[TID] = BITS(r); }
K(pk_swap) { half2 x = H(A), y = H(B); half2 r = x.yx * y - y.yx; o[TID] = BITS(r); }
K(mix) { half2 x = H(A), y = H(B); o[TID] = BITS(__builtin_fmaf((float)x.x, (float)y.y, F(C))); }
K(mix_half) { half2 x = H(A), y = H(B), r; r.x = (half_t)__builtin_fmaf((float)x.x, (float)y.x, F(C)); r.y = (half_t)__builtin_fmaf((float)x.y, (float)y.y, F(C)); o[TID] = BITS(r); }
K(dot2) SET(BITS(__builtin_amdgcn_fdot2(H(A), H(B), F(C), false)))
K(udot8) SET(__builtin_amdgcn_udot8(A, B, C, false))
K(udot4) SET(__builtin_amdgcn_udot4(A, B, C, false))
#if defined(__GFX11__) || defined(__GFX12__)
K(sdot4) SET(__builtin_amdgcn_sudot4(true, A, true, B, C, false))
K(sdot8) SET(__builtin_amdgcn_sudot8(true, A, true, B, C, false))
K(dot2_bf16) SET(BITS(__builtin_amdgcn_fdot2_f32_bf16(__builtin_bit_cast(__bf16 __attribute__((ext_vector_type(2))), A), __builtin_bit_cast(__bf16 __attribute__((ext_vector_type(2))), B), F(C), false)))
#else
K(sdot4) SET(__builtin_amdgcn_sdot4(A, B, C, false))
K(sdot8) SET(__builtin_amdgcn_sdot8(A, B, C, false))
#endif
#define DPP(name, ctrl, keep) K(name) SET(__builtin_amdgcn_update_dpp(0xdead, (int)A, ctrl, 0xf, 0xf, keep))
DPP(dpp_quad, 0xB1, true) DPP(dpp_shr1, 0x111, true) DPP(dpp_shr4_old, 0x114, false) DPP(dpp_shl2, 0x102, true)
DPP(dpp_ror8, 0x128, true) DPP(dpp_mirror, 0x140, true) DPP(dpp_half_mirror, 0x141, true)
#if defined(__GFX9__)
DPP(dpp_bcast15, 0x142, true) DPP(dpp_wave_shr, 0x138, true)
#else
DPP(dpp_share3, 0x153, true) DPP(dpp_xmask5, 0x165, true)
K(permlane16) SET(__builtin_amdgcn_permlane16(A, A, 0x67452301, 0xefcdab89, false, false))
K(permlanex16) SET(__builtin_amdgcn_permlanex16(A, A, 0x76543210, 0xfedcba98, false, false))
K(dpp8) SET(__builtin_amdgcn_mov_dpp8(A, 0x7 | (6 << 3) | (5 << 6) | (4 << 9) | (3 << 12) | (2 << 15) | (1 << 18)))
#endif
K(bpermute) SET(__builtin_amdgcn_ds_bpermute((lane_id() ^ 5) << 2, A))
K(permute) SET(__builtin_amdgcn_ds_permute((lane_id() ^ 9) << 2, A))
K(swizzle) SET(__builtin_amdgcn_ds_swizzle(A, 0x041F))
K(readlane) SET(__builtin_amdgcn_readlane(A, 7) + __builtin_amdgcn_readfirstlane(B))
K(diverge) { u32 s = 0; for (u32 i = 0; i < (A & 15); i++) { if ((B >> i) & 1) s += C; else s ^= A; if (s == 7) break; } o[TID] = s; }
K(lds_words) { __shared__ u32x4 s[64]; u32x4 v = {A, B, C, A ^ B}; s[TID & 63] = v; barrier(); u32x4 r = s[(TID + 1) & 63]; o[TID] = r.x ^ r.y * 3 ^ r.z * 5 ^ r.w * 7; }
K(lds_bytes) { __shared__ u8 s[64]; s[TID] = (u8)A; barrier(); u32 r = 0; for (int j = 0; j < 4; j++) r |= (u32)s[(TID * 7 + j) & 63] << (8 * j); o[TID] = r; }
K(lds_atomic) { __shared__ u32 s[4]; if (TID < 4) s[TID] = 0; barrier(); __hip_atomic_fetch_add(&s[TID & 3], A & 0xffff, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); barrier(); o[TID] = s[TID & 3]; }
K(lds_atomic64) { __shared__ u64 s[4]; if (TID < 4) s[TID] = 0; barrier(); __hip_atomic_fetch_max(&s[TID & 3], (u64)A << 20 | B >> 12, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); barrier(); u64 m = s[TID & 3]; o[TID] = (u32)(m >> 32) ^ (u32)m; }
K(atomic_add) { __hip_atomic_fetch_add(&o[TID & 3], A & 0xffff, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
K(atomic_fadd) { __hip_atomic_fetch_add((float*)&o[TID & 3], 1.0f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
K(atomic_cas) { u32 e = 0; __hip_atomic_compare_exchange_strong(&o[TID], &e, A, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
K(scratch) { volatile u32 s[16]; for (int i = 0; i < 16; i++) s[i] = A + i * B; u32 r = 0; for (int i = 0; i < 16; i++) r = r * 31 + s[(A >> i) & 15]; o[TID] = r; }
K(global_wide) { const u32x4* p = (const u32x4*)a; if (TID < 16) { u32x4 v = p[TID]; ((u32x4*)o)[TID] = v.wzyx; } }
K(global_bytes) { const u8* p = (const u8*)a; const signed char* q = (const signed char*)b; const short* r = (const short*)c; o[TID] = p[TID * 3 & 31] + q[TID] + r[TID]; }
