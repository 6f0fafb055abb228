// matvec.h: the product of up to M activation rows with a weight, for matvec.hip, head.hip and step.hip. Follows compat.h, tile.h, x.h.
//
// A block is one team of PARTS waves or several, which share the activations in LDS. A team works on whole tiles, every
// teams-th of the grid; the slabs of a tile are dealt out in PARTS parts, one a wave, which has the next one on its way. The
// first load is under way before the block looks at its activations, or even before they exist (Ready). Parts are always
// cut and joined in the same way, so that results depend neither on M nor on the grid. Passed by a tuning host: TEAMS,
// PARTS, OCCUPANCY.

#ifndef PARTS
#define PARTS 8
#endif
#ifndef TEAMS
#define TEAMS 1
#endif
#define WAVES (PARTS * TEAMS)
#define THREADS (WAVES * WAVE)
#ifndef OCCUPANCY
#define OCCUPANCY (THREADS > 256 ? 1 : 2) // blocks of a CUDA multiprocessor
#endif

#define ACT_APPEND 3 // as an act: q, k and v

// LinearArgs is a product: rows x [m, k], k a multiple of 4, with gain [k] RMSNorm(x)·gain·(1 + ada[slot]), times a weight;
// and what linear.h does with it.
struct LinearArgs {
  float *y; // [m, n], SwiGLU [m, half]; may be the residual
  const float *x;
  const u8 *codes;
  const u16 *scales;
  const float *gain, *ada;
  const int *slot;
  const float *bias, *res; // [n], as y, or 0
  // of ACT_APPEND:
  const int *pos;
  const float *cos, *sin; // [m, head/2]
  void *keys, *values;    // [slots, cap, kvdim] of F32, or F16 if half_ring
  int m, k, n, tiles, piece;
  float eps;
  int half, act; // half: n/2 if a tile holds 8 rows of each of two equal parts, else 0
  int qdim, kvdim, head, cap, half_ring;
};

// AtOnce is a Ready: what is called before activations are read.
struct AtOnce {
  __device__ inline void operator()() const {}
};

INLINE void input_load(float v[4], const LinearArgs &in, int j, int i) {
  j = j < in.m ? j : in.m - 1;
  load_floats(v, in.x + (u64)j * in.k + i);
}

INLINE void input_gain(float v[4], const LinearArgs &in, int j, int i) {
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

// Look is what the block has found out about its rows, for each in THREADS·4-column parts by wave.
template <int M>
struct Look {
  float square[M][WAVES], top[M][WAVES];
  float factor[M], back[M]; // to what is staged, norm and power of two in one, and the way back
};

template <int M>
INLINE float look_factor(const LinearArgs &in, const Look<M> &look, int j, float &back) {
  float square = 0, top = 0;
#pragma unroll
  for (int w = 0; w < WAVES; w++) square += look.square[j][w], top = magnitude_max(top, look.top[j][w]);
  float norm = in.gain ? rsqrt_fast(square / (float)in.k + in.eps) : 1.0f;
  top *= norm;
  float scale = x_scale(top);
  back = x_back(scale, top);
  return norm * scale;
}

// input_look finds the factor of each row. Every row is summed in WAVES parts, by however many waves there are for it.
template <int M>
INLINE void input_look(const LinearArgs &in, Look<M> &look) {
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
      for (int e = 0; e < 4; e++) top = magnitude_max(top, v[e]);
    }
    square = wave_sum(square), top = wave_magnitude_max(top);
    if (lane == 0) look.square[j][part] = square, look.top[j][part] = top;
  }
  block_sync();
  if (TID < M) look.factor[TID] = look_factor<M>(in, look, TID, look.back[TID]);
}

// input_stage puts slabs from..to−1 into LDS, zero from column k on.
template <int M>
INLINE void input_stage(const LinearArgs &in, const Look<M> &look, u8 *lds, int from, int to) {
  const int wave = wave_index(), j = wave % M, end = (to - from) * SLAB_COLS;
  for (int i = (wave / M * WAVE + TID % WAVE) * 4; i - TID % WAVE * 4 < end; i += THREADS / M * 4) {
    float v[4] = {0, 0, 0, 0};
    int column = from * SLAB_COLS + i;
    if (i < end && column < in.k) {
      input_load(v, in, j, column);
      input_gain(v, in, j, column);
    }
    x_store<M>(lds, i, j, i < end, v, look.factor[j]);
  }
}

// Hold is how many sets of four values of each part of its row a thread can keep in registers between the look at them and
// their staging: few is enough for most rows. Rows with gains may be few sets long. Longer ones are read twice.
template <int M>
struct Hold {
  enum { part = (9216 + THREADS * 4 - 1) / (THREADS * 4) }; // sets of the longest row
  enum { few = M > 4 ? 0 : M == 4 ? (THREADS > 256 ? 1 : 2) : M == 2 ? (THREADS > 256 ? 2 : 3) : (THREADS > 256 ? 2 : 4) };
  enum { sets = M == 1 ? (int)part : M == 2 ? (part + 1) / 2 : M == 4 ? (THREADS > 256 ? 3 : 2) : 0 };
  static __device__ inline bool fits(const LinearArgs &in) { return in.k <= (in.gain ? few : sets) * THREADS * 4; }
};

