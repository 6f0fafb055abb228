// The probes of probe.c, run by the pool as kernels.
#ifndef VOXTRAL_PROBE_H
#define VOXTRAL_PROBE_H

#include "cpu.h"

struct cpu_probe_read {
	const uint8_t *data; // [chunks][per]
	uint64_t *sums;      // [chunks]
	int64_t per;         // bytes, a multiple of 16 KiB
};

struct cpu_probe_loop {
	int32_t rounds;
};

struct cpu_probe_op {
	const char *name;
	int64_t ops; // of a round: multiplications and additions
	cpu_kernel run;
};

void cpu_probe_read(const void *args, int32_t chunk, float *scratch);
void cpu_probe_fill(const void *args, int32_t chunk, float *scratch);

// A loop by name; NULL if this build has none of it. Whether the processor can run it is for the caller to know.
const struct cpu_probe_op *cpu_find_probe(const char *name);

#endif
