// matmul.hip: products of many activation rows with a weight, on the matrix units. Follows compat.h, tile.h, best run from
// nine rows on. Accumulates in F32; products of int4 and int8 codes are exact.
//
//   split_rows splits activations (after RMSNorm, if asked) once for all blocks
//   matmul     Y = act(X·Wᵀ + bias) + residual on split activations

#define WAVES 4
#define THREADS (WAVES * WAVE)
#define COLUMN_ROWS 32                    // activation rows of a block
#define COLUMN_TILES (COLUMN_ROWS / ROWS_X)

INLINE float block_join(float v, bool sum) {
  __shared__ float part[WAVES];
  v = sum ? wave_sum(v) : wave_max(v);
  if (TID % WAVE == 0) part[wave_index()] = v;
  block_sync();
  float s = part[0];
  for (int w = 1; w < WAVES; w++) s = sum ? s + part[w] : FMAX(s, part[w]);
  block_sync();
  return s;
}

// split_rows: x [rows, k], k a multiple of 4, to split [column block][slab][row 32][SPLIT_ROW] and back [rows]; a block a
// row, all rows of the last column block included. With gain: RMSNorm(x)·gain·(1 + ada[slot]).
KERNEL(THREADS, 2) split_rows(u16 *split, float *back, const float *x, const float *gain, const float *ada, const int *slot, int rows, int k, float eps) {
  const int r = BLOCK_X, from = r < rows ? r : rows - 1;
  const int slabs = (k + SLAB_COLS - 1) / SLAB_COLS;
  const float *in = x + (u64)from * k, *scale = ada ? ada + (u64)(slot[from] < 0 ? 0 : slot[from]) * k : 0;
  float square = 0, top = 0;
  for (int i = TID; i < k; i += THREADS) {
    float v = in[i];
    square = FMA(v, v, square);
    if (gain) v *= gain[i];
    if (scale) v *= 1.0f + scale[i];
    top = FMAX(top, FABS(v));
  }
  float norm = gain ? rsqrt_fast(block_join(square, true) / (float)k + eps) : 1.0f;
  float to_half = split_scale(block_join(top, false) * norm), factor = norm * to_half;
  if (TID == 0) back[r] = 1.0f / to_half;
  u16 *to = split + ((u64)(r / COLUMN_ROWS) * slabs * COLUMN_ROWS + r % COLUMN_ROWS) * SPLIT_ROW;
  for (int i = TID * 4; i < slabs * SLAB_COLS; i += THREADS * 4) {
    float v[4] = {0, 0, 0, 0};
    if (i < k) {
      load_floats(v, in + i);
#pragma unroll
      for (int e = 0; e < 4; e++) {
        if (gain) v[e] *= gain[i + e];
        if (scale) v[e] *= 1.0f + scale[i + e];
      }
    }
    u16 *hi = to + (u64)(i / SLAB_COLS) * COLUMN_ROWS * SPLIT_ROW + i % SLAB_COLS;
    split_store(hi, hi + SLAB_COLS, v, factor);
  }
}

// matmul: a block four tiles of 16 weight rows (x) and 32 activation rows (y). Every wave has a tile of its own; the
// block's activations pass through LDS a slab at a time. y [rows, n], SwiGLU [rows, half], may be the residual.
KERNEL(THREADS, 2) matmul(float *y, const u16 *split, const float *back, const u8 *codes, const u16 *scales, const float *bias, const float *res, int rows, int k, int n, int tiles, int half, int act) {
  __shared__ Aligned16 staged[COLUMN_ROWS * SPLIT_ROW / 8];
  __shared__ float sums[WAVES][COLUMN_ROWS][17]; // 17: rows start in different banks
  const int lane = TID % WAVE, wave = wave_index();
  const int slabs = (k + SLAB_COLS - 1) / SLAB_COLS, tile = BLOCK_X * WAVES + wave;
  const int mine = tile < tiles ? tile : tiles - 1; // a wave without a tile keeps the barriers
  const u16 *at = (const u16 *)staged + slab_lane<ROWS_X>(lane);
  const Aligned16 *from = (const Aligned16 *)(split + (u64)BLOCK_Y * slabs * COLUMN_ROWS * SPLIT_ROW);

  float acc[COLUMN_TILES][ACCS];
#pragma unroll
  for (int c = 0; c < COLUMN_TILES; c++)
#pragma unroll
    for (int i = 0; i < ACCS; i++) acc[c][i] = 0;
  Slab b;
  Source source = slab_source(codes, scales, mine * slabs, lane);
  slab_load(b, source);
  for (int s = 0; s < slabs; s++) {
    block_sync();
    for (int i = TID; i < COLUMN_ROWS * SPLIT_ROW / 8; i += THREADS) staged[i] = from[(u64)s * (COLUMN_ROWS * SPLIT_ROW / 8) + i];
    block_sync();
    Slab next = b;
    source_skip(source, 1);
    if (s + 1 < slabs) slab_load(next, source);
#pragma unroll
    for (int c = 0; c < COLUMN_TILES; c++) slab_mul<ROWS_X>(acc[c], b, at + c * ROWS_X * SPLIT_ROW);
    b = next;
  }
#pragma unroll
  for (int c = 0; c < COLUMN_TILES; c++)
    if (acc_join(acc[c], lane)) {
#pragma unroll
      for (int i = 0; i < ACCS; i++) sums[wave][c * ROWS_X + acc_xrow(lane, i)][acc_wrow(lane, i)] = acc[c][i];
    }
  block_sync();
  for (int i = TID; i < WAVES * COLUMN_ROWS * 16; i += THREADS) {
    int r = i % 16, w = i / 16 % WAVES, j = i / 16 / WAVES, row = BLOCK_Y * COLUMN_ROWS + j, t = BLOCK_X * WAVES + w;
    int out = output_row(t, r, half), cols = n;
    if (t >= tiles || row >= rows || out >= n || (half && out - (r >> 3) * half >= half)) continue;
    float v = sums[w][j][r] * back[row] + (bias ? bias[out] : 0.0f);
    if (act == ACT_GELU) v = gelu(v);
    if (act == ACT_SWIGLU) {
      if (r >= 8) continue;
      v = silu(v) * (sums[w][j][r + 8] * back[row] + (bias ? bias[out + half] : 0.0f));
      cols = half;
    }
    u64 to = (u64)row * cols + out;
    y[to] = res ? v + res[to] : v;
  }
}
