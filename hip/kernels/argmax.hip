// argmax.hip: the largest two of each row, the lowest id among equals; a NaN gives id −1. Follows compat.h, best.h.

#define THREADS 256

INLINE void argmax_store(int *ids, float *top, const Best &b) {
  ids[BLOCK_X] = b.id == BEST_NONE ? -1 : b.id;
  top[2 * BLOCK_X] = b.top;
  top[2 * BLOCK_X + 1] = b.next;
}

// argmax: logits [rows, n]; a block a row.
KERNEL(THREADS, 2) argmax(int *ids, float *top, const float *logits, int n) {
  __shared__ Best list[THREADS];
  Best b = best_none();
  for (int i = TID; i < n; i += THREADS) b = best_add(b, logits[(u64)BLOCK_X * n + i], i);
  list[TID] = b;
  best_block(list, THREADS);
  if (TID == 0) argmax_store(ids, top, list[0]);
}

// argmax_merge: part [rows, count] as head_m… leaves it; a block a row.
KERNEL(THREADS, 2) argmax_merge(int *ids, float *top, const Best *part, int count) {
  __shared__ Best list[THREADS];
  Best b = best_none();
  for (int i = TID; i < count; i += THREADS) b = best_join(b, part[(u64)BLOCK_X * count + i]);
  list[TID] = b;
  best_block(list, THREADS);
  if (TID == 0) argmax_store(ids, top, list[0]);
}
