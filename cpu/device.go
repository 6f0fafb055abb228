// Package cpu runs programs on the host's processor. Kernels are C, one file an op, in variants for several instruction
// sets of which Open picks the best; a pool of threads shares the chunks of each op; a whole program is one cgo call.
//
// Results do not depend on the number of threads or of rows beside a row. They differ in the last bits between
// instruction sets.
package cpu

/*
#cgo CFLAGS: -std=gnu11 -O3 -Wall -Wextra -Werror
#cgo LDFLAGS: -lm -lpthread
#include <stdlib.h>
#include "cpu.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"sync"
	"unsafe"

	"voxtral/internal/device"
)

const maxThreads = 1024

// Device is the CPU. It implements device.Device.
type Device struct {
	isa     string
	kernels *C.struct_cpu_kernels
	threads int

	running sync.Mutex // held while the pool works: one program at a time
	pool    *C.struct_cpu_pool

	mu     sync.Mutex
	pinner goruntime.Pinner    // memory of weights, which C refers to
	owned  map[*block]struct{} // C memory that is not freed yet
	closed bool
}

// block is memory that C owns.
type block struct {
	ptr   unsafe.Pointer
	bytes int
}

// open keeps devices reachable until Close: their threads and pinned weights are beyond the garbage collector's sight.
var open sync.Map

var (
	errClosed = errors.New("the device is closed")
	errFreed  = errors.New("the buffer has been freed")
)

// Open starts the CPU device with a number of threads; 0 means one for each CPU that this process may use. The
// environment variable VOXTRAL_CPU_ISA names an instruction set to use instead of the best one, and VOXTRAL_CPU_PIN=1 pins
// every thread but the caller's to a CPU of its own, on Linux: for machines that have nothing else to do.
func Open(threads int) (*Device, error) {
	if threads == 0 {
		threads = min(goruntime.GOMAXPROCS(0), maxThreads) // honours affinity and the container's quota
	}
	if threads < 0 || threads > maxThreads {
		return nil, fmt.Errorf("cpu: %d threads: want 1..%d, or 0 for one per CPU", threads, maxThreads)
	}
	isa, err := chooseISA()
	if err != nil {
		return nil, err
	}
	name := C.CString(isa)
	defer C.free(unsafe.Pointer(name))
	d := &Device{isa: isa, threads: threads, kernels: C.cpu_find_kernels(name), owned: map[*block]struct{}{}}
	if d.kernels == nil {
		return nil, fmt.Errorf("cpu: instruction set %s is not in this build", isa)
	}
	pinned := C.int(0)
	if os.Getenv("VOXTRAL_CPU_PIN") == "1" {
		pinned = 1
	}
	d.pool, err = C.cpu_pool_open(C.int32_t(threads), pinned)
	if d.pool == nil {
		return nil, fmt.Errorf("cpu: starting %d threads: %w", threads, err)
	}
	open.Store(d, nil)
	return d, nil
}

// Info names the instruction set in Detail.
func (d *Device) Info() device.Info {
	return device.Info{Name: "cpu", Detail: goruntime.GOARCH + " " + d.isa, Threads: d.threads}
}

// Close ends the threads and frees all memory of the device: buffers, weights and programs are of no use afterwards.
func (d *Device) Close() error {
	d.running.Lock()
	defer d.running.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	C.cpu_pool_close(d.pool)
	for b := range d.owned {
		b.release()
	}
	clear(d.owned)
	d.pinner.Unpin()
	open.Delete(d)
	return nil
}

// alloc returns zeroed memory that lives until free or Close. The lock is held.
func (d *Device) alloc(bytes int) (*block, error) {
	if d.closed {
		return nil, errClosed
	}
	if bytes < 0 {
		return nil, fmt.Errorf("allocation of %d bytes", bytes)
	}
	p := C.cpu_alloc(C.size_t(bytes))
	if p == nil {
		return nil, fmt.Errorf("out of memory for %d bytes", bytes)
	}
	b := &block{p, bytes}
	d.owned[b] = struct{}{}
	return b, nil
}

// free returns memory; twice does no harm. The lock is held.
func (d *Device) free(b *block) {
	if _, ok := d.owned[b]; ok {
		delete(d.owned, b)
		b.release()
	}
}

func (b *block) release() {
	C.cpu_free(b.ptr, C.size_t(b.bytes))
	b.ptr = nil
}

// buffer is a device.Buffer.
type buffer struct {
	dev *Device
	mem *block
}

func (b *buffer) Bytes() int { return b.mem.bytes }

func (b *buffer) Free() {
	b.dev.mu.Lock()
	defer b.dev.mu.Unlock()
	b.dev.free(b.mem)
}

// Alloc returns zeroed memory. All kinds are the same here.
func (d *Device) Alloc(bytes int, _ device.Kind) (device.Buffer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := d.alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	return &buffer{d, b}, nil
}

// Write copies src to dst at a byte offset.
func (d *Device) Write(dst device.Buffer, off int, src []byte) error {
	mem, err := d.span(dst, off, len(src), "write")
	copy(mem, src)
	return err
}

// Read copies from src at a byte offset to dst.
func (d *Device) Read(src device.Buffer, off int, dst []byte) error {
	mem, err := d.span(src, off, len(dst), "read")
	copy(dst, mem)
	return err
}

// span is n bytes of a buffer.
func (d *Device) span(b device.Buffer, off, n int, what string) ([]byte, error) {
	mem, err := d.memory(b)
	if err != nil {
		return nil, fmt.Errorf("cpu: %s: %w", what, err)
	}
	if off < 0 || off > b.Bytes() || n > b.Bytes()-off {
		return nil, fmt.Errorf("cpu: %s of %d bytes at %d: the buffer has %d", what, n, off, b.Bytes())
	}
	return unsafe.Slice((*byte)(mem.ptr), mem.bytes)[off : off+n], nil
}

// memory is what is behind a live buffer of this device.
func (d *Device) memory(b device.Buffer) (*block, error) {
	buf, ok := b.(*buffer)
	if !ok || buf.dev != d {
		return nil, errors.New("the buffer belongs to another device")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if buf.mem.ptr == nil {
		return nil, errFreed
	}
	return buf.mem, nil
}
