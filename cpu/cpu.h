// The C side of the CPU device: what a compiled program looks like, and who runs it.
//
// A program is an array of commands. Each command is split into chunks that any worker may take; a chunk writes outputs
// of its own and reads what earlier commands wrote. All matrices are dense and row-major, activations are float.
#ifndef VOXTRAL_CPU_H
#define VOXTRAL_CPU_H

#include <stddef.h>
#include <stdint.h>

// As device.Format and device.Activation number them.
enum { CPU_F32, CPU_BF16, CPU_F16, CPU_INT8, CPU_INT4 };
enum { CPU_NOACT, CPU_GELU, CPU_SWIGLU };

// A stored matrix. Nothing about its address is aligned: elements are only ever read through byte pointers.
struct cpu_part {
	const uint8_t *data;   // [rows][row_bytes]
	const uint8_t *scales; // F16 [rows][groups], grouped formats only
	int64_t row_bytes;
	int32_t rows, groups;
	int32_t format;
	int32_t group_shift; // log2 of the elements that share a scale
	int32_t rotary_head; // rows of a head stored half-split, 0 if rows are in logical order
};

struct cpu_weight {
	struct cpu_part *parts;
	int32_t count, rows, cols;
};

// One logical row of a weight.
struct cpu_row {
	const uint8_t *data, *scales;
	int64_t row_bytes;
	int32_t format, group_shift;
};

// Where each row of a step stands; refilled before every run.
struct cpu_rows {
	int32_t *slot, *pos, *token; // [rows]
	float *cos, *sin;            // [rows][rotary/2]
};

// Position p of a slot is row p mod cap of [slots][cap][width]: floats, or IEEE halves if half.
struct cpu_ring {
	uint8_t *data;
	int32_t cap, width, half;
};

static inline int64_t cpu_ring_bytes(const struct cpu_ring *r, int64_t elements) { return elements << (r->half ? 1 : 2); }

static inline void *cpu_ring_row(const struct cpu_ring *r, int32_t slot, int32_t pos)
{
	return r->data + cpu_ring_bytes(r, ((int64_t)slot * r->cap + pos % r->cap) * r->width);
}

// Arguments of each op. units is how many independent pieces there are, per how many of them a chunk takes.
struct cpu_linear {
	float *y;                    // [m][outputs]
	const float *x;              // [m][w->cols]
	const struct cpu_weight *w;
	const float *bias;           // [w->rows] or NULL
	const float *residual;       // [m][outputs] or NULL
	const void *prepared;        // x, as the kernel of packed weights wants it
	struct cpu_top *top;         // [chunks][m]: takes the two largest of a chunk's outputs instead of y, or NULL
	int32_t m, outputs, act;
	int32_t units, per;          // tiles of four weight rows, strips for packed weights
};

// The two largest values seen so far and the first place of the larger; −1 and NaNs after a NaN.
struct cpu_top {
	float best, next;
	int32_t id;
};

struct cpu_prepare {
	void *prepared;
	const float *x;              // [m][k]
	const float *gain, *ada;     // of an RMSNorm to apply first, or NULL; as cpu_rmsnorm has them
	const struct cpu_rows *rows; // only with ada
	int32_t m, k, format;
	int32_t units, per;          // groups of rows
	float eps;
};

struct cpu_rmsnorm {
	float *y;                    // [units][d]
	const float *x, *gain, *ada; // [units][d], [d], [slots][d] or NULL
	const struct cpu_rows *rows; // only with ada
	int32_t d, units, per;       // rows
	float eps;
};

struct cpu_embed {
	float *y;                    // [units][w->cols]
	const struct cpu_weight *w;
	struct cpu_ring audio;       // floats
	const struct cpu_rows *rows;
	int32_t units, per;          // rows
	void (*dequant)(float *dst, const struct cpu_weight *w, int32_t row);
};

struct cpu_attention {           // also of cpu_rope
	float *y;                    // [rows][q_heads*head_dim]
	float *qkv;                  // [rows][(q_heads + 2*kv_heads)*head_dim]
	struct cpu_ring k, v;
	const struct cpu_rows *rows;
	int32_t q_heads, kv_heads, head_dim, window;
	int32_t m, take;             // attention: rows, those of a unit
	int64_t ld;                  // attention: scores of a query, in whole CPU_KEYS
	int32_t units, per;          // rope: rows; attention: takes of rows × key heads
	float scale;
};

// Attention's keys side by side, values widened at a time, and the most queries of a unit. Its scratch is, in floats of
// head_dim in whole CPU_KEYS: keys twice, values, queries; and for each query ld scores.
enum { CPU_KEYS = 16, CPU_VALUES = 64, CPU_QUERIES = 64 };

struct cpu_conv {
	float *y;                    // [rows/stride][3*c]
	const float *x;              // [rows][c]
	float *tail;                 // [slots][3-stride][c]
	const struct cpu_rows *rows;
	int32_t stride, c;
	int32_t units, per;          // window: output rows; tail: input rows, all in one chunk
};

struct cpu_ring_write {
	const float *x;              // [units][to.width]
	struct cpu_ring to;          // floats
	const struct cpu_rows *rows;
	int32_t units, per;          // rows
};

