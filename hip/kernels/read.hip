// read.hip: the sum of all words of a buffer, modulo 2^32 a block, to measure how fast memory can be read. Follows compat.h.

#define THREADS 256
#define FLIGHT 8 // loads of a thread on their way at a time

// read_sum: sums [gridDim] u32, data [quads] of 16 bytes. Block b takes THREADS·FLIGHT quads at a time, b, b + blocks, ….
KERNEL(THREADS, 8) read_sum(u32 *sums, const void *data, int quads, int blocks) {
  __shared__ u32 part[THREADS];
  u32 sum = 0;
  for (int at = BLOCK_X * THREADS * FLIGHT; at < quads; at += blocks * THREADS * FLIGHT) {
    Quad q[FLIGHT];
#pragma unroll
    for (int i = 0; i < FLIGHT; i++) {
      int k = at + i * THREADS + TID;
      q[i] = k < quads ? load_once((const char *)data + (u64)k * 16) : Quad{};
    }
#pragma unroll
    for (int i = 0; i < FLIGHT; i++) sum += q[i].v[0] + q[i].v[1] + q[i].v[2] + q[i].v[3];
  }
  part[TID] = sum;
  block_sync();
  if (TID > 0) return;
  for (int i = 1; i < THREADS; i++) sum += part[i];
  sums[BLOCK_X] = sum;
}
