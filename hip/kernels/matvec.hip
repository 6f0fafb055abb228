// matvec.hip: products of 1..8 activation rows with a weight, RMSNorm in front and all that follows behind.
// Follows compat.h, tile.h, matvec.h, linear.h. Accumulates in F32; products of int4 and int8 codes are exact.
//
//   matvec_m1, _m2, _m4, _m8: Y = act(X·Wᵀ + bias) + residual
//   qkv_m1, _m2, _m4, _m8:    Y = X·Wᵀ + bias, q rotated into Y, k rotated and v appended to the slots' rings

#define MATVEC(M)                                                                                                                      \
  KERNEL(THREADS, OCCUPANCY)                                                                                                           \
  matvec_m##M(float *y, const float *x, const u8 *codes, const u16 *scales, const float *gain, const float *ada, const int *slot,      \
              const float *bias, const float *res, int m, int k, int n, int tiles, int blocks, int piece, float eps, int half, int act) { \
    AtOnce ready;                                                                                                                      \
    LinearArgs a = {y, x, codes, scales, gain, ada, slot, bias, res, 0, 0, 0, 0, 0, m, k, n, tiles, piece, eps, half, act, 0, 0, 0, 0, 0}; \
    linear<M, ACT_NONE>(a, blocks, ready);                                                                                             \
  }                                                                                                                                    \
  KERNEL(THREADS, OCCUPANCY)                                                                                                           \
  qkv_m##M(float *y, const float *x, const u8 *codes, const u16 *scales, const float *gain, const float *ada, const int *slot,         \
           const float *bias, const int *pos, const float *cos, const float *sin, void *keys, void *values, int m, int k, int n,       \
           int tiles, int blocks, int piece, float eps, int qdim, int kvdim, int head, int cap, int half_ring) {                       \
    AtOnce ready;                                                                                                                      \
    LinearArgs a = {y, x, codes, scales, gain, ada, slot, bias, 0, pos, cos, sin, keys, values,                                        \
                    m, k, n, tiles, piece, eps, 0, ACT_APPEND, qdim, kvdim, head, cap, half_ring};                                     \
    linear<M, ACT_APPEND>(a, blocks, ready);                                                                                           \
  }

MATVEC(1)
MATVEC(2)
MATVEC(4)
MATVEC(8)