struct cpu_argmax {
	const float *x;              // [units][vocab]
	int32_t *ids;                // [units]
	float *top;                  // [units][2]
	int32_t vocab, units, per;   // rows
	const struct cpu_top *tops;  // merge only: [chunks][units]
	int32_t chunks;
};

// A kernel computes one chunk. scratch belongs to the worker and holds no values between chunks.
typedef void (*cpu_kernel)(const void *args, int32_t chunk, float *scratch);

struct cpu_command {
	cpu_kernel run;
	const void *args;
	int32_t chunks;
};

// Linear over int8 and int4 weights whose activations are rounded and laid out beforehand. linear is NULL where floats do
// as well.
struct cpu_packed {
	cpu_kernel prepare, linear;
	int32_t strip;                // weight rows of a unit
	int32_t rows, columns, bytes; // prepared activations take so many bytes for every rows × columns begun
	// Floats of scratch, and more for each of rows begun and for every columns begun.
	int32_t scratch, row_scratch, column_scratch;
};

// The kernels that differ by instruction set.
struct cpu_kernels {
	const char *name;
	cpu_kernel linear, rmsnorm, attention;
	void (*dequant)(float *dst, const struct cpu_weight *w, int32_t row);
	struct cpu_packed packed;
};

// Tables of the instruction sets that were compiled in, by name; NULL for others.
const struct cpu_kernels *cpu_find_kernels(const char *name);

// The kernels that do not.
void cpu_embed_add(const void *args, int32_t chunk, float *scratch);
void cpu_rope_append(const void *args, int32_t chunk, float *scratch);
void cpu_conv_window(const void *args, int32_t chunk, float *scratch);
void cpu_conv_tail(const void *args, int32_t chunk, float *scratch);
void cpu_ring_copy(const void *args, int32_t chunk, float *scratch);
void cpu_argmax_rows(const void *args, int32_t chunk, float *scratch);
void cpu_argmax_merge(const void *args, int32_t chunk, float *scratch);

// The chunk's part of a->top, emptied; NULL if there is none.
struct cpu_top *cpu_tops(const struct cpu_linear *a, int32_t chunk, int32_t first);

static inline void cpu_top_add(struct cpu_top *t, float x, int32_t id)
{
	if (x <= t->next)
		return;
	if (x > t->best) {
		*t = (struct cpu_top){.best = x, .next = t->best, .id = id};
	} else if (x > t->next) {
		t->next = x;
	} else { // neither above nor below
		*t = (struct cpu_top){.best = __builtin_nanf(""), .next = __builtin_nanf(""), .id = -1};
	}
}

// Outputs that are finished together.
enum { CPU_SIDE = 16 };

// Finishes outputs n.. of activation rows m..: v [rows] are their products, up those of the second part for SwiGLU. Past count
// both hold any numbers, and v is overwritten.
typedef void cpu_finisher(const struct cpu_linear *a, int32_t n, int count, int32_t m, int rows, float (*v)[CPU_SIDE], float (*up)[CPU_SIDE],
	struct cpu_top *top);
cpu_finisher cpu_finish_generic, cpu_finish_avx2, cpu_finish_avx512;

// The ada scale of a row, NULL if there is none.
static inline const float *cpu_ada_row(const struct cpu_prepare *a, int32_t row)
{
	return a->ada && a->rows->slot[row] >= 0 ? a->ada + (int64_t)a->rows->slot[row] * a->k : NULL;
}

// Asks the system for AMX, which Linux grants to processes that have asked; 0 if there is none to be had.
int32_t cpu_amx_permit(void);

// The units of a chunk.
#define CPU_CHUNK(a, chunk, from, to) \
	const int32_t from = (chunk) * (a)->per; \
	const int32_t to = from + (a)->per < (a)->units ? from + (a)->per : (a)->units

// Unpacked rows are padded to whole blocks of this many elements.
enum { CPU_BLOCK = 32, CPU_TILE = 4 };
static inline int64_t cpu_padded(int64_t cols) { return (cols + CPU_BLOCK - 1) / CPU_BLOCK * CPU_BLOCK; }

// Where a part keeps a logical row: in heads stored half-split, first all even rows, then all odd ones.
static inline int32_t cpu_stored_row(const struct cpu_part *p, int32_t row)
{
	const int32_t h = p->rotary_head;
	return h ? row / h * h + row % h % 2 * (h / 2) + row % h / 2 : row;
}

// Finds a logical row, whichever part it is in and in whatever order that part stores its rotary pairs.
struct cpu_row cpu_weight_row(const struct cpu_weight *w, int32_t row);

// The pool: workers that take chunks. One run at a time.
struct cpu_pool;
struct cpu_pool *cpu_pool_open(int32_t threads, int pinned); // the caller of cpu_pool_run counts as one; NULL and errno
void cpu_pool_run(struct cpu_pool *p, const struct cpu_command *commands, int32_t count, float *scratch, int64_t stride);
void cpu_pool_close(struct cpu_pool *p);

// Zeroed memory, 64-byte aligned; NULL when there is none. Pages of large blocks cost nothing until touched.
void *cpu_alloc(size_t bytes);
void cpu_free(void *p, size_t bytes);

#endif
