// embed.hip: rows of a weight as vectors. Follows compat.h, tile.h.

#define THREADS 256

// weight_at is element (row, column) of a weight whose tiles hold 16 rows in order.
INLINE float weight_at(const u8 *codes, [[maybe_unused]] const u16 *scales, int row, int column, int slabs) {
  u64 slab = (u64)(row / 16) * slabs + column / SLAB_COLS;
  int r = row % 16, quarter = column % 32 / 8, group = column % SLAB_COLS / 32, e = column % 8;
  const u8 *at = codes + (slab << 10) + r / 8 * 512 + quarter * 128 + r % 8 * 16 + group * 16 / GROUPS;
#if FORMAT == 4
  int code = (int)((*(const u32 *)at >> (e / 2 * 4 + e % 2 * 16) & 15u) ^ 8u) - 8;
#elif FORMAT == 8
  int code = (int)(signed char)at[e];
#elif FORMAT == 15
  return half_to_float(((const u16 *)at)[e]);
#else
  return bf16_to_float(((const u16 *)at)[e]);
#endif
#if SCALED
  return (float)code * half_to_float(scales[(slab * 16 + r) * SCALES + group * SCALES / GROUPS]);
#endif
}

// embed_add: y [rows, k] = table[token] + audio[slot][pos mod cap], audio [slots, cap, k] F32; a block a row.
KERNEL(THREADS, 2) embed_add(float *y, const u8 *codes, const u16 *scales, const float *audio, const int *slot, const int *pos, const int *token, int k, int cap) {
  int r = BLOCK_X, s = slot[r];
  if (s < 0) return;
  const float *a = audio + ((u64)s * cap + pos[r] % cap) * k;
  int slabs = (k + SLAB_COLS - 1) / SLAB_COLS;
  for (int i = TID; i < k; i += THREADS) y[(u64)r * k + i] = weight_at(codes, scales, token[r], i, slabs) + a[i];
}
