package hip

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
	"unsafe"
)

// contextID gives each context of the process a number of its own.
var contextID atomic.Uint64

// nativeContext is a Context over a loaded library.
type nativeContext struct {
	d      *native
	gpu    GPU
	c      *C.struct_gpu_context // C's memory, so that a call need not search it for Go pointers; nil once closed
	memory map[Ptr]int64
	pinned map[*Pinned]struct{}
	loaded map[*module]struct{}
}

func openContext(d *native, gpu GPU) (*nativeContext, error) {
	c := (*C.struct_gpu_context)(C.calloc(1, C.sizeof_struct_gpu_context))
	x := &nativeContext{d: d, gpu: gpu, c: c, memory: map[Ptr]int64{}, pinned: map[*Pinned]struct{}{}, loaded: map[*module]struct{}{}}
	x.c.api = *d.api
	x.c.dialect = d.dialect
	x.c.index = C.int(gpu.Index)
	x.c.id = C.uint64_t(contextID.Add(1))
	x.c.shared_limit = C.int(gpu.LDSBytes)
	if err := d.check(C.gpu_open(x.c)); err != nil {
		C.free(unsafe.Pointer(c))
		return nil, fmt.Errorf("hip: opening GPU %d (%s): %w", gpu.Index, gpu.Name, err)
	}
	return x, nil
}

func (x *nativeContext) GPU() GPU { return x.gpu }

// do checks a call's result; the call is a closure so that a closed context makes none.
func (x *nativeContext) do(call func(c *C.struct_gpu_context) C.struct_gpu_result) error {
	if x.c == nil {
		return errClosed
	}
	return x.d.check(call(x.c))
}

func (x *nativeContext) Malloc(bytes int64) (Ptr, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("hip: allocating %d bytes: want at least 1", bytes)
	}
	var address C.uint64_t
	err := x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_alloc(c, C.size_t(bytes), &address) })
	if err != nil {
		return 0, x.outOfMemory(err, bytes, false)
	}
	x.memory[Ptr(address)] = bytes
	return Ptr(address), nil
}

// outOfMemory adds what a person needs to know where err is about memory.
func (x *nativeContext) outOfMemory(err error, need int64, pinned bool) error {
	var status *Error
	if !errors.As(err, &status) || status.Code != C.GPU_OUT_OF_MEMORY {
		return err
	}
	free, total, memErr := x.MemInfo()
	return &OutOfMemory{Device: x.gpu.Name, Need: need, Free: free, Total: total, Pinned: pinned, Err: errors.Join(err, memErr)}
}

func (x *nativeContext) Free(p Ptr) error {
	if _, ours := x.memory[p]; !ours {
		return fmt.Errorf("hip: freeing %#x, which is no live allocation of this context", uint64(p))
	}
	delete(x.memory, p)
	return x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_free(c, C.uint64_t(p)) })
}

func (x *nativeContext) MemInfo() (free, total int64, err error) {
	var f, t C.size_t
	err = x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_memory(c, &f, &t) })
	return int64(f), int64(t), err
}

func (x *nativeContext) HostAlloc(bytes int) (*Pinned, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("hip: allocating %d bytes of pinned memory: want at least 1", bytes)
	}
	memory, address := new(unsafe.Pointer), new(C.uint64_t)
	err := x.do(func(c *C.struct_gpu_context) C.struct_gpu_result {
		return C.gpu_host_alloc(c, C.size_t(bytes), memory, address)
	})
	if err != nil {
		return nil, x.outOfMemory(err, int64(bytes), true)
	}
	p := &Pinned{Bytes: unsafe.Slice((*byte)(*memory), bytes), Ptr: Ptr(*address)}
	x.pinned[p] = struct{}{}
	return p, nil
}

func (x *nativeContext) HostFree(p *Pinned) error {
	if _, ours := x.pinned[p]; !ours {
		return errForeign
	}
	delete(x.pinned, p)
	memory := unsafe.Pointer(unsafe.SliceData(p.Bytes))
	p.Bytes, p.Ptr = nil, 0
	return x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_host_free(c, memory) })
}

func (x *nativeContext) CopyIn(dst Ptr, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return x.do(func(c *C.struct_gpu_context) C.struct_gpu_result {
		return C.gpu_copy_in(c, C.uint64_t(dst), unsafe.Pointer(&src[0]), C.size_t(len(src)))
	})
}

func (x *nativeContext) CopyOut(dst []byte, src Ptr) error {
	if len(dst) == 0 {
		return nil
	}
	return x.do(func(c *C.struct_gpu_context) C.struct_gpu_result {
		return C.gpu_copy_out(c, unsafe.Pointer(&dst[0]), C.uint64_t(src), C.size_t(len(dst)))
	})
}

