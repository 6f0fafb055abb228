package cpu

/*
#include "cpu.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"voxtral/internal/device"
)

// exec is a device.Exec: an array of C commands and the memory they work on.
type exec struct {
	dev      *Device
	prog     *device.Program
	bound    []*block // the buffer behind each prog.Mem, nil for scratch
	blocks   []*block // everything of this exec that C owns
	sets     []rowSet
	commands []C.struct_cpu_command // in C memory
	ops      []span                 // the commands of each op
	fast     span                   // the commands of the whole program, ops fused
	outs     [][]float32            // what each op produces, in C memory
	scratch  *C.float
	stride   C.int64_t // floats of scratch of a thread
	closed   bool
}

type span struct{ from, to int }

// rowSet is C's copy of a RowData.
type rowSet struct {
	c                *C.struct_cpu_rows
	slot, pos, token []int32
	cos, sin         []float32
}

func (e *exec) Run(s *device.Step) error {
	d := e.dev
	d.running.Lock()
	defer d.running.Unlock()
	if err := e.ready(s); err != nil {
		return fmt.Errorf("cpu: program %s: %w", e.prog.Name, err)
	}
	for i := range e.sets {
		e.sets[i].load(&s.Rows[i])
	}
	if s.Trace == nil && s.Profile == nil {
		e.run(e.fast)
		return nil
	}
	for i, op := range e.prog.Ops {
		began := time.Now()
		e.run(e.ops[i])
		if s.Profile != nil {
			s.Profile[i] += time.Since(began)
		}
		if s.Trace != nil {
			out := op.Out()
			s.Trace(op.Label(), out.Rows, out.Cols, e.outs[i])
		}
	}
	return nil
}

// ready says why the step cannot run.
func (e *exec) ready(s *device.Step) error {
	if e.closed {
		return errors.New("it is closed")
	}
	if err := e.alive(); err != nil {
		return err
	}
	return e.prog.CheckStep(s)
}

func (e *exec) run(s span) {
	if s.from < s.to {
		C.cpu_pool_run(e.dev.pool, &e.commands[s.from], C.int32_t(s.to-s.from), e.scratch, e.stride)
	}
}

func (s *rowSet) load(r *device.RowData) {
	copy(s.slot, r.Slot)
	copy(s.pos, r.Pos)
	copy(s.token, r.Token)
	copy(s.cos, r.Cos)
	copy(s.sin, r.Sin)
}

// Close frees the program's scratch memory.
func (e *exec) Close() error {
	e.dev.running.Lock()
	defer e.dev.running.Unlock()
	e.dev.mu.Lock()
	defer e.dev.mu.Unlock()
	e.closed = true
	for _, b := range e.blocks {
		e.dev.free(b)
	}
	return nil
}

// alive says whether the device and all bound buffers still are.
func (e *exec) alive() error {
	e.dev.mu.Lock()
	defer e.dev.mu.Unlock()
	if e.dev.closed {
		return errClosed
	}
	for i, b := range e.bound {
		if b != nil && b.ptr == nil {
			return fmt.Errorf("%s: %w", e.prog.Mem[i].Name, errFreed)
		}
	}
	return nil
}

// alloc is memory for n elements of T that lives as long as the exec.
func alloc[T any](e *exec, n int) ([]T, error) {
	if n == 0 {
		return nil, nil
	}
	var t T
	e.dev.mu.Lock()
	defer e.dev.mu.Unlock()
	b, err := e.dev.alloc(n * int(unsafe.Sizeof(t)))
	if err != nil {
		return nil, err
	}
	e.blocks = append(e.blocks, b)
	return unsafe.Slice((*T)(b.ptr), n), nil
}
