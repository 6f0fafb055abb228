package hip

import (
	"encoding/binary"
	"fmt"
	"math"
	goruntime "runtime"
	"time"

	"voxtral/internal/device"
)

// execution is a compiled program: launches for every op, and fewer for a run that nobody watches, as a graph where the driver
// can record one. Graph and launches do the same work in the same order and give the same bits.
type execution struct {
	dev     *Device
	prog    *device.Program
	mem     map[*device.Memory]Ptr
	scratch []Ptr
	held    int64 // bytes of scratch
	rows    rowMemory
	plain   [][]launch // by op
	fused   []launch
	joined  []launch // fused launches with most of them in common kernels; nil: not so
	graph   Graph
	eager   bool // a graph could not be recorded
	ran     int
	lost    error // what made the state worthless
	closed  bool
}

// launch is one kernel with its parameters.
type launch struct {
	f           Function
	grid, block [3]int
	lds         int // dynamic, bytes
	args        params
	together    bool // all blocks run at once
}

// params are kernel parameters in order, each at its natural alignment.
type params []byte

func (a params) ptr(p ...Ptr) params {
	for _, v := range p {
		for len(a)%8 != 0 {
			a = append(a, 0)
		}
		a = binary.LittleEndian.AppendUint64(a, uint64(v))
	}
	return a
}

func (a params) int(n ...int) params {
	for _, v := range n {
		a = binary.LittleEndian.AppendUint32(a, uint32(int32(v)))
	}
	return a
}

func (a params) float(v float32) params {
	return binary.LittleEndian.AppendUint32(a, math.Float32bits(v))
}

// rowMemory holds a step's row data: written to pinned memory by the host, copied to the device by the first command.
type rowMemory struct {
	pinned *Pinned
	ptr    Ptr
	sets   []rowSet
	turn   int // where the number of the run lies, in bytes
	stuck  int // where a kernel says that its blocks did not meet, in the pinned memory
}

// rowSet is where a set's arrays begin, in bytes.
type rowSet struct{ slot, pos, token, cos, sin int }

func layRows(p *device.Program) (r rowMemory, bytes int) {
	take := func(elems int) int {
		at := bytes
		bytes += (4*elems + 15) / 16 * 16
		return at
	}
	for _, s := range p.Sets {
		half := s.Rows * s.RotaryDim / 2
		r.sets = append(r.sets, rowSet{slot: take(s.Rows), pos: take(s.Rows), token: take(s.Rows), cos: take(half), sin: take(half)})
	}
	r.turn, r.stuck = take(1), take(1)
	return r, bytes
}

func (r *rowMemory) load(s *device.Step) {
	for i, at := range r.sets {
		d := &s.Rows[i]
		copy(r.pinned.Bytes[at.slot:], device.I32Bytes(d.Slot))
		copy(r.pinned.Bytes[at.pos:], device.I32Bytes(d.Pos))
		copy(r.pinned.Bytes[at.token:], device.I32Bytes(d.Token))
		copy(r.pinned.Bytes[at.cos:], device.F32Bytes(d.Cos))
		copy(r.pinned.Bytes[at.sin:], device.F32Bytes(d.Sin))
	}
}

// Compile checks the program, compiles its kernels and allocates its scratch memory.
func (d *Device) Compile(p *device.Program) (device.Exec, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("hip: %w", err)
	}
	e := &execution{dev: d, prog: p, mem: map[*device.Memory]Ptr{}}
	for _, m := range p.Mem {
		if m.Buf != nil {
			b, err := d.own(m.Buf)
			if err != nil {
				return nil, fmt.Errorf("hip: program %s: %s: %w", p.Name, m.Name, err)
			}
			e.mem[m] = b.ptr
		}
	}
	err := d.locked(func(x Context) error { return e.build(x) })
	if err != nil {
		err = fmt.Errorf("hip: program %s: %w", p.Name, err)
		if closeErr := e.Close(); closeErr != nil {
			return nil, fmt.Errorf("%w (and %w)", err, closeErr)
		}
		return nil, err
	}
	return e, nil
}

func (e *execution) build(x Context) (err error) {
	for _, m := range e.prog.Mem {
		if m.Buf == nil {
			if e.mem[m], err = e.malloc(x, 4*m.Elems); err != nil {
				return err
			}
		}
	}
	var bytes int
	e.rows, bytes = layRows(e.prog)
	if e.rows.pinned, err = x.HostAlloc(bytes); err != nil {
		return err
	}
	if e.rows.ptr, err = e.malloc(x, bytes); err != nil {
		return err
	}
	pl := newPlanner(e, x)
	if err := pl.collect(); err != nil {
		return err
	}
	if err := e.dev.prepare(pl.modules); err != nil {
		return err
	}
	e.plain, e.fused, err = pl.lay()
	e.joined = pl.together
	return err
}

