// tile.h: the weight layout and the product of one slab of it, shared by every kernel that multiplies by a weight.
//
// Passed by the host: FORMAT (4, 8: int4, int8 with a scale per GROUP of 32, 64 or 128 columns; 15: f16; 16: bf16).
//
// A weight is cut into tiles of 16 rows, a tile into slabs of 1 KiB, 32·GROUPS columns wide. A slab is [half 2]
// [quarter 4][row 8] of 16 bytes, half h with rows 8h..8h+7: quarter q of a row holds, for each group of 32 columns in the slab, the columns 8q..8q+7 of that group.
// Scales are [tile][slab][row 16][SCALES] halves.
//
// Activations are split in two halves, x·2^e = hi + lo with |x·2^e| < 2^14 in a row, so that products carry 22 bits of x
// (bf16: 16 bits, e = 0). A product of integer codes with hi and lo is exact; groups add up in F32, times their scale.

#if FORMAT == 4
#define GROUPS 4
#elif FORMAT == 8
#define GROUPS 2
#else
#define GROUPS 1
#endif
#define SLAB_COLS (32 * GROUPS)

#if FORMAT == 4 || FORMAT == 8
#define SCALED 1
#define SCALES (SLAB_COLS > GROUP ? SLAB_COLS / GROUP : 1)
#else
#define SCALED 0
#define SCALES 1
#endif

// How a wave shares out a slab and its product with ROWS_X activation rows:
//   WROWS     weight rows of a lane
//   QUARTERS  quarters of a row of a lane
//   ACCS      accumulators of a lane
// ACTIVE(i, m) says whether accumulator i holds a row below m.
#if MATRIX == MATRIX_PTX
#define ROWS_X 8
#define ACCS 4
#define WROWS 2
#define QUARTERS 1
#define ACTIVE(i, m) (((i) & 1) * 4 < (m))
INLINE int lane_wrow(int lane) { return lane >> 2; } // and 8 more
INLINE int lane_quarter(int lane) { return lane & 3; }
INLINE int lane_xrow(int lane) { return (lane >> 3) + 4 * (lane >> 2 & 1); }
INLINE int acc_wrow(int lane, int i) { return (lane >> 2) + 8 * (i >> 1); }
INLINE int acc_xrow(int lane, int i) { return (lane & 3) + 4 * (i & 1); }
#define ACC_SCALE(i) ((i) >> 1)
#else
#define WROWS 1
#define ACC_SCALE(i) 0
INLINE int lane_wrow(int lane) { return lane & 15; }
INLINE int acc_wrow(int lane, int) { return lane & 15; }
#if MATRIX == MATRIX_MFMA
#define ROWS_X 16
#define ACCS 4
#define QUARTERS 1
#define ACTIVE(i, m) (4 * (i) < (m))
INLINE int lane_quarter(int lane) { return lane >> 4; }
INLINE int lane_xrow(int lane) { return (lane >> 2 & 3) + 4 * (lane & 3); }
INLINE int acc_xrow(int lane, int i) { return (lane >> 4) + 4 * i; }
#elif MATRIX == MATRIX_WMMA11
#define ROWS_X 16
#define ACCS 8
#define QUARTERS 4
#define ACTIVE(i, m) (2 * (i) < (m))
INLINE int lane_quarter(int) { return 0; }
INLINE int lane_xrow(int lane) { return lane & 15; }
INLINE int acc_xrow(int lane, int i) { return (lane >> 4) + 2 * i; }
#elif MATRIX == MATRIX_WMMA12
#define ROWS_X 16
#define ACCS 8
#define QUARTERS 2
#define ACTIVE(i, m) (2 * (i) < (m))
INLINE int lane_quarter(int lane) { return lane >> 4 << 1; }
INLINE int lane_xrow(int lane) { return (lane >> 3 & 1) + 2 * (lane & 7); }
INLINE int acc_xrow(int lane, int i) { return (lane >> 4) + 2 * i; }
#else
#define ROWS_X 8
#define ACCS 8
#define QUARTERS (64 / WAVE)
#define ACTIVE(i, m) ((i) < (m))
INLINE int lane_quarter(int lane) { return (lane >> 4) * QUARTERS; }
INLINE int lane_xrow(int) { return 0; }
INLINE int acc_xrow(int, int i) { return i; }
#endif
#endif