// input_hold is input_look and input_stage of all slabs with one look at the activations, to the same bits.
template <int M, int SETS, class Ready>
INLINE void input_hold(const LinearArgs &in, Look<M> &look, u8 *lds, int slabs, Ready &ready) {
  const int lane = TID % WAVE, wave = wave_index(), j = wave % M, row = j < in.m ? j : in.m - 1;
  const int first = (wave / M * WAVE + lane) * 4; // element of part q and set n: first + q·next + n·THREADS·4
  const int next = WAVES / M * WAVE * 4;
  const float *x = in.x + (u64)row * in.k, *ada = 0;
  if (SETS <= Hold<M>::few && in.ada) {
    int slot = in.slot[row];
    ada = in.ada + (u64)(slot < 0 ? 0 : slot) * in.k;
  }
  float v[M][SETS][4];
  ready();
#pragma unroll
  for (int q = 0; q < M; q++)
#pragma unroll
    for (int n = 0; n < SETS; n++) {
      int i = first + q * next + n * THREADS * 4;
      load_floats(v[q][n], x + (i < in.k ? i : 0));
    }
#pragma unroll
  for (int q = 0; q < M; q++) {
    float square = 0, top = 0;
#pragma unroll
    for (int n = 0; n < SETS; n++) {
      int i = first + q * next + n * THREADS * 4;
#pragma unroll
      for (int e = 0; e < 4; e++) {
        v[q][n][e] = i < in.k ? v[q][n][e] : 0;
        square = FMA(v[q][n][e], v[q][n][e], square);
      }
    }
    if (SETS <= Hold<M>::few && in.gain) {
#pragma unroll
      for (int n = 0; n < SETS; n++) {
        int i = first + q * next + n * THREADS * 4;
        float g[4];
        load_floats(g, in.gain + (i < in.k ? i : 0));
#pragma unroll
        for (int e = 0; e < 4; e++) v[q][n][e] *= g[e];
        if (ada) {
          load_floats(g, ada + (i < in.k ? i : 0));
#pragma unroll
          for (int e = 0; e < 4; e++) v[q][n][e] *= 1.0f + g[e];
        }
      }
    }
#pragma unroll
    for (int n = 0; n < SETS; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) top = magnitude_max(top, v[q][n][e]);
    square = wave_sum(square), top = wave_magnitude_max(top);
    if (lane == 0) look.square[j][wave / M + q * (WAVES / M)] = square, look.top[j][wave / M + q * (WAVES / M)] = top;
  }
  block_sync();
  float back, factor = look_factor<M>(in, look, j, back);
  if (lane == 0 && wave < M) look.back[wave] = back;
#pragma unroll
  for (int q = 0; q < M; q++)
#pragma unroll
    for (int n = 0; n < SETS; n++) {
      int i = first + q * next + n * THREADS * 4;
      if (i - lane * 4 < slabs * SLAB_COLS) x_store<M>(lds, i, j, i < slabs * SLAB_COLS, v[q][n], factor);
    }
  // A last slab may reach beyond the sets.
  for (int i = first + SETS * THREADS * 4; i - lane * 4 < slabs * SLAB_COLS; i += next) {
    float zero[4] = {0, 0, 0, 0};
    x_store<M>(lds, i, j, i < slabs * SLAB_COLS, zero, factor);
  }
}

// Batch is how many tiles a team finishes at a time: one output for each thread.
template <int M>
struct Batch {
  enum { tiles = 16 / M < 8 ? 16 / M : 8 };
};

// Sums is a tile's product with one activation row; it adds up the waves' parts, always in the same order.
struct Sums {
  const float *part; // [parts][stride]
  int parts, stride;
  float back;

  __device__ inline float operator()(int r) const {
    float s = 0;
    for (int w = 0; w < parts; w++) s += part[w * stride + r];
    return s * back;
  }
};

// Leg is a part of the way: tiles n..end−1 of the team's, slabs from..to−1.
struct Leg {
  int n, end, from, to;
};

// Walk is a wave's way along legs: at slab s of tile n, after which left − 1 more follow in the tile and this leg. If the slabs
// of a tile do not come out even, each tile gives the longer parts to other waves.
struct Walk {
  int slabs, part; // of a tile; the wave's place
  int n, s, left;

  __device__ inline int dealt() const { return (part + n * (slabs % PARTS)) % PARTS; }

  // seek goes to tile n of the leg, or the next one in which there is a slab for the wave; false: there is none.
  __device__ inline bool seek(const Leg &leg) {
    for (; n < leg.end; n++) {
      s = leg.from + dealt();
      left = (leg.to - s + PARTS - 1) / PARTS; // leg.from is a multiple of PARTS
      if (left > 0) return true;
    }
    return false;
  }
};