// malloc is scratch of the exec.
func (e *execution) malloc(x Context, bytes int) (Ptr, error) {
	p, err := x.Malloc(int64(bytes))
	if err == nil {
		e.scratch = append(e.scratch, p)
		e.held += int64(bytes)
		e.dev.used.Scratch += int64(bytes)
	}
	return p, err
}

// Run executes the program and waits for it. An error of the GPU is the run's error, never a result.
func (e *execution) Run(s *device.Step) error {
	if err := e.prog.CheckStep(s); err != nil {
		return fmt.Errorf("hip: %w", err)
	}
	err := e.dev.locked(func(x Context) (err error) {
		if e.closed {
			return fmt.Errorf("it is closed")
		}
		if e.lost != nil {
			return e.lost
		}
		e.rows.load(s)
		if s.Trace != nil || s.Profile != nil {
			return e.watched(x, s)
		}
		if e.graph == nil && !e.eager && e.ran > 0 { // the first run warms everything up
			e.record(x)
		}
		e.ran++
		binary.LittleEndian.PutUint32(e.rows.pinned.Bytes[e.rows.turn:], uint32(e.ran))
		if e.graph != nil {
			err = e.graph.Launch()
		} else {
			err = e.queue(x, e.quickest())
		}
		if err == nil {
			err = x.Sync()
		}
		if err == nil && binary.LittleEndian.Uint32(e.rows.pinned.Bytes[e.rows.stuck:]) != 0 {
			e.lost, err = errStuck, errStuck
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("hip: program %s: %w", e.prog.Name, err)
	}
	return nil
}

// quickest is the shortest list of launches that does a run.
func (e *execution) quickest() []launch {
	if e.joined != nil {
		return e.joined
	}
	return e.fused
}

func (e *execution) queue(x Context, list []launch) error {
	if err := x.Copy(e.rows.ptr, e.rows.pinned.Ptr, int64(len(e.rows.pinned.Bytes))); err != nil {
		return err
	}
	return launchAll(x, list)
}

func launchAll(x Context, list []launch) error {
	for i := range list {
		l := &list[i]
		start := x.Launch
		if l.together {
			start = x.LaunchTogether
		}
		if err := start(l.f, l.grid, l.block, l.lds, l.args); err != nil {
			return fmt.Errorf("%s: %w", l.f.Name(), err)
		}
	}
	return nil
}

// record captures the fused launches. When that fails the exec goes on without a graph and the device keeps the reason.
func (e *execution) record(x Context) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	err := x.BeginCapture()
	if err == nil {
		err = e.queue(x, e.quickest())
		graph, endErr := x.EndCapture()
		if err == nil {
			err = endErr
		}
		if err == nil {
			e.graph = graph
			return
		}
	}
	e.eager = true
	e.dev.warnings = append(e.dev.warnings, fmt.Sprintf("program %s runs without a graph: %v", e.prog.Name, err))
}

// watched runs op by op, unfused.
func (e *execution) watched(x Context, s *device.Step) error {
	if err := e.queue(x, nil); err != nil {
		return err
	}
	for i, op := range e.prog.Ops {
		began := time.Now()
		if err := launchAll(x, e.plain[i]); err != nil {
			return fmt.Errorf("op %s: %w", op.Label(), err)
		}
		if err := x.Sync(); err != nil {
			return fmt.Errorf("op %s: %w", op.Label(), err)
		}
		if s.Profile != nil {
			s.Profile[i] += time.Since(began)
		}
		if s.Trace != nil {
			t := op.Out()
			out := make([]float32, t.Rows*t.Cols)
			if err := x.CopyOut(device.F32Bytes(out), e.ptr(t)); err != nil {
				return fmt.Errorf("op %s: %w", op.Label(), err)
			}
			s.Trace(op.Label(), t.Rows, t.Cols, out)
		}
	}
	return nil
}

// ptr is where a tensor begins; 0 for one left out.
func (e *execution) ptr(t device.Tensor) Ptr {
	if t.IsZero() {
		return 0
	}
	return e.mem[t.Mem] + Ptr(4*t.Offset)
}

// Close frees the program's scratch memory.
func (e *execution) Close() error {
	return e.dev.locked(func(x Context) error {
		if e.closed {
			return nil
		}
		e.closed = true
		var first error
		keep := func(err error) {
			if first == nil {
				first = err
			}
		}
		if e.graph != nil {
			keep(e.graph.Close())
		}
		for _, p := range e.scratch {
			keep(x.Free(p))
		}
		e.dev.used.Scratch -= e.held
		if e.rows.pinned != nil {
			keep(x.HostFree(e.rows.pinned))
		}
		return first
	})
}
