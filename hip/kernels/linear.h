// linear.h: products and what is done with their sums, for matvec.hip and step.hip. Follows compat.h, tile.h, matvec.h.

#define ANY (-1)

// Finish: Y = act(X·Wᵀ + bias) + residual; or with ACT_APPEND Y = X·Wᵀ + bias, q rotated into Y, k rotated and v appended to
// the slots' rings. ACT: ACT_APPEND, ACT_NONE for all others, or ANY.
template <int ACT>
struct Finish {
  const LinearArgs &a;
  float add, keep;   // bias and residual of this thread's element, on their way while products are made
  float other, c, s; // ACT_APPEND: bias of the pair's other half, angle
  int to, place;     // slot and row of the ring; to is −1 for a thread without an element

  __device__ inline bool append() const { return ACT == ANY ? a.act == ACT_APPEND : ACT == ACT_APPEND; }

  __device__ inline void before(int tile, int r, int j) {
    int row = output_row(tile, r, a.half);
    to = -1, add = keep = other = 0;
    if (tile < 0 || j >= a.m || row >= a.n) return;
    if (append()) {
      to = a.slot[j], place = a.pos[j] % a.cap;
      if (a.bias) add = a.bias[row], other = a.bias[row ^ 1];
      int in = row < a.qdim ? row : (row - a.qdim) % a.kvdim, at = j * (a.head / 2) + in % a.head / 2;
      if (row < a.qdim + a.kvdim) c = a.cos[at], s = a.sin[at];
      return;
    }
    if (a.half && (row - (r >> 3) * a.half >= a.half || (a.act == ACT_SWIGLU && r >= 8))) return;
    to = 0;
    if (a.bias) add = a.bias[row], other = a.act == ACT_SWIGLU ? a.bias[row + a.half] : 0.0f;
    if (a.res) keep = a.res[(u64)j * (a.act == ACT_SWIGLU ? a.half : a.n) + row];
  }

  __device__ inline void operator()(int tile, int r, int j, const Sums &sum) const {
    if (to < 0) return;
    int row = output_row(tile, r, a.half);
    float v = sum(r) + add;
    if (append()) {
      float w = sum(r ^ 1) + other;                           // pairs are adjacent rows, so both lie in this tile
      int in = row < a.qdim ? row : (row - a.qdim) % a.kvdim; // within q, k or v
      if (row < a.qdim + a.kvdim) v = r & 1 ? FMA(w, s, v * c) : FMA(-w, s, v * c);
      if (row >= a.qdim) {
        void *ring = row < a.qdim + a.kvdim ? a.keys : a.values;
        u64 at = ((u64)to * a.cap + place) * a.kvdim + in;
        if (a.half_ring) ((u16 *)ring)[at] = float_to_half(v);
        else ((float *)ring)[at] = v;
        return;
      }
    } else {
      if (a.act == ACT_GELU) v = gelu(v);
      if (a.act == ACT_SWIGLU) v = silu(v) * (sum(r + 8) + other);
      v += keep;
    }
    a.y[(u64)j * (a.act == ACT_SWIGLU ? a.half : a.n) + row] = v;
  }
};

template <int M, int ACT, class Ready>
INLINE void linear(const LinearArgs &a, int blocks, Ready &ready) {
  Finish<ACT> done = {a, 0, 0, 0, 0, 0, -1, 0};
  products<M>(a, blocks, ready, done);
}
