// What the processor can do at best: reading memory in a stream, and each instruction for dot products with nothing but
// registers. Kernels are measured against these.
#include "probe.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LINE = 64, PAGE = 4096, AHEAD = 8 * LINE };

typedef uint64_t u64x8 __attribute__((vector_size(LINE)));

// Sums a chunk. Four pages are read side by side, so that several of the processor's prefetchers work at once.
void cpu_probe_read(const void *args, int32_t chunk, float *scratch)
{
	(void)scratch;
	const struct cpu_probe_read *a = args;
	const uint8_t *p = a->data + (int64_t)chunk * a->per;
	u64x8 s[4] = {{0}};
	for (int64_t at = 0; at < a->per; at += 4 * PAGE)
		for (int64_t i = at; i < at + PAGE; i += LINE)
			for (int64_t j = 0; j < 4; j++) {
				const uint8_t *q = p + i + j * PAGE;
				__builtin_prefetch(q + AHEAD);
				s[j] += *(const u64x8 *)q;
			}
	s[0] += s[1] + s[2] + s[3];
	a->sums[chunk] = s[0][0] + s[0][1] + s[0][2] + s[0][3] + s[0][4] + s[0][5] + s[0][6] + s[0][7];
}

// Fills a chunk, so that its pages are the process's own.
void cpu_probe_fill(const void *args, int32_t chunk, float *scratch)
{
	(void)scratch;
	const struct cpu_probe_read *a = args;
	memset((uint8_t *)a->data + (int64_t)chunk * a->per, 1 + chunk % 100, (size_t)a->per);
}

// Every loop below keeps enough sums in flight to hide the instruction's latency. The instructions are volatile assembly:
// no compiler can take them out, and none can leave an unsupported one in by mistake.
#define TWELVE(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)

// Operands are not zero, which some processors would multiply at a higher clock.
enum { OPERAND = 0x3c };

#if defined(__x86_64__)

#define LOOP(name, isa, vector, text) \
	__attribute__((target(isa))) static void name(const void *args, int32_t chunk, float *scratch) \
	{ \
		(void)chunk; \
		(void)scratch; \
		const struct cpu_probe_loop *a = args; \
		vector s[12], x, y; \
		memset(s, 0, sizeof s); \
		memset(&x, OPERAND, sizeof x); \
		memset(&y, OPERAND, sizeof y); \
		for (int32_t n = a->rounds; n; n--) { \
			TWELVE(text) \
		} \
	}

#define VNNI512(i) __asm__ volatile("vpdpbusd %1, %2, %0" : "+v"(s[i]) : "v"(x), "v"(y));
LOOP(int8_avx512_vnni, "avx512f", __m512i, VNNI512)

#define VNNI256(i) __asm__ volatile("%{vex%} vpdpbusd %1, %2, %0" : "+x"(s[i]) : "x"(x), "x"(y));
LOOP(int8_avx_vnni, "avx2", __m256i, VNNI256)

// Without VNNI: products in pairs to 16 bits, those in pairs to 32 bits, and the sum.
#define MADD256(i) \
	__asm__ volatile("vpmaddubsw %1, %2, %%ymm15\n\tvpmaddwd %%ymm15, %2, %%ymm15\n\tvpaddd %%ymm15, %0, %0" \
			 : "+x"(s[i]) : "x"(x), "x"(y) : "ymm15");
LOOP(int8_avx2, "avx2", __m256i, MADD256)

#define MADD128(i) \
	__asm__ volatile("movdqa %1, %%xmm15\n\tpmaddwd %2, %%xmm15\n\tpaddd %%xmm15, %0" : "+x"(s[i]) : "x"(x), "x"(y) : "xmm15");
LOOP(int8_sse2, "sse2", __m128i, MADD128)

#define BF16_512(i) __asm__ volatile("vdpbf16ps %1, %2, %0" : "+v"(s[i]) : "v"(x), "v"(y));
LOOP(bf16_avx512, "avx512f", __m512, BF16_512)

#define FMA512(i) __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(s[i]) : "v"(x), "v"(y));
LOOP(fma_avx512, "avx512f", __m512, FMA512)

#define FMA256(i) __asm__ volatile("vfmadd231ps %1, %2, %0" : "+x"(s[i]) : "x"(x), "x"(y));
LOOP(fma_avx2, "avx2", __m256, FMA256)

