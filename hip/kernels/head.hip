// head.hip: logits of 1..8 rows and the two largest of each, without writing the logits unless asked to.
// Follows compat.h, tile.h, matvec.h, best.h. The list of partial results goes to argmax_merge of argmax.hip.

struct Top {
  float *logits; // [m, n] or 0
  int m, n;
  Best best; // of this thread's rows of the weight, for its activation row

  __device__ inline void before(int, int, int) {}

  __device__ inline void operator()(int tile, int r, int j, const Sums &sum) {
    int row = tile * 16 + r;
    if (tile < 0 || j >= m || row >= n) return;
    float v = sum(r);
    best = best_add(best, v, row);
    if (logits) logits[(u64)j * n + row] = v;
  }
};

template <int M>
INLINE void head(Best *part, float *logits, const LinearArgs &in, int blocks) {
  const int batch = Batch<M>::tiles;
  static_assert(TEAMS == 1, "a block is one team");
  __shared__ Best list[batch][M][16];
  Top done = {logits, in.m, in.n, best_none()};
  AtOnce ready;
  products<M>(in, blocks, ready, done);
  int r = TID & 15, j = (TID >> 4) % M, place = (TID >> 4) / M;
  if (place < batch) list[place][j][r] = done.best;
  block_sync();
  for (int o = 8; o > 0; o >>= 1) {
    if (place < batch && r < o) list[place][j][r] = best_join(list[place][j][r], list[place][j][r + o]);
    block_sync();
  }
  if (place != 0 || r != 0 || j >= in.m) return;
  for (int p = 1; p < batch; p++) list[0][j][0] = best_join(list[0][j][0], list[p][j][0]);
  part[(u64)j * blocks + BLOCK_X] = list[0][j][0];
}

#define HEAD(M)                                                                                                                    \
  KERNEL(THREADS, OCCUPANCY)                                                                                                                  \
  head_m##M(Best *part, const float *x, const u8 *codes, const u16 *scales, const float *gain, const float *ada, const int *slot,  \
            float *logits, int m, int k, int n, int tiles, int blocks, int piece, float eps) {                                     \
    LinearArgs a = {0, x, codes, scales, gain, ada, slot, 0, 0, 0, 0, 0, 0, 0, m, k, n, tiles, piece, eps, 0, 0, 0, 0, 0, 0, 0};       \
    head<M>(part, logits, a, blocks);                                                                                              \
  }

HEAD(1)
HEAD(2)
HEAD(4)
HEAD(8)
