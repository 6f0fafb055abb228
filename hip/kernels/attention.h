// attention.h: softmax(q·Kᵀ·scale)·V of one query row over the positions that it sees, for GROUP_HEADS heads at a time. For
// attention.hip and step.hip. Follows compat.h.
//
// Passed by the host: HEAD_DIM (32, 64 or 128), GROUP_HEADS (query heads of a key head), HALF_RING (0: F32, 1: F16).
// Arithmetic in F32, relative to the true maximum so far: no exponent is ever positive, so that the result is finite for
// any finite scores. Keys are dealt out by age, never by place in the ring, and each is read once for all its query heads.

#ifndef THREADS // of matvec.h
#define WAVES 8
#define THREADS (WAVES * WAVE)
#endif
#define KEY_LANES (HEAD_DIM / 8)       // lanes of a key, 8 elements each
#define WAVE_KEYS (WAVE / KEY_LANES)   // keys of a wave at a time
#define UNROLL (GROUP_HEADS > 2 ? 2 : 4) // such key sets in flight

struct State { // of one lane: its 8 elements of each head, over the keys that its lane set has seen
  float max[GROUP_HEADS], sum[GROUP_HEADS], acc[GROUP_HEADS][8];
};

// Piece is 8 elements of a ring row as they lie there.
struct Piece {
#if HALF_RING
  Quad q[1];
#else
  Quad q[2];
#endif
};

INLINE Piece ring_load(const void *ring, u64 at) {
#if HALF_RING
  return {{load16_global((const u16 *)ring + at)}};
#else
  return {{load16_global((const float *)ring + at), load16_global((const float *)ring + at + 4)}};
#endif
}

INLINE float piece_at(const Piece &p, int i) {
#if HALF_RING
  return half_to_float((u16)(p.q[0].v[i / 2] >> i % 2 * 16));
#else
  return FLOAT(p.q[i / 4].v[i % 4]);
#endif
}

// weight is 2^(a − top), 0 where a is −Inf.
INLINE float weight(float a, float top) { return a == minus_inf() ? 0.0f : exp2_fast(a - top); }

// fold takes up keys t..: one of every lane set, UNROLL times; t counts by age up to end.
INLINE void fold(State &s, const float q[GROUP_HEADS][8], const void *keys, const void *values, u64 slot_at, int oldest, int cap, int width, int column, int t, int end) {
  Piece k[UNROLL], v[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; u++) {
    int age = t + u * WAVE_KEYS;
    int row = oldest + (age < end ? age : end - 1);
    if (row >= cap) row -= cap;
    u64 at = slot_at + (u64)row * width + column;
    k[u] = ring_load(keys, at);
    v[u] = ring_load(values, at);
  }
  float score[GROUP_HEADS][UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; u++) {
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = piece_at(k[u], i);
#pragma unroll
    for (int h = 0; h < GROUP_HEADS; h++) {
      float d = 0;
#pragma unroll
      for (int i = 0; i < 8; i++) d = FMA(q[h][i], x[i], d);
#pragma unroll
      for (int o = KEY_LANES / 2; o > 0; o >>= 1) d += shuffle_xor(d, o);
      score[h][u] = t + u * WAVE_KEYS < end ? d : minus_inf();
    }
  }
#pragma unroll
  for (int h = 0; h < GROUP_HEADS; h++) {
    float top = s.max[h];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) top = FMAX(top, score[h][u]);
    float keep = weight(s.max[h], top);
    s.max[h] = top;
    s.sum[h] *= keep;
#pragma unroll
    for (int i = 0; i < 8; i++) s.acc[h][i] *= keep;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
      score[h][u] = weight(score[h][u], top);
      s.sum[h] += score[h][u];
    }
  }
#pragma unroll
  for (int u = 0; u < UNROLL; u++)
#pragma unroll
    for (int i = 0; i < 8; i++) {
      float x = piece_at(v[u], i);
#pragma unroll
      for (int h = 0; h < GROUP_HEADS; h++) s.acc[h][i] = FMA(score[h][u], x, s.acc[h][i]);
    }
}

struct Seen {
  int slot, first, count; // positions first..first+count−1
};

INLINE Seen seen(const int *slot, const int *pos, int row, int window) {
  int p = pos[row], first = p >= window ? p - window + 1 : 0;
  return {slot[row], first, p - first + 1};
}

// LDS of a block: every wave's maximum, sum and accumulator.
struct Joined {
  float max[WAVES][GROUP_HEADS], sum[WAVES][GROUP_HEADS], acc[WAVES][GROUP_HEADS][HEAD_DIM];
};

