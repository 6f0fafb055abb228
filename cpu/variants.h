// Compiles the including file's kernels once per instruction set. A kernel file defines VARIANTS_OF as its own name,
// includes this header and nothing else; each time it is included back with ISA and LEVEL set.
#include "cpu.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define CAT2(a, b) a##_##b
#define CAT(a, b) CAT2(a, b)
#define NAME(f) CAT(f, ISA)

#define ISA generic
#define LEVEL 0
#include VARIANTS_OF
#undef ISA
#undef LEVEL

#if defined(__x86_64__)
#define ISA avx2
#define LEVEL 1
#include VARIANTS_OF
#undef ISA
#undef LEVEL

#define ISA avx512
#define LEVEL 2
#include VARIANTS_OF
#undef ISA
#undef LEVEL
#endif
