// x.h: how matvec.h keeps activation rows in LDS and multiplies a slab with them. Follows compat.h, tile.h.
//
// On NVIDIA a row that meets int4 or int8 codes is x·2^e rounded to integers below 2^22, in three signed digits of base 256: a
// byte product of 32 columns is then exact, and a digit's sum over a group times the scale adds up in F32. Elsewhere
// it is the two halves of tile.h. Either way a row's sums do not depend on the rows beside it.
//
//   X_ROW       bytes of a slab of an activation row
//   X_ACCS(m)   accumulators of a lane for m rows
//   X_WHOLE(m)  m rows are always in LDS as a whole
//   LEG         slabs that are summed before digits are joined; 0: sums may be cut anywhere

#if MATRIX == MATRIX_PTX && SCALED

#define X_DIGIT (SLAB_COLS + 16) // bytes of a digit; the pad starts digits in different banks
#define X_ROW (3 * X_DIGIT)
#define X_ACCS(m) (((m) + 1) / 2 * 4)
#define X_WHOLE(m) ((m) <= 4)
#define LEG (5120 / SLAB_COLS)

// x_scale is the power of two by which a row with this largest magnitude is multiplied.
INLINE float x_scale(float top) {
  int e = (int)(BITS(top) >> 23 & 255u);
  e = e == 255 ? 127 : e < 34 ? 34 : e > 240 ? 240 : e; // not finite: leave it so; tiny or huge: keep the factor normal
  return FLOAT((u32)(127 + 127 + 21 - e) << 23);
}
// x_back undoes it; int4 codes enter times 16. Digits know no NaN, so a row that is not finite gives NaN here.
INLINE float x_back(float scale, float top) { return top <= 3.4028235e38f ? (FORMAT == 4 ? 0.0625f : 1.0f) / scale : FLOAT(0x7fc00000u); }

#define DIGITS_MAGIC 12582912.0f // 1.5·2^23: a float near it has an integer in its low bits
#define DIGITS_BITS 0x4b400000

// x_store writes four values of row j from column i of the staged slabs on. All lanes of a wave call it together, so that two
// neighbours can interleave their eight columns as int4 codes lie.
template <int M>
INLINE void x_store(u8 *lds, int i, int j, bool there, const float v[4], float factor) {
  u32 t[4];
#pragma unroll
  for (int e = 0; e < 4; e++) t[e] = BITS(FMA(v[e], factor, DIGITS_MAGIC)) - DIGITS_BITS + 0x808080u;
  u32 a = pick(t[0], t[1], 0x5140), b = pick(t[2], t[3], 0x5140);
  u32 c = pick(t[0], t[1], 0x0062), d = pick(t[2], t[3], 0x0062);
  u32 digit[3] = {pick(c, d, 0x5410), pick(a, b, 0x7632), pick(a, b, 0x5410)}; // the highest first
  u8 *at = lds + (i / SLAB_COLS * M + j) * X_ROW + i % 32 / 8 * (SLAB_COLS / 4) + i % SLAB_COLS / 32 * 8 + i % 8;
#pragma unroll
  for (int n = 0; n < 3; n++) {
    u32 own = digit[n] ^ 0x80808080u;
#if FORMAT == 4
    u32 other = shuffle_xor_word(own, 1); // columns 0, 4, 1, 5 meet the low nibbles, 2, 6, 3, 7 the high ones
    own = i & 4 ? pick(other, own, 0x7362) : pick(own, other, 0x5140);
#endif
    if (there) *(u32 *)(at + n * X_DIGIT) = own;
  }
}

// x_lane is where a lane starts to read: column lane/4 of the matrix instruction is row lane/16 (of two), digit lane/4 mod 4.
template <int M>
INLINE int x_lane(int lane) {
  int row = lane >> 4, digit = lane >> 2 & 3;
  return (row < M ? row : 0) * X_ROW + (digit < 3 ? digit : 2) * X_DIGIT + (lane & 3) * (SLAB_COLS / 4);
}