// attend leaves each wave's part over keys from..to−1 (by age) in j.
INLINE void attend(Joined &j, const float *q, float scale, const void *keys, const void *values, Seen see, int from, int to, int cap, int width, int kv_head) {
  int lane = TID % WAVE, wave = wave_index(), key = lane / KEY_LANES, part = lane % KEY_LANES;
  float qs[GROUP_HEADS][8];
  State s;
#pragma unroll
  for (int h = 0; h < GROUP_HEADS; h++) {
    load_floats(qs[h], q + h * HEAD_DIM + part * 8);
    load_floats(qs[h] + 4, q + h * HEAD_DIM + part * 8 + 4);
#pragma unroll
    for (int i = 0; i < 8; i++) qs[h][i] *= scale * LOG2E, s.acc[h][i] = 0;
    s.max[h] = minus_inf(), s.sum[h] = 0;
  }
  u64 slot_at = (u64)see.slot * cap * width;
  for (int t = from + wave * WAVE_KEYS * UNROLL; t < to; t += WAVES * WAVE_KEYS * UNROLL)
    fold(s, qs, keys, values, slot_at, see.first % cap, cap, width, kv_head * HEAD_DIM + part * 8, t + key, to);
#pragma unroll
  for (int h = 0; h < GROUP_HEADS; h++) {
#pragma unroll
    for (int o = KEY_LANES; o < WAVE; o <<= 1) {
      float other = shuffle_xor(s.max[h], o), top = FMAX(s.max[h], other);
      float mine = weight(s.max[h], top), theirs = weight(other, top);
      s.max[h] = top;
      s.sum[h] = s.sum[h] * mine + shuffle_xor(s.sum[h], o) * theirs;
#pragma unroll
      for (int i = 0; i < 8; i++) s.acc[h][i] = s.acc[h][i] * mine + shuffle_xor(s.acc[h][i], o) * theirs;
    }
    if (lane == 0) j.max[wave][h] = s.max[h], j.sum[wave][h] = s.sum[h];
    if (key == 0)
#pragma unroll
      for (int i = 0; i < 8; i++) j.acc[wave][h][part * 8 + i] = s.acc[h][i];
  }
  block_sync();
}

struct AttentionArgs {
  float *y, *part;
  u32 *tickets;
  const float *qkv;
  const void *keys, *values;
  const int *slot, *pos;
  int kv_heads, cap, window;
  float scale;
  int splits;
};

#define PART (HEAD_DIM + 2) // maximum (of scores·log2 e), sum, accumulator
#define SHARE 64            // least keys of a share

// attention_share is a row's attention over one share of the keys, for the query heads of a key head: y [rows, qdim], qkv
// [rows, qkvdim], rings [slots, cap, kvdim]. Keys are cut into at most splits shares, by their number alone. Where there are
// several, they are left in part [rows, query heads, splits, PART], and the block that is the last by tickets [rows, kv_heads],
// which are 0 before and after, joins them.
INLINE void attention_share(const AttentionArgs &a, Joined &j, int split, int kv, int row) {
  __shared__ u32 ticket;
  int width = a.kv_heads * HEAD_DIM, qdim = width * GROUP_HEADS;
  Seen see = seen(a.slot, a.pos, row, a.window);
  if (see.slot < 0) return;
  int shares = (see.count + SHARE - 1) / SHARE;
  if (shares > a.splits) shares = a.splits;
  if (split >= shares) return;
  int share = (see.count + shares - 1) / shares, from = split * share, to = from + share;
  if (to > see.count) to = see.count;
  attend(j, a.qkv + (u64)row * (qdim + 2 * width) + kv * GROUP_HEADS * HEAD_DIM, a.scale, a.keys, a.values, see, from, to, a.cap, width, kv);
  float *y = a.y + (u64)row * qdim + kv * GROUP_HEADS * HEAD_DIM;
  float *part = a.part + ((u64)row * a.kv_heads + kv) * GROUP_HEADS * a.splits * PART;
  for (int i = TID; i < GROUP_HEADS * HEAD_DIM; i += THREADS) {
    int h = i / HEAD_DIM, d = i % HEAD_DIM;
    float top = j.max[0][h], sum = 0, acc = 0;
    for (int w = 1; w < WAVES; w++) top = FMAX(top, j.max[w][h]);
    for (int w = 0; w < WAVES; w++) {
      float f = weight(j.max[w][h], top);
      sum = FMA(f, j.sum[w][h], sum), acc = FMA(f, j.acc[w][h][d], acc);
    }
    if (shares == 1) {
      y[i] = acc / sum;
      continue;
    }
    float *p = part + ((u64)h * a.splits + split) * PART;
    if (d == 0) p[0] = top, p[1] = sum;
    p[2 + d] = acc;
  }
  if (shares == 1) return;
  device_release();
  block_sync();
  u32 *tickets = a.tickets + row * a.kv_heads + kv;
  if (TID == 0) ticket = take_ticket(tickets);
  block_sync();
  if (ticket != (u32)shares - 1) return;
  device_acquire();
  if (TID == 0) *tickets = 0;
  for (int i = TID; i < GROUP_HEADS * HEAD_DIM; i += THREADS) {
    const float *p = part + (u64)(i / HEAD_DIM) * a.splits * PART;
    float top = p[0], sum = 0, acc = 0;
    for (int s = 1; s < shares; s++) top = FMAX(top, p[s * PART]);
#pragma unroll 4
    for (int s = 0; s < shares; s++) {
      float f = weight(p[s * PART], top);
      sum = FMA(f, p[s * PART + 1], sum), acc = FMA(f, p[s * PART + 2 + i % HEAD_DIM], acc);
    }
    y[i] = acc / sum;
  }
}