// Tiles 0 to 5 add up the products of tiles 6 and 7.
#define TILES(name, instruction) \
	static void name(const void *args, int32_t chunk, float *scratch) \
	{ \
		(void)chunk; \
		(void)scratch; \
		const struct cpu_probe_loop *a = args; \
		struct { uint8_t palette, start, zero[14]; uint16_t bytes[16]; uint8_t rows[16]; } config = {.palette = 1}; \
		for (int i = 0; i < 8; i++) { \
			config.bytes[i] = 64; \
			config.rows[i] = 16; \
		} \
		uint8_t x[1024]; \
		memset(x, OPERAND, sizeof x); \
		__asm__ volatile("ldtilecfg %0\n\ttilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t" \
				 "tilezero %%tmm4\n\ttilezero %%tmm5\n\ttileloadd (%1,%2,1), %%tmm6\n\ttileloadd (%1,%2,1), %%tmm7" \
				 :: "m"(config), "r"(x), "r"(64L), "m"(x)); \
		for (int32_t n = a->rounds; n; n--) \
			__asm__ volatile(instruction " %%tmm7, %%tmm6, %%tmm0\n\t" instruction " %%tmm7, %%tmm6, %%tmm1\n\t" \
					 instruction " %%tmm7, %%tmm6, %%tmm2\n\t" instruction " %%tmm7, %%tmm6, %%tmm3\n\t" \
					 instruction " %%tmm7, %%tmm6, %%tmm4\n\t" instruction " %%tmm7, %%tmm6, %%tmm5" ::); \
		__asm__ volatile("tilerelease" ::); \
	}
TILES(int8_amx, "tdpbssd")
TILES(bf16_amx, "tdpbf16ps")

static const struct cpu_probe_op ops[] = {
	{"int8 SSE2", 12 * 8 * 2, int8_sse2},
	{"int8 AVX2", 12 * 32 * 2, int8_avx2},
	{"int8 AVX-VNNI", 12 * 32 * 2, int8_avx_vnni},
	{"int8 AVX-512 VNNI", 12 * 64 * 2, int8_avx512_vnni},
	{"int8 AMX", 6 * 16 * 16 * 64 * 2, int8_amx},
	{"f32 AVX2 FMA", 12 * 8 * 2, fma_avx2},
	{"f32 AVX-512 FMA", 12 * 16 * 2, fma_avx512},
	{"bf16 AVX-512", 12 * 32 * 2, bf16_avx512},
	{"bf16 AMX", 6 * 16 * 16 * 32 * 2, bf16_amx},
};

#elif defined(__aarch64__)

#define LOOP(name, text) \
	static void name(const void *args, int32_t chunk, float *scratch) \
	{ \
		(void)chunk; \
		(void)scratch; \
		const struct cpu_probe_loop *a = args; \
		int32_t __attribute__((vector_size(16))) s[12] = {{0}}, x, y; \
		memset(&x, OPERAND, sizeof x); \
		memset(&y, OPERAND, sizeof y); \
		for (int32_t n = a->rounds; n; n--) { \
			TWELVE(text) \
		} \
	}
#define ARM(instruction, i) __asm__ volatile(".arch armv8.6-a\n\t" instruction : "+w"(s[i]) : "w"(x), "w"(y));

#define SDOT(i) ARM("sdot %0.4s, %1.16b, %2.16b", i)
LOOP(int8_sdot, SDOT)
#define SMMLA(i) ARM("smmla %0.4s, %1.16b, %2.16b", i)
LOOP(int8_smmla, SMMLA)
#define SMLAL(i) ARM("smlal %0.4s, %1.4h, %2.4h", i)
LOOP(int8_neon, SMLAL)
#define FMLA(i) ARM("fmla %0.4s, %1.4s, %2.4s", i)
LOOP(fma_neon, FMLA)

static const struct cpu_probe_op ops[] = {
	{"int8 NEON", 12 * 4 * 2, int8_neon},
	{"int8 NEON dotprod", 12 * 16 * 2, int8_sdot},
	{"int8 NEON i8mm", 12 * 32 * 2, int8_smmla},
	{"f32 NEON FMA", 12 * 4 * 2, fma_neon},
};

#else
static const struct cpu_probe_op ops[] = {{0}};
#endif

const struct cpu_probe_op *cpu_find_probe(const char *name)
{
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (ops[i].name && !strcmp(ops[i].name, name))
			return &ops[i];
	return NULL;
}
