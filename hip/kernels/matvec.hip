// matvec.hip: products of 1..8 activation rows with a weight, RMSNorm in front and all that follows behind.
// Follows compat.h, tile.h, matvec.h. Accumulates in F32; products of int4 and int8 codes are exact.
//
//   matvec_m1, _m2, _m4, _m8: Y = act(X·Wᵀ + bias) + residual
//   qkv_m1, _m2, _m4, _m8:    Y = X·Wᵀ + bias, q rotated into Y, k rotated and v appended to the slots' rings

template <int M>
struct Write {
  float *y;               // [m, n], SwiGLU [m, half]; may be the residual
  const float *bias, *res; // [n], as y, or 0
  int m, n, half, act;    // half: n/2 if a tile holds 8 rows of each of two equal parts, else 0

  __device__ inline float value(const Sums<M> &sum, int r, int j, int row) const { return bias ? sum(r, j) + bias[row] : sum(r, j); }

  __device__ inline void operator()(int tile, const Sums<M> &sum) const {
    int r = TID & 15, j = TID >> 4, row = output_row(tile, r, half), cols = n;
    if (j >= m || row >= n || (half && row - (r >> 3) * half >= half)) return;
    float v = value(sum, r, j, row);
    if (act == ACT_GELU) v = gelu(v);
    if (act == ACT_SWIGLU) {
      if (r >= 8) return;
      v = silu(v) * value(sum, r + 8, j, row + half);
      cols = half;
    }
    u64 at = (u64)j * cols + row;
    y[at] = res ? v + res[at] : v;
  }
};

template <int M>
struct Append {
  float *y;               // [m, n]; only q is written
  const float *bias;      // [n] or 0
  const int *slot, *pos;  // [m]
  const float *cos, *sin; // [m, head/2]
  void *keys, *values;    // [slots, cap, kvdim] of F32, or F16 if half_ring
  int m, n, qdim, kvdim, head, cap, half_ring;

  __device__ inline void operator()(int tile, const Sums<M> &sum) const {
    int r = TID & 15, j = TID >> 4, row = tile * 16 + r;
    if (j >= m || row >= n || slot[j] < 0) return;
    float v = sum(r, j), w = sum(r ^ 1, j); // pairs are adjacent rows, so both lie in this tile
    if (bias) v += bias[row], w += bias[row ^ 1];
    int in = row < qdim ? row : (row - qdim) % kvdim; // within q, k or v
    if (row < qdim + kvdim) {
      int at = j * (head / 2) + in % head / 2;
      float c = cos[at], s = sin[at];
      v = r & 1 ? FMA(w, s, v * c) : FMA(-w, s, v * c);
    }
    if (row < qdim) {
      y[(u64)j * n + row] = v;
      return;
    }
    void *ring = row < qdim + kvdim ? keys : values;
    u64 at = ((u64)slot[j] * cap + pos[j] % cap) * kvdim + in;
    if (half_ring) ((u16 *)ring)[at] = float_to_half(v);
    else ((float *)ring)[at] = v;
  }
};

#define MATVEC(M)                                                                                                                      \
  KERNEL(THREADS, OCCUPANCY)                                                                                                                      \
  matvec_m##M(float *y, const float *x, const u8 *codes, const u16 *scales, const float *gain, const float *ada, const int *slot,      \
              const float *bias, const float *res, int m, int k, int n, int tiles, int blocks, int piece, float eps, int half, int act) { \
    Write<M> done = {y, bias, res, m, n, half, act};                                                                                   \
    products<M>(Input{x, gain, ada, slot, m, k, eps}, codes, scales, tiles, blocks, piece, done);                                      \
  }                                                                                                                                    \
  KERNEL(THREADS, OCCUPANCY)                                                                                                                      \
  qkv_m##M(float *y, const float *x, const u8 *codes, const u16 *scales, const float *gain, const float *ada, const int *slot,         \
           const float *bias, const int *pos, const float *cos, const float *sin, void *keys, void *values, int m, int k, int n,       \
           int tiles, int blocks, int piece, float eps, int qdim, int kvdim, int head, int cap, int half_ring) {                       \
    Append<M> done = {y, bias, slot, pos, cos, sin, keys, values, m, n, qdim, kvdim, head, cap, half_ring};                            \
    products<M>(Input{x, gain, ada, slot, m, k, eps}, codes, scales, tiles, blocks, piece, done);                                      \
  }

MATVEC(1)
MATVEC(2)
MATVEC(4)
MATVEC(8)
