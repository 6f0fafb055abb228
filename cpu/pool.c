// The thread pool. A command's chunks are claimed one by one from a single ticket word, and the command ends when all
// chunks are done, not when all workers have arrived: a worker that the system put aside holds nobody up unless it owns
// a chunk. Workers without work spin for a few microseconds, which bridges the gaps between commands, then sleep.
//
// Workers may be pinned, each to a CPU of its own among those that the process may use; pools of one process take turns. They
// are free by default: one that is pinned beside other work waits for its CPU while another idles.
#define _GNU_SOURCE
#include "cpu.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

enum { SPINS = 1000 };

struct worker {
	struct cpu_pool *pool;
	pthread_t thread;
	int32_t index;
};

struct cpu_pool {
	_Alignas(64) _Atomic uint64_t ticket; // command's number << 32 | chunks nobody has claimed
	_Alignas(64) _Atomic int32_t done;    // chunks finished
	_Atomic int caller_waits;
	_Alignas(64) _Atomic int sleepers;
	_Atomic int stop;

	// Written only while no chunk is claimed or claimable, so whoever owns a chunk may read them.
	const struct cpu_command *command;
	float *scratch;
	int64_t stride; // floats of scratch of a worker

	pthread_mutex_t lock;
	pthread_cond_t work, finished;
	int32_t started;
	size_t bytes; // of the pool itself
	struct worker workers[];
};

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

// Takes one chunk of the current command, if any is left.
static int claim(struct cpu_pool *p, int32_t *left)
{
	uint64_t t = atomic_load_explicit(&p->ticket, memory_order_relaxed);
	while ((uint32_t)t) {
		if (atomic_compare_exchange_weak_explicit(&p->ticket, &t, t - 1, memory_order_acquire, memory_order_relaxed)) {
			*left = (int32_t)(uint32_t)t;
			return 1;
		}
	}
	return 0;
}

static void work(struct cpu_pool *p, int32_t worker)
{
	int32_t left;
	while (claim(p, &left)) {
		const struct cpu_command *c = p->command;
		const int32_t chunks = c->chunks;
		c->run(c->args, chunks - left, p->scratch + worker * p->stride);
		if (atomic_fetch_add(&p->done, 1) == chunks - 1 && worker && atomic_load(&p->caller_waits)) {
			pthread_mutex_lock(&p->lock);
			pthread_cond_signal(&p->finished);
			pthread_mutex_unlock(&p->lock);
		}
	}
}

static int claimable(struct cpu_pool *p) { return (uint32_t)atomic_load(&p->ticket) != 0; }

static void *serve(void *arg)
{
	struct worker *w = arg;
	struct cpu_pool *p = w->pool;
	while (!atomic_load(&p->stop)) {
		work(p, w->index);
		int spins = SPINS;
		while (spins && !claimable(p)) {
			relax();
			spins--;
		}
		if (spins)
			continue;
		pthread_mutex_lock(&p->lock);
		atomic_fetch_add(&p->sleepers, 1);
		while (!claimable(p) && !atomic_load(&p->stop))
			pthread_cond_wait(&p->work, &p->lock);
		atomic_fetch_sub(&p->sleepers, 1);
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

static void wait_done(struct cpu_pool *p, int32_t chunks)
{
	for (int spins = SPINS; spins; spins--) {
		if (atomic_load(&p->done) == chunks)
			return;
		relax();
	}
	atomic_store(&p->caller_waits, 1);
	pthread_mutex_lock(&p->lock);
	while (atomic_load(&p->done) != chunks)
		pthread_cond_wait(&p->finished, &p->lock);
	pthread_mutex_unlock(&p->lock);
	atomic_store(&p->caller_waits, 0);
}

void cpu_pool_run(struct cpu_pool *p, const struct cpu_command *commands, int32_t count, float *scratch, int64_t stride)
{
	p->scratch = scratch;
	p->stride = stride;
	for (int32_t i = 0; i < count; i++) {
		const struct cpu_command *c = &commands[i];
		if (c->chunks == 1 || !p->started) {
			for (int32_t chunk = 0; chunk < c->chunks; chunk++)
				c->run(c->args, chunk, scratch);
			continue;
		}
		p->command = c;
		atomic_store(&p->done, 0);
		const uint64_t number = (atomic_load(&p->ticket) >> 32) + 1;
		atomic_store(&p->ticket, number << 32 | (uint32_t)c->chunks);
		if (atomic_load(&p->sleepers)) {
			pthread_mutex_lock(&p->lock);
			pthread_cond_broadcast(&p->work);
			pthread_mutex_unlock(&p->lock);
		}
		work(p, 0);
		wait_done(p, c->chunks);
	}
}

// Keeps a thread to the next of the CPUs that the process may use. The first is left to the thread that calls.
static void pin(pthread_t thread)
{
#if defined(__linux__)
	static _Atomic uint32_t next = 1;
	cpu_set_t allowed, one;
	if (sched_getaffinity(0, sizeof allowed, &allowed))
		return; // more CPUs than the set has room for
	int left = (int)(atomic_fetch_add(&next, 1) % (uint32_t)CPU_COUNT(&allowed)), cpu = 0;
	while (!CPU_ISSET(cpu, &allowed) || left--)
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	pthread_setaffinity_np(thread, sizeof one, &one); // left free if the system will not
#else
	(void)thread;
#endif
}

struct cpu_pool *cpu_pool_open(int32_t threads, int pinned)
{
	const size_t bytes = (sizeof(struct cpu_pool) + (size_t)threads * sizeof(struct worker) + 63) / 64 * 64;
	struct cpu_pool *p = cpu_alloc(bytes);
	if (!p) {
		errno = ENOMEM;
		return NULL;
	}
	p->bytes = bytes;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->finished, NULL);

	// Signals are for the threads that Go made.
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int err = 0;
	for (int32_t i = 1; i < threads && !err; i++) {
		struct worker *w = &p->workers[i - 1];
		w->pool = p;
		w->index = i;
		err = pthread_create(&w->thread, NULL, serve, w);
		p->started += !err;
		if (pinned && !err)
			pin(w->thread);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		cpu_pool_close(p);
		errno = err;
		return NULL;
	}
	return p;
}

void cpu_pool_close(struct cpu_pool *p)
{
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->stop, 1);
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	const int32_t started = p->started;
	for (int32_t i = 0; i < started; i++)
		pthread_join(p->workers[i].thread, NULL);
	pthread_cond_destroy(&p->finished);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	cpu_free(p, p->bytes);
}
