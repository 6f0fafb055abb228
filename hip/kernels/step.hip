// step.hip: many products and attentions of a step in one launch, so that none waits for blocks to start and weights are on
// their way while activations are still being made. Follows compat.h, tile.h, matvec.h, linear.h, attention.h.
//
// Every phase does what a kernel of matvec.hip or attention.hip does, to the same bits. All blocks of the grid run at once
// (a cooperative launch). A phase begins to read activations when all working blocks of the phase before have arrived; a
// block without work in a phase passes it by. Counters are never reset: turn counts the launches.

enum Kind { PHASE_LINEAR, PHASE_ATTENTION };

struct Phase {
  int kind, x, y, z;   // x·y·z pieces of work of attention: shares of keys, key heads, rows
  int working, pad[3]; // blocks with work
  Aligned16 args[11];  // LinearArgs or AttentionArgs
};

struct StepArgs {
  const Phase *phases;
  u32 *arrived;    // [count][ARRIVED], blocks that have done the phase, over all launches
  const u32 *turn; // of this launch, from 1 on
  int *stuck;      // set to 1 if a block waited in vain: the results are worthless
  int count, blocks;
};

#define ARRIVED 8          // counters lie 32 bytes apart
#define WAIT_POLLS (1 << 23) // some seconds

struct Await {
  const u32 *arrived; // of the phase before, 0: the first
  u32 target;
  int *stuck;

  __device__ inline void operator()() const {
    if (!arrived) return;
    if (TID == 0) {
      for (int n = 1; (int)(load_acquire(arrived) - target) < 0; n++) {
        rest();
        if (n % 4096 == 0 && (n == WAIT_POLLS || load_acquire((const u32 *)stuck))) {
          *stuck = 1;
          break;
        }
      }
    }
    block_sync();
    device_acquire();
  }
};

template <int M>
INLINE void step(const StepArgs &a) {
  extern __shared__ Aligned16 dynamic_lds[];
  __shared__ Phase copies[2];
  const int words = sizeof(Phase) / 16;
  u32 turn = a.turn[0];
  if (TID < words) ((Aligned16 *)&copies[0])[TID] = ((const Aligned16 *)a.phases)[TID];
  block_sync();
  int before = 0;
#pragma unroll 1
  for (int p = 0; p < a.count; p++) {
    const Phase &now = copies[p & 1];
    if (p + 1 < a.count && TID < words) ((Aligned16 *)&copies[(p + 1) & 1])[TID] = ((const Aligned16 *)(a.phases + p + 1))[TID];
    int working = now.working;
    if (BLOCK_X < working) {
      Await ready = {p ? a.arrived + (p - 1) * ARRIVED : 0, turn * (u32)before, a.stuck};
      if (now.kind == PHASE_LINEAR) linear<M, ANY>(*(const LinearArgs *)now.args, a.blocks, ready);
      else {
        ready();
        const int x = now.x, y = now.y, items = x * y * now.z;
        for (int i = BLOCK_X; i < items; i += a.blocks) {
          attention_share(*(const AttentionArgs *)now.args, *(Joined *)dynamic_lds, i % x, i / x % y, i / x / y);
          block_sync();
        }
      }
      device_release();
      block_sync();
      if (TID == 0) add_release(a.arrived + p * ARRIVED, 1);
    }
    before = working;
    block_sync();
  }
}

#define STEP(M) \
  KERNEL(THREADS, OCCUPANCY) step_m##M(StepArgs a) { step<M>(a); }

STEP(1)
STEP(2)
STEP(4)
STEP(8)
