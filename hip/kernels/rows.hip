// rows.hip: what is done to rows one by one. Follows compat.h. All arithmetic in F32.

#define THREADS 256
#define WAVES (THREADS / WAVE)

// block_sum is the sum of v over the block, in the same order always.
INLINE float block_sum(float v) {
  __shared__ float part[WAVES];
  v = wave_sum(v);
  if (TID % WAVE == 0) part[TID / WAVE] = v;
  block_sync();
  float s = 0;
  for (int w = 0; w < WAVES; w++) s += part[w];
  return s;
}

// rmsnorm: y[r] = x[r]·(mean(x[r]²) + eps)^-½·gain, times (1 + ada[slot[r]]) with ada. x, y [rows, k]; a block a row.
KERNEL(THREADS, 2) rmsnorm(float *y, const float *x, const float *gain, const float *ada, const int *slot, int k, float eps) {
  int r = BLOCK_X;
  const float *in = x + (u64)r * k, *scale = 0;
  if (ada) {
    if (slot[r] < 0) return;
    scale = ada + (u64)slot[r] * k;
  }
  float square = 0;
  for (int i = TID; i < k; i += THREADS) square = FMA(in[i], in[i], square);
  float norm = rsqrt_fast(block_sum(square) / (float)k + eps);
  for (int i = TID; i < k; i += THREADS) {
    float v = in[i] * norm * gain[i];
    y[(u64)r * k + i] = scale ? v * (1.0f + scale[i]) : v;
  }
}

// rope_append: qkv [rows, (q + 2·kv)]: q is rotated in place, k rotated and v go to the slot's rings; a block a row.
KERNEL(THREADS, 2) rope_append(float *qkv, const int *slot, const int *pos, const float *cos, const float *sin, void *keys, void *values, int qdim, int kvdim, int head, int cap, int half_ring) {
  int r = BLOCK_X, s = slot[r];
  if (s < 0) return;
  float *row = qkv + (u64)r * (qdim + 2 * kvdim);
  u64 at = ((u64)s * cap + pos[r] % cap) * kvdim;
  for (int i = TID * 2; i < qdim + 2 * kvdim; i += THREADS * 2) {
    float a = row[i], b = row[i + 1];
    if (i < qdim + kvdim) {
      int turn = r * (head / 2) + (i < qdim ? i : i - qdim) % head / 2;
      float c = cos[turn], n = sin[turn], t = FMA(-b, n, a * c);
      b = FMA(a, n, b * c), a = t;
    }
    if (i < qdim) {
      row[i] = a, row[i + 1] = b;
      continue;
    }
    void *ring = i < qdim + kvdim ? keys : values;
    u64 to = at + (i < qdim + kvdim ? i - qdim : i - qdim - kvdim);
    if (half_ring) ((u16 *)ring)[to] = float_to_half(a), ((u16 *)ring)[to + 1] = float_to_half(b);
    else ((float *)ring)[to] = a, ((float *)ring)[to + 1] = b;
  }
}

// ring_write: ring [slots, cap, width] takes x [rows, width] at its slot and position; a block a row.
KERNEL(THREADS, 2) ring_write(float *ring, const float *x, const int *slot, const int *pos, int width, int cap) {
  int r = BLOCK_X, s = slot[r];
  if (s < 0) return;
  u64 to = ((u64)s * cap + pos[r] % cap) * width;
  for (int i = TID; i < width; i += THREADS) ring[to + i] = x[(u64)r * width + i];
}

// conv_window: y [rows/stride, 3·c] with y[t][3·ch + j] = x[t·stride + j − keep][ch], keep = 3 − stride; rows before a
// slot's first come from tail [slots·keep, c], or are zero at position 0. A block an output row.
KERNEL(THREADS, 2) conv_window(float *y, const float *x, const float *tail, const int *slot, const int *pos, int c, int stride) {
  int t = BLOCK_X, row = t * stride, s = slot[row], keep = 3 - stride;
  if (s < 0) return;
  int start = row; // the slot's first row
  while (start > 0 && slot[start - 1] == s) start--;
  for (int i = TID; i < 3 * c; i += THREADS) {
    int from = row + i % 3 - keep, ch = i / 3;
    float v = 0;
    if (from >= start) v = x[(u64)from * c + ch];
    else if (pos[start] > 0) v = tail[((u64)s * keep + (from - start + keep)) * c + ch];
    y[(u64)t * 3 * c + i] = v;
  }
}

// conv_tail: then the tail takes the last keep rows of each slot; a block an input row. Runs after conv_window.
KERNEL(THREADS, 2) conv_tail(float *tail, const float *x, const int *slot, const int *pos, int rows, int c, int stride) {
  int r = BLOCK_X, s = slot[r], keep = 3 - stride;
  if (s < 0 || (r + 1 < rows && slot[r + 1] == s)) return; // only the slot's last row acts
  int start = r;
  while (start > 0 && r - start < keep && slot[start - 1] == s) start--;
  int have = r - start + 1; // rows of the slot in this step, counted up to keep + 1
  for (int i = TID; i < c; i += THREADS) {
    float old = have < keep && pos[start] > 0 ? tail[(u64)s * keep * c + (u64)(keep - 1) * c + i] : 0.0f; // keep is 2, one row came: the tail moves up
    for (int j = 0; j < keep; j++) {
      int from = r + 1 - keep + j;
      tail[((u64)s * keep + j) * c + i] = from >= start ? x[(u64)from * c + i] : old;
    }
  }
}
