// best.h: the largest two of many logits, for head.hip and argmax.hip. Follows compat.h.

// Best is the largest value with its id, the lowest among equals, and the next value. Nothing seen yet: id none, −Inf.
// A NaN anywhere: id −1.
struct Best {
  float top, next;
  int id, unused;
};

#define BEST_NONE 0x7fffffff

INLINE Best best_none() { return {minus_inf(), minus_inf(), BEST_NONE, 0}; }

INLINE Best best_join(Best a, Best b) {
  bool first = b.id >= 0 && (a.id < 0 || a.top > b.top || (a.top == b.top && a.id < b.id));
  float lost = first ? b.top : a.top, next = FMAX(a.next, b.next);
  Best w = {first ? a.top : b.top, FMAX(next, lost), first ? a.id : b.id, 0};
  if (w.id < 0 || (a.id < 0) != (b.id < 0)) w.id = -1;
  if (w.id < 0) w.top = w.next = FLOAT(0x7fc00000u);
  return w;
}

INLINE Best best_add(const Best &a, float v, int id) {
  if (v != v) return {v, v, -1, 0};
  return best_join(a, Best{v, minus_inf(), id, 0});
}

// best_block joins what count threads left in list, and gives the result to thread 0 in list[0].
INLINE void best_block(Best *list, int count) {
  for (int n = count; n > 1;) {
    int half = (n + 1) / 2;
    block_sync();
    if (TID < n - half) list[TID] = best_join(list[TID], list[TID + half]);
    n = half;
  }
  block_sync();
}