func (x *nativeContext) Copy(dst, src Ptr, bytes int64) error {
	if bytes < 0 {
		return fmt.Errorf("hip: copying %d bytes", bytes)
	}
	return x.do(func(c *C.struct_gpu_context) C.struct_gpu_result {
		return C.gpu_copy(c, C.uint64_t(dst), C.uint64_t(src), C.size_t(bytes))
	})
}

func (x *nativeContext) Memset(dst Ptr, v byte, bytes int64) error {
	if bytes < 0 {
		return fmt.Errorf("hip: filling %d bytes", bytes)
	}
	return x.do(func(c *C.struct_gpu_context) C.struct_gpu_result {
		return C.gpu_memset(c, C.uint64_t(dst), C.uchar(v), C.size_t(bytes))
	})
}

func (x *nativeContext) Compile(name, source string, options []string) (code []byte, log string, err error) {
	out, err := x.d.compiler.Compile(Source{Name: name, Text: source, Arch: x.gpu.Arch, Options: options})
	return out.Code, out.Log, err
}

// module is loaded code. A library may read the code until it is unloaded, and looks for a zero behind what it takes for
// text: hence the copy.
type module struct {
	x      *nativeContext
	handle C.gpu_module
	code   unsafe.Pointer
}

func (x *nativeContext) Load(code []byte) (Module, error) {
	if len(code) == 0 {
		return nil, errors.New("hip: loading a module: no code")
	}
	kept := C.malloc(C.size_t(len(code) + 1))
	copied := unsafe.Slice((*byte)(kept), len(code)+1)
	copied[copy(copied, code)] = 0
	handle := new(C.gpu_module)
	err := x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_module_load(c, kept, handle) })
	if err != nil {
		C.free(kept)
		return nil, fmt.Errorf("hip: loading a module of %d bytes: %w", len(code), err)
	}
	m := &module{x: x, handle: *handle, code: kept}
	x.loaded[m] = struct{}{}
	return m, nil
}

func (m *module) Unload() error {
	handle := m.handle
	if handle == nil {
		return errForeign
	}
	m.handle = nil
	delete(m.x.loaded, m)
	err := m.x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_module_unload(c, handle) })
	C.free(m.code)
	return err
}

// kernel is a Function.
type kernel struct {
	m    *module
	name string
	k    C.struct_gpu_kernel
}

func (m *module) Function(name string) (Function, error) {
	if m.handle == nil {
		return nil, errForeign
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	k := new(C.struct_gpu_kernel)
	err := m.x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_kernel_find(c, m.handle, text, k) })
	if err != nil {
		return nil, fmt.Errorf("hip: kernel %s: %w", name, err)
	}
	return &kernel{m: m, name: name, k: *k}, nil
}

func (f *kernel) Name() string { return f.name }

func (f *kernel) Resources() Resources {
	return Resources{MaxThreads: int(f.k.max_threads), Registers: int(f.k.registers), SharedBytes: int(f.k.shared_bytes), ScratchBytes: int(f.k.local_bytes)}
}

func (f *kernel) BlocksPerUnit(threads, sharedBytes int) (int, error) {
	if f.m.x.d.api.occupancy == nil {
		return 0, nil
	}
	var blocks C.int
	err := f.m.x.do(func(c *C.struct_gpu_context) C.struct_gpu_result {
		return C.gpu_occupancy(c, f.k.function, C.int(threads), C.size_t(sharedBytes), &blocks)
	})
	return int(blocks), err
}

func (x *nativeContext) Launch(function Function, grid, block [3]int, sharedBytes int, args []byte) error {
	return x.launch(function, grid, block, sharedBytes, func(f *kernel, sizes *C.uint) C.struct_gpu_result {
		return C.gpu_launch(x.c, f.k.function, sizes, C.uint(sharedBytes), unsafe.Pointer(unsafe.SliceData(args)), C.size_t(len(args)))
	})
}

func (x *nativeContext) LaunchTogether(function Function, grid, block [3]int, sharedBytes int, args []byte) error {
	if x.d.api.launch_together == nil {
		return fmt.Errorf("%w: %s lacks the call", ErrNotTogether, x.d.lib.path)
	}
	return x.launch(function, grid, block, sharedBytes, func(f *kernel, sizes *C.uint) C.struct_gpu_result {
		return C.gpu_launch_together(x.c, f.k.function, sizes, C.uint(sharedBytes), unsafe.Pointer(unsafe.SliceData(args)))
	})
}

