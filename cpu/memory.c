// Memory of buffers and scratch.
#define _GNU_SOURCE
#include "cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LARGE = 1 << 20, ALIGN = 64 };

void *cpu_alloc(size_t bytes)
{
	if (bytes >= LARGE) {
		void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		return p == MAP_FAILED ? NULL : p;
	}
	void *p = NULL;
	if (posix_memalign(&p, ALIGN, bytes ? bytes : 1))
		return NULL;
	return memset(p, 0, bytes);
}

void cpu_free(void *p, size_t bytes)
{
	if (bytes >= LARGE)
		munmap(p, bytes);
	else
		free(p);
}