// Way is how a team goes over its tiles: batches of tiles, each in legs of length slabs.
struct Way {
  int count, slabs, batch, length;

  __device__ inline Leg first() const { return {0, batch < count ? batch : count, 0, length}; }
  __device__ inline Leg after(const Leg &l) const {
    if (l.to < slabs) return {l.n, l.end, l.to, l.to + length < slabs ? l.to + length : slabs};
    return {l.n + batch, l.n + 2 * batch < count ? l.n + 2 * batch : count, 0, length};
  }
};

// products calls done.before(tile, r, j) and later done(tile, r, j, sum) for each element that the block makes: sum(r) is row
// r of the tile times activation row j. A thread without an element is called with tile −1.
//   blocks: of the grid; in.piece: slabs staged at a time, all or, unless X_WHOLE, a multiple of PARTS·depth (LEG, if it is set)
// Dynamic LDS: M·piece·X_ROW bytes.
template <int M, class Ready, class Done>
INLINE void products(const LinearArgs &in, int blocks, Ready &ready, Done &done) {
  extern __shared__ Aligned16 dynamic_lds[];
  __shared__ float sums[TEAMS][Batch<M>::tiles][PARTS][M][16];
  __shared__ Look<M> look;
  const int batch = Batch<M>::tiles;
  const int lane = TID % WAVE, wave = wave_index(), team = wave / PARTS, part = wave % PARTS, teams = blocks * TEAMS, me = BLOCK_X + team * blocks;
  const int r = TID & 15, group = TID % (PARTS * WAVE) / 16, j = group % M, place = group / M;
  const int tiles = in.tiles, slabs = (in.k + SLAB_COLS - 1) / SLAB_COLS, most = (tiles - 1 - BLOCK_X) / teams + 1; // tiles of the block's first team
  const int count = me < tiles ? (tiles - 1 - me) / teams + 1 : 0;
  u8 *x = (u8 *)dynamic_lds;
  const u8 *mine = x + x_lane<M>(lane);

  const int piece = X_WHOLE(M) || in.piece > slabs ? slabs : in.piece;
  const bool whole = piece == slabs; // all activations are in LDS
  const int length = LEG && LEG < piece ? LEG : piece;
  const Way way = {count, slabs, batch, length};
  Leg leg = way.first();
  Walk walk = {slabs, part, 0, 0, 0};
  Slab next; // the wave's next slab, on its way
  Source source;
  auto ask = [&] { slab_load(next, source = slab_source(in.codes, in.scales, (me + walk.n * teams) * slabs + walk.s, lane)); };
  bool busy = walk.seek(leg);
  if (busy) ask();

  if (whole && Hold<M>::fits(in)) {
    if constexpr (Hold<M>::sets > 0) {
      if (in.k <= Hold<M>::few * THREADS * 4) input_hold<M, Hold<M>::few>(in, look, x, slabs, ready);
      else input_hold<M, Hold<M>::sets>(in, look, x, slabs, ready);
    }
  } else {
    ready();
    input_look<M>(in, look);
    block_sync();
    if (whole) input_stage<M>(in, look, x, 0, slabs);
  }
  block_sync();
  float acc[X_ACCS(M)];
#pragma unroll 1
  for (int n = 0, from = 0; n < most;) { // as many legs for each team
    int tile = place < batch && n + place < leg.end ? me + (n + place) * teams : -1;
    if (from == 0) done.before(tile, r, j);
    if (!whole) {
      block_sync();
      input_stage<M>(in, look, x, from, leg.to);
      block_sync();
    }
    const u8 *base = mine - (whole ? 0 : from) * M * X_ROW;
    const Leg after = way.after(leg);
    while (busy) { // a tile
      float(*to)[16] = sums[team][walk.n - n][walk.dealt()];
      const u8 *at = base + walk.s * M * X_ROW;
      x_begin<M>(acc, to, from == 0, lane);
#pragma unroll 1
      for (int left = walk.left - 1; left > 0; left--) {
        Slab now = next;
        source_skip(source, PARTS);
        slab_load(next, source);
        x_mul<M>(acc, now, at);
        at += PARTS * M * X_ROW;
      }
      Slab now = next;
      walk.n++;
      busy = walk.seek(leg);
      if (busy) ask();
      x_mul<M>(acc, now, at);
      x_flush<M>(acc, to, from == 0, lane);
    }
    walk.n = after.n;
    busy = walk.seek(after);
    if (busy) ask();
    if (leg.to == slabs) {
      block_sync();
      done(tile, r, j, Sums{&sums[team][place < batch ? place : 0][0][j][0], slabs < PARTS ? slabs : PARTS, M * 16, look.back[j]});
      block_sync();
      n += batch;
    }
    leg = after;
    from = leg.from;
  }
}