func (x *nativeContext) launch(function Function, grid, block [3]int, sharedBytes int, call func(f *kernel, sizes *C.uint) C.struct_gpu_result) error {
	f, ok := function.(*kernel)
	if !ok || f.m.x != x || f.m.handle == nil {
		return errForeign
	}
	if x.c == nil {
		return errClosed
	}
	var sizes [6]C.uint
	for i := range 3 {
		if grid[i] < 1 || grid[i] > math.MaxInt32 || block[i] < 1 || block[i] > 1024 {
			return fmt.Errorf("hip: kernel %s: a grid of %v blocks of %v threads: want 1 or more of each, at most 1024 threads", f.name, grid, block)
		}
		sizes[i], sizes[3+i] = C.uint(grid[i]), C.uint(block[i])
	}
	if threads := block[0] * block[1] * block[2]; threads > int(f.k.max_threads) {
		return fmt.Errorf("hip: kernel %s: blocks of %d threads: it was compiled for at most %d", f.name, threads, f.k.max_threads)
	}
	if sharedBytes < 0 || int64(sharedBytes)+int64(f.k.shared_bytes) > x.gpu.LDSBytes {
		return fmt.Errorf("hip: kernel %s: %d bytes of shared memory beside its own %d: a block of this GPU may have %d", f.name, sharedBytes, f.k.shared_bytes, x.gpu.LDSBytes)
	}
	if err := x.d.check(call(f, &sizes[0])); err != nil {
		return fmt.Errorf("hip: kernel %s: %w", f.name, err)
	}
	return nil
}

func (x *nativeContext) Sync() error {
	return x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_sync(c) })
}

// graph is a Graph.
type graph struct {
	x     *nativeContext
	ready C.struct_gpu_graph_ready
}

func (x *nativeContext) BeginCapture() error {
	api := x.d.api
	if api.capture_begin == nil || api.capture_end == nil || api.graph_nodes == nil || api.graph_instantiate == nil ||
		api.graph_launch == nil || api.graph_destroy == nil || api.graph_exec_destroy == nil {
		return fmt.Errorf("%w: %s lacks %v", ErrNoGraphs, x.d.lib.path, x.d.lib.missing)
	}
	return x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_capture_begin(c) })
}

func (x *nativeContext) EndCapture() (Graph, error) {
	if x.d.api.capture_end == nil {
		return nil, ErrNoGraphs
	}
	ready := new(C.struct_gpu_graph_ready)
	if err := x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_capture_end(c, ready) }); err != nil {
		return nil, err
	}
	return &graph{x: x, ready: *ready}, nil
}

func (g *graph) Nodes() int { return int(g.ready.nodes) }

func (g *graph) Launch() error {
	if g.ready.exec == nil {
		return errForeign
	}
	return g.x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_graph_launch(c, g.ready.exec) })
}

func (g *graph) Close() error {
	exec := g.ready.exec
	if exec == nil {
		return errForeign
	}
	g.ready.exec = nil
	return g.x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_graph_free(c, exec) })
}

// event is an Event.
type event struct {
	x      *nativeContext
	handle C.gpu_event
}

func (x *nativeContext) NewEvent() (Event, error) {
	handle := new(C.gpu_event)
	if err := x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_event_create(c, handle) }); err != nil {
		return nil, err
	}
	return &event{x: x, handle: *handle}, nil
}

func (e *event) Record() error {
	if e.handle == nil {
		return errForeign
	}
	return e.x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_event_record(c, e.handle) })
}

func (e *event) Since(start Event) (time.Duration, error) {
	from, ok := start.(*event)
	if !ok || from.x != e.x || from.handle == nil || e.handle == nil {
		return 0, errForeign
	}
	var ms C.float
	err := e.x.do(func(c *C.struct_gpu_context) C.struct_gpu_result {
		return C.gpu_event_elapsed(c, from.handle, e.handle, &ms)
	})
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

func (e *event) Close() error {
	handle := e.handle
	if handle == nil {
		return errForeign
	}
	e.handle = nil
	return e.x.do(func(c *C.struct_gpu_context) C.struct_gpu_result { return C.gpu_event_free(c, handle) })
}

func (x *nativeContext) Close() error {
	if x.c == nil {
		return errClosed
	}
	err := x.Sync()
	for m := range x.loaded {
		err = errors.Join(err, m.Unload())
	}
	for p := range x.memory {
		err = errors.Join(err, x.Free(p))
	}
	for p := range x.pinned {
		err = errors.Join(err, x.HostFree(p))
	}
	err = errors.Join(err, x.d.check(C.gpu_close(x.c)))
	C.free(unsafe.Pointer(x.c))
	x.c = nil
	return err
}
