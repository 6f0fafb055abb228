// matvec.h: the product of up to M activation rows with a weight, for matvec.hip and head.hip. Follows tile.h.
//
// A block works on whole tiles, every blocks-th; its waves take slabs in turn and keep DEPTH of them in flight each. The
// first loads are under way before the block looks at its activations. Results do not depend on M: slabs of a tile are
// always dealt to WAVES waves in the same order and joined in the same order. Passed by a tuning host: WAVES, DEPTH, OCCUPANCY.

#ifndef WAVES
#define WAVES 8
#endif
#define THREADS (WAVES * WAVE)
#ifndef OCCUPANCY
#define OCCUPANCY 2 // blocks of a CUDA multiprocessor; with 3, m1 spills a few bytes
#endif

// depth bounds WAVES·depth·SLAB_COLS·M so that the shortest piece of split activations is 32 KiB.
template <int M>
struct Depth {
#ifdef DEPTH
  static const int value = DEPTH;
#elif FORMAT == 4
  static const int value = M <= 2 ? 3 : M <= 4 ? 2 : 1;
#else
  static const int value = M <= 4 || FORMAT > 8 ? 4 : 2;
#endif
};

// Input is what a product reads: rows x [m, k], k a multiple of 4; with gain [k], RMSNorm(x)·gain·(1 + ada[slot]).
struct Input {
  const float *x, *gain, *ada;
  const int *slot;
  int m, k;
  float eps;
};

INLINE void input_load(float v[4], const Input &in, int j, int i) {
  j = j < in.m ? j : in.m - 1;
  load_floats(v, in.x + (u64)j * in.k + i);
}

INLINE void input_gain(float v[4], const Input &in, int j, int i) {
  if (!in.gain) return;
  float g[4];
  load_floats(g, in.gain + i);
#pragma unroll
  for (int e = 0; e < 4; e++) v[e] *= g[e];
  if (!in.ada) return;
  j = j < in.m ? j : in.m - 1;
  int slot = in.slot[j];
  load_floats(g, in.ada + (u64)(slot < 0 ? 0 : slot) * in.k + i);
#pragma unroll
  for (int e = 0; e < 4; e++) v[e] *= 1.0f + g[e];
}

// input_scales finds the factor of each row, norm and power of two in one, and the way back. Every row is summed in WAVES
// parts, by however many waves there are for it.
template <int M>
INLINE void input_scales(const Input &in, float (*stats)[WAVES][2], float *factor, float *back) {
  const int lane = TID % WAVE, wave = wave_index(), j = wave % M;
#pragma unroll 1
  for (int part = wave / M; part < WAVES; part += WAVES / M) {
    float square = 0, top = 0;
    for (int i = (part * WAVE + lane) * 4; i < in.k; i += THREADS * 4) {
      float v[4];
      input_load(v, in, j, i);
#pragma unroll
      for (int e = 0; e < 4; e++) square = FMA(v[e], v[e], square);
      input_gain(v, in, j, i);
#pragma unroll
      for (int e = 0; e < 4; e++) top = FMAX(top, FABS(v[e]));
    }
    square = wave_sum(square), top = wave_max(top);
    if (lane == 0) stats[j][part][0] = square, stats[j][part][1] = top;
  }
  block_sync();
  if (TID < M) {
    float square = 0, top = 0;
    for (int w = 0; w < WAVES; w++) square += stats[TID][w][0], top = FMAX(top, stats[TID][w][1]);
    float norm = in.gain ? rsqrt_fast(square / (float)in.k + in.eps) : 1.0f;
    float scale = split_scale(top * norm);
    factor[TID] = norm * scale;
    back[TID] = 1.0f / scale;
  }
}

// input_stage splits slabs from..to−1 into LDS, zero from column k on.
template <int M>
INLINE void input_stage(const Input &in, const float *factor, u16 *lds, int from, int to) {
  const int wave = wave_index(), j = wave % M;
  for (int i = (wave / M * WAVE + TID % WAVE) * 4; i < (to - from) * SLAB_COLS; i += THREADS / M * 4) {
    float v[4] = {0, 0, 0, 0};
    int column = from * SLAB_COLS + i;
    if (column < in.k) {
      input_load(v, in, j, column);
      input_gain(v, in, j, column);
    }
    u16 *hi = lds + (i / SLAB_COLS * M + j) * SPLIT_ROW + i % SLAB_COLS;
    split_store(hi, hi + SLAB_COLS, v, factor[j]);
  }
}

// products calls done(tile, sum) for each of the block's tiles: sum(r, j) is row r of the tile times activation row j.
//   tiles: of the weight; blocks: of the grid; piece: slabs staged at a time, a multiple of WAVES·depth or all
// Dynamic LDS: 2·M·piece·SPLIT_ROW bytes.
template <int M>
struct Sums {
  const float (*waves)[M][16];
  const float *back;
  __device__ inline float operator()(int r, int j) const {
    float s = 0;
#pragma unroll
    for (int w = 0; w < WAVES; w++) s += waves[w][j][r];
    return s * back[j];
  }
};

template <int M, class Done>
INLINE void products(const Input &in, const u8 *codes, const u16 *scales, int tiles, int blocks, int piece, Done &done) {
  extern __shared__ Aligned16 dynamic_lds[];
  __shared__ float sums[WAVES][M][16];
  __shared__ float stats[M][WAVES][2];
  __shared__ float factor[M], back[M];
  const int depth = Depth<M>::value;
  const int lane = TID % WAVE, wave = wave_index();
  const int slabs = (in.k + SLAB_COLS - 1) / SLAB_COLS;
  u16 *x = (u16 *)dynamic_lds;
  const u16 *mine = x + slab_lane(lane, M);

  Slab ring[depth];
  int tile = BLOCK_X;
#pragma unroll
  for (int d = 0; d < depth; d++)
    if (tile < tiles && wave + d * WAVES < slabs) slab_load(ring[d], codes, scales, tile * slabs + wave + d * WAVES, lane);

  input_scales<M>(in, stats, factor, back);
  for (bool staged = false; tile < tiles; tile += blocks) {
    float acc[ACCS];
#pragma unroll
    for (int i = 0; i < ACCS; i++) acc[i] = 0;
    for (int from = 0; from < slabs; from += piece) {
      int to = from + piece < slabs ? from + piece : slabs;
      if (!staged || piece < slabs) {
        block_sync();
        input_stage<M>(in, factor, x, from, to);
        block_sync();
        staged = true;
      }
      for (int s = from + wave; s < to; s += WAVES * depth) {
#pragma unroll
        for (int d = 0; d < depth; d++) {
          int t = s + d * WAVES;
          if (t < to) {
            slab_mul<M>(acc, ring[d], mine + (t - from) * M * SPLIT_ROW);
            if (t + WAVES * depth < slabs) slab_load(ring[d], codes, scales, tile * slabs + t + WAVES * depth, lane);
          }
        }
      }
    }
#pragma unroll
    for (int d = 0; d < depth; d++)
      if (tile + blocks < tiles && wave + d * WAVES < slabs) slab_load(ring[d], codes, scales, (tile + blocks) * slabs + wave + d * WAVES, lane);
    if (acc_join(acc, lane)) {
#pragma unroll
      for (int i = 0; i < ACCS; i++) {
        int j = acc_xrow(lane, i);
        if (ACTIVE(i, M) && j < M) sums[wave][j][acc_wrow(lane, i)] = acc[i];
      }
    }
    block_sync();
    done(tile, Sums<M>{sums, back});
    block_sync();
  }
}