template <int M>
INLINE void x_mul(float *acc, const Slab &b, const u8 *at) {
#pragma unroll
  for (int t = 0; t < (M + 1) / 2; t++) {
    u32 x[SLAB_COLS / 16];
#pragma unroll
    for (int i = 0; i < SLAB_COLS / 64; i++) {
      Quad q = load16(at + 2 * t * X_ROW + 16 * i);
#pragma unroll
      for (int e = 0; e < 4; e++) x[4 * i + e] = q.v[e];
    }
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      int c[4] = {DIGITS_BITS, DIGITS_BITS, DIGITS_BITS, DIGITS_BITS};
#if FORMAT == 4
      u32 u = b.codes[0][0].v[g], v = b.codes[1][0].v[g];
      mma_bytes(c, u << 4 & 0xf0f0f0f0u, v << 4 & 0xf0f0f0f0u, u & 0xf0f0f0f0u, v & 0xf0f0f0f0u, x[2 * g], x[2 * g + 1]);
#else
      mma_bytes(c, b.codes[0][0].v[2 * g], b.codes[1][0].v[2 * g], b.codes[0][0].v[2 * g + 1], b.codes[1][0].v[2 * g + 1], x[2 * g], x[2 * g + 1]);
#endif
#pragma unroll
      for (int i = 0; i < 4; i++) acc[4 * t + i] = FMA(slab_scale(b, i >> 1, g), FLOAT((u32)c[i]) - DIGITS_MAGIC, acc[4 * t + i]);
    }
  }
}

// x_flush joins the digits of a leg and leaves the sums in to[row][weight row], on top of what earlier legs left.
template <int M>
INLINE void x_flush(float acc[X_ACCS(M)], float (*to)[16], bool first, int lane) {
#pragma unroll
  for (int t = 0; t < (M + 1) / 2; t++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float low = shuffle_xor(acc[4 * t + 2 * h], 1), v = FMA(acc[4 * t + 2 * h], 65536.0f, FMA(acc[4 * t + 2 * h + 1], 256.0f, low));
      int j = 2 * t + (lane >> 1 & 1), r = (lane >> 2) + 8 * h;
      if (!(lane & 1) && j < M) to[j][r] = first ? v : to[j][r] + v;
    }
}

// x_begin prepares the accumulators of a tile.
template <int M>
INLINE void x_begin(float acc[X_ACCS(M)], float (*)[16], bool, int) {
#pragma unroll
  for (int i = 0; i < X_ACCS(M); i++) acc[i] = 0;
}

#else

#define X_ROW (2 * SPLIT_ROW)
#define X_ACCS(m) ACCS
#define X_WHOLE(m) false
#define LEG 0

INLINE float x_scale(float top) { return split_scale(top); }
INLINE float x_back(float scale, float) { return 1.0f / scale; }

template <int M>
INLINE void x_store(u8 *lds, int i, int j, bool there, const float v[4], float factor) {
  u16 *hi = (u16 *)lds + (i / SLAB_COLS * M + j) * SPLIT_ROW + i % SLAB_COLS;
  if (there) split_store(hi, hi + SLAB_COLS, v, factor);
}

template <int M>
INLINE int x_lane(int lane) { return 2 * slab_lane<M>(lane); }

template <int M>
INLINE void x_mul(float *acc, const Slab &b, const u8 *at) { slab_mul<M>(acc, b, (const u16 *)at); }

template <int M>
INLINE void x_flush(float acc[ACCS], float (*to)[16], bool, int lane) {
#pragma unroll
  for (int i = 0; i < ACCS; i++)
    if (ACTIVE(i, M)) pin(acc[i]);
  if (!acc_join(acc, lane)) return;
#pragma unroll
  for (int i = 0; i < ACCS; i++)
    if (ACTIVE(i, M) && acc_xrow(lane, i) < M) to[acc_xrow(lane, i)][acc_wrow(lane, i)] = acc[i];
}

// A tile of several legs goes on where the leg before left its sums, so that cuts leave no trace.
template <int M>
INLINE void x_begin(float acc[ACCS], float (*from)[16], bool first, int lane) {
#pragma unroll
  for (int i = 0; i < ACCS; i++) {
    bool mine = ACTIVE(i, M) && acc_xrow(lane, i) < M && (MATRIX != MATRIX_DOT || lane < 16);
    acc[i] = !first && mine ? from[acc_xrow(lane, i)][acc_wrow(lane, i)] : 0;
  }
}

#endif