// Split activations of M rows lie slab by slab: [slab][row M][hi SLAB_COLS, lo SLAB_COLS, PAD], so that every place within a
// slab is a constant; PAD starts rows in different banks.
#if MATRIX == MATRIX_PTX
#define PAD 16
#else
#define PAD 8
#endif
#define SPLIT_ROW (2 * SLAB_COLS + PAD)

struct Slab {
  Quad codes[WROWS][QUARTERS];
  u32 scales[WROWS][(SCALES + 1) / 2];
};

INLINE void scales_read(Slab &b, int r, [[maybe_unused]] const u16 *s) {
#if !SCALED
  b.scales[r][0] = 0;
#elif SCALES == 4
  u64 v = *(const GLOBAL u64 *)s;
  b.scales[r][0] = (u32)v, b.scales[r][1] = (u32)(v >> 32);
#elif SCALES == 2
  b.scales[r][0] = *(const GLOBAL u32 *)s;
#else
  b.scales[r][0] = *(const GLOBAL u16 *)s;
#endif
}

// Source is where a lane reads its part of a slab.
struct Source {
  const u8 *codes;
  const u16 *scales;
};

INLINE Source slab_source(const u8 *codes, const u16 *scales, int slab, int lane) {
  return {codes + ((u64)slab << 10) + (lane_wrow(lane) >> 3) * 512 + lane_quarter(lane) * 128 + (lane_wrow(lane) & 7) * 16,
          scales + SCALED * ((u64)slab * 16 + lane_wrow(lane)) * SCALES};
}
// source_skip goes on by so many slabs.
INLINE void source_skip(Source &s, int slabs) { s.codes += slabs * 1024, s.scales += SCALED * slabs * 16 * SCALES; }

INLINE void slab_load(Slab &b, const Source &s) {
#pragma unroll
  for (int r = 0; r < WROWS; r++) {
#pragma unroll
    for (int q = 0; q < QUARTERS; q++) b.codes[r][q] = load_once(s.codes + r * 512 + q * 128);
    scales_read(b, r, s.scales + r * 8 * SCALES);
  }
}

// slab_scale is the scale of group g of 32 columns.
INLINE float slab_scale(const Slab &b, int r, int g) {
  int i = g * SCALES / GROUPS;
  return half_to_float((u16)(b.scales[r][i >> 1] >> (i & 1) * 16));
}

// slab_unpack gives the eight columns of a lane in group g as four pairs of halves (or bf16).
INLINE void slab_unpack(u32 w[4], const Quad &c, [[maybe_unused]] int g) {
#if FORMAT == 4
  u32 u = c.v[g], v = u >> 8;
  const u32 low = 0x64086408u, high = 0x64806480u; // 1024 in both halves; a nibble plus 8 in the low bits adds to it
  w[0] = half2_add((u & 0x000f000fu) ^ low, 0xe408e408u);              // −1032
  w[1] = half2_fma((u & 0x00f000f0u) ^ high, 0x2c002c00u, 0xd480d480u); // ·1/16 − 72
  w[2] = half2_add((v & 0x000f000fu) ^ low, 0xe408e408u);
  w[3] = half2_fma((v & 0x00f000f0u) ^ high, 0x2c002c00u, 0xd480d480u);
#elif FORMAT == 8
#pragma unroll
  for (int i = 0; i < 4; i++) w[i] = half2_add(bytes_to_halves(c.v[2 * g + (i >> 1)] ^ 0x80808080u, i & 1), 0xe480e480u); // −1152
#else
#pragma unroll
  for (int i = 0; i < 4; i++) w[i] = c.v[i];
#endif
}

