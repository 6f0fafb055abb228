// head.hip: logits of 1..8 rows and the two largest of each, without writing the logits unless asked to.
// Follows compat.h, tile.h, matvec.h, best.h. The list of partial results goes to argmax_merge of argmax.hip.

template <int M>
struct Top {
  float *logits; // [m, n] or 0
  int m, n;
  Best best; // of this thread's weight row modulo 16, activation row TID/16

  __device__ inline void operator()(int tile, const Sums<M> &sum) {
    int r = TID & 15, j = TID >> 4, row = tile * 16 + r;
    if (j >= m || row >= n) return;
    float v = sum(r, j);
    best = best_add(best, v, row);
    if (logits) logits[(u64)j * n + row] = v;
  }
};

template <int M>
INLINE void head(Best *part, float *logits, const Input &in, const u8 *codes, const u16 *scales, int n, int tiles, int blocks, int piece) {
  __shared__ Best list[M][16];
  Top<M> done = {logits, in.m, n, best_none()};
  products<M>(in, codes, scales, tiles, blocks, piece, done);
  int r = TID & 15, j = TID >> 4;
  if (j < M) list[j][r] = done.best;
  for (int o = 8; o > 0; o >>= 1) {
    block_sync();
    if (j < M && r < o) list[j][r] = best_join(list[j][r], list[j][r + o]);
  }
  if (j < in.m && r == 0) part[(u64)j * blocks + BLOCK_X] = list[j][0];
}

#define HEAD(M)                                                                                                                    \
  KERNEL(THREADS, OCCUPANCY)                                                                                                                  \
  head_m##M(Best *part, const float *x, const u8 *codes, const u16 *scales, const float *gain, const float *ada, const int *slot,  \
            float *logits, int m, int k, int n, int tiles, int blocks, int piece, float eps) {                                     \
    head<M>(part, logits, Input{x, gain, ada, slot, m, k, eps}, codes, scales, n, tiles, blocks, piece);                           \
  }

HEAD(1)
HEAD(2)
HEAD(4)
HEAD(8)
