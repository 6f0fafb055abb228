// attention.hip: attention of query rows, by one block a key head or several. Follows compat.h, attention.h.

// attention: a block a key head (x) and row (y).
KERNEL(THREADS, 2) attention(float *y, const float *qkv, const void *keys, const void *values, const int *slot, const int *pos, int kv_heads, int cap, int window, float scale) {
  __shared__ Joined j;
  AttentionArgs a = {y, 0, 0, qkv, keys, values, slot, pos, kv_heads, cap, window, scale, 1};
  attention_share(a, j, 0, BLOCK_X, BLOCK_Y);
}

// attention_split: a block a share of the keys (x), key head (y) and row (z).
KERNEL(THREADS, 2) attention_split(float *y, float *part, u32 *tickets, const float *qkv, const void *keys, const void *values, const int *slot, const int *pos, int kv_heads, int cap, int window, float scale, int splits) {
  __shared__ Joined j;
  AttentionArgs a = {y, part, tickets, qkv, keys, values, slot, pos, kv_heads, cap, window, scale, splits};
  attention_share(a, j, BLOCK_X, BLOCK_Y, BLOCK_Z);
}