// group_mma adds the product of one group of 32 columns; x has the lane's columns of hi or of lo.
#if MATRIX == MATRIX_PTX
INLINE void group_mma(float acc[ACCS], u32 w[WROWS][QUARTERS][4], const Quad x[QUARTERS]) {
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
#if FORMAT == 16
    mma_bf16(acc, w[0][0][i], w[1][0][i], w[0][0][i + 1], w[1][0][i + 1], x[0].v[i], x[0].v[i + 1]);
#else
    mma_half(acc, w[0][0][i], w[1][0][i], w[0][0][i + 1], w[1][0][i + 1], x[0].v[i], x[0].v[i + 1]);
#endif
  }
}
#elif MATRIX == MATRIX_MFMA
INLINE void group_mma(float acc[ACCS], u32 w[WROWS][QUARTERS][4], const Quad x[QUARTERS]) {
  f32x4 c = {acc[0], acc[1], acc[2], acc[3]};
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    u32x2 a = {x[0].v[i], x[0].v[i + 1]}, b = {w[0][0][i], w[0][0][i + 1]};
#if FORMAT == 16
    c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(s16x4, a), __builtin_bit_cast(s16x4, b), c, 0, 0, 0);
#else
    c = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(f16x4, a), __builtin_bit_cast(f16x4, b), c, 0, 0, 0);
#endif
  }
#pragma unroll
  for (int i = 0; i < 4; i++) acc[i] = c[i];
}
#elif MATRIX == MATRIX_WMMA11 || MATRIX == MATRIX_WMMA12
struct Oct {
  Quad a, b;
};
INLINE void group_mma(float acc[ACCS], u32 w[WROWS][QUARTERS][4], const Quad x[QUARTERS]) {
  f32x8 c;
#pragma unroll
  for (int i = 0; i < 8; i++) c[i] = acc[i];
#pragma unroll
  for (int q = 0; q < QUARTERS; q += QUARTERS / 2) {
#if MATRIX == MATRIX_WMMA11
    Oct a = {x[q], x[q + 1]}, b = {{{w[0][q][0], w[0][q][1], w[0][q][2], w[0][q][3]}}, {{w[0][q + 1][0], w[0][q + 1][1], w[0][q + 1][2], w[0][q + 1][3]}}};
#if FORMAT == 16
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(s16x16, a), __builtin_bit_cast(s16x16, b), c);
#else
    c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(f16x16, a), __builtin_bit_cast(f16x16, b), c);
#endif
#else
    Quad a = x[q], b = {{w[0][q][0], w[0][q][1], w[0][q][2], w[0][q][3]}};
#if FORMAT == 16
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(__builtin_bit_cast(s16x8, a), __builtin_bit_cast(s16x8, b), c);
#else
    c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(__builtin_bit_cast(f16x8, a), __builtin_bit_cast(f16x8, b), c);
#endif
#endif
  }
#pragma unroll
  for (int i = 0; i < 8; i++) acc[i] = c[i];
}
#endif

INLINE float pair_dot(u32 w, u32 x, float c) {
#if FORMAT == 16
  c = FMA(FLOAT(w << 16), FLOAT(x << 16), c);
  return FMA(FLOAT(w & 0xffff0000u), FLOAT(x & 0xffff0000u), c);
#else
  return half2_dot(w, x, c);
#endif
}

// JOINT says that a matrix instruction takes hi and lo of M activation rows at once: hi in its rows below ROWS_X/2, lo in the
// others. LOW is the accumulator of lo that belongs to accumulator i of hi, in the same lane.
#if MATRIX == MATRIX_DOT
#define JOINT(m) false
#define LOW(i) (i)
#else
#define JOINT(m) (2 * (m) <= ROWS_X)
#if MATRIX == MATRIX_PTX
#define LOW(i) ((i) | 1)
#else
#define LOW(i) (((i) + ACCS / 2) % ACCS)
#endif
#endif

// slab_lane is where a lane starts to read its share of a slab's split activations. Rows from M on give results that
// nobody reads.
template <int M>
INLINE int slab_lane(int lane) {
  int j = lane_xrow(lane), lo = 0;
  if (JOINT(M)) lo = j / (ROWS_X / 2), j %= ROWS_X / 2;
  return (j < M ? j : 0) * SPLIT_ROW + lo * SLAB_COLS + lane_quarter(lane) * 8;
}

// slab_mul adds the product of a slab with M rows; at is the slab's split activations from slab_lane on. A row's sum over a
// group is Σw·hi + Σw·lo, each by itself, whatever M is.
template <int M>
INLINE void slab_mul(float acc[ACCS], const Slab &b, const u16 *at) {
  [[maybe_unused]] float done[2] = {acc[0], acc[0]}; // of the last groups but one
#pragma unroll
  for (int g = 0; g < GROUPS; g++) {
    u32 w[WROWS][QUARTERS][4];
#pragma unroll
    for (int r = 0; r < WROWS; r++)
#pragma unroll
      for (int q = 0; q < QUARTERS; q++) slab_unpack(w[r][q], b.codes[r][q], g);
    float part[ACCS];
#pragma unroll
    for (int i = 0; i < ACCS; i++) part[i] = 0;
#if MATRIX == MATRIX_DOT
#pragma unroll
    for (int j = 0; j < M; j++) {
      at += zero_after(j >= 2 ? part[j - 2] : acc[0]);
#pragma unroll
      for (int q = 0; q < QUARTERS; q++) {
        const u16 *xq = at + j * SPLIT_ROW + g * 32 + q * 8;
        Quad hi = load16(xq), lo = load16(xq + SLAB_COLS);
#pragma unroll
        for (int i = 0; i < 4; i++) part[j] = pair_dot(w[0][q][i], hi.v[i], pair_dot(w[0][q][i], lo.v[i], part[j]));
      }
    }
#else
#if QUARTERS > 1
    at += zero_after(done[g & 1]);
#endif
    Quad x[QUARTERS];
#pragma unroll
    for (int q = 0; q < QUARTERS; q++) x[q] = load16(at + g * 32 + q * 8);
    group_mma(part, w, x);
    if constexpr (JOINT(M)) {
#pragma unroll
      for (int i = 0; i < ACCS; i++)
        if (ACTIVE(i, M)) part[i] += part[LOW(i)];
    } else {
      float low[ACCS];
#pragma unroll
      for (int i = 0; i < ACCS; i++) low[i] = 0;
#pragma unroll
      for (int q = 0; q < QUARTERS; q++) x[q] = load16(at + g * 32 + q * 8 + SLAB_COLS);
      group_mma(low, w, x);
#pragma unroll
      for (int i = 0; i < ACCS; i++) part[i] += low[i];
    }
#endif
#pragma unroll
    for (int i = 0; i < ACCS; i++)
#if SCALED
      if (ACTIVE(i, M)) acc[i] = FMA(slab_scale(b, ACC_SCALE(i), g), part[i], acc[i]);
#else
      if (ACTIVE(i, M)) acc[i] += part[i];
#endif
    done[g & 1] = acc[0];
  }
}

// acc_join adds up what several lanes hold of one product; true for the lanes that then own it.
#if MATRIX == MATRIX_DOT
INLINE bool acc_join(float acc[ACCS], int lane) {
#pragma unroll
  for (int i = 0; i < ACCS; i++)
#pragma unroll
    for (int o = WAVE / 2; o >= 16; o >>= 1) acc[i] += shuffle_xor(acc[i], o);
  return lane < 16;
}
#else
INLINE bool acc_join(float *, int) { return true; }
#endif

// split_store writes four activations, times scale, as hi and lo.
INLINE void split_store(u16 *hi, u16 *lo, const float x[4], float scale) {
  u32 h[4], l[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    float t = x[i] * scale;
#if FORMAT == 16
    h[i] = float_to_bf16(t), l[i] = float_to_bf16(t - bf16_to_float((u16)h[i]));
#else
    h[i] = float_to_half(t), l[i] = float_to_half(t - half_to_float((u16)h[i]));
#endif
  }
  store8(hi, h[0] | h[1] << 16, h[2] | h[3] << 16);
  store8(lo, l[0] | l[1] << 16, l[2] | l[3] << 16);
}

// split_scale is the power of two by which a row with this largest magnitude is multiplied.
INLINE float split_scale([[maybe_unused]] float top) {
#if FORMAT == 16
  return 1.0f;
#else
  int e = (int)(BITS(top) >> 23 & 255u);
  e = e == 255 ? 127 : e < 26 ? 26 : e > 240 ? 240 : e; // not finite: leave it so; tiny or huge: keep the factor normal
  return FLOAT((u32)(127 + 127 + 13 - e) << 23);
#endif
}

enum Act { ACT_NONE, ACT_GELU, ACT_SWIGLU };

// output_row is the weight row at place r of a tile; half: a tile holds 8 rows of each of two equal parts of so many rows.
INLINE int output_row(int tile, int r, int half) {
  return half ? tile * 8 + (r & 7) + (r >> 3) * half : tile * 16 + r;
}
