package cpu

/*
#include "cpu.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"voxtral/internal/device"
	"voxtral/sdpa"
)

// compiler collects the commands of a program. The first error sticks.
type compiler struct {
	*exec
	mem       map[*device.Memory]unsafe.Pointer
	list      []C.struct_cpu_command
	perWorker int            // floats of scratch
	prepared  unsafe.Pointer // activations of the Linear at hand
	err       error
}

// Compile checks the program, resolves its memory and lays out its commands.
func (d *Device) Compile(p *device.Program) (device.Exec, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	c := &compiler{exec: &exec{dev: d, prog: p}, mem: map[*device.Memory]unsafe.Pointer{}}
	if err := c.compile(); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("cpu: program %s: %w", p.Name, err)
	}
	return c.exec, nil
}

func (c *compiler) compile() error {
	for _, set := range c.prog.Sets {
		c.rowSet(set)
	}
	for _, m := range c.prog.Mem {
		if m.Buf == nil {
			c.mem[m] = unsafe.Pointer(unsafe.SliceData(must(c, m.Elems, alloc[float32])))
			c.bound = append(c.bound, nil)
			continue
		}
		b, err := c.dev.memory(m.Buf)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		c.mem[m] = b.ptr
		c.bound = append(c.bound, b)
	}
	c.prepared = unsafe.Pointer(unsafe.SliceData(must(c, c.preparedBytes(), alloc[byte])))
	for _, op := range c.prog.Ops {
		from := len(c.list)
		c.op(op)
		if c.err != nil {
			return fmt.Errorf("op %s: %w", op.Label(), c.err)
		}
		out := op.Out()
		c.ops = append(c.ops, span{from, len(c.list)})
		c.outs = append(c.outs, unsafe.Slice((*float32)(unsafe.Pointer(c.floats(out))), out.Rows*out.Cols))
	}
	if c.fuse(); c.err != nil {
		return c.err
	}
	c.commands = must(c, len(c.list), alloc[C.struct_cpu_command])
	copy(c.commands, c.list)
	c.stride = C.int64_t((c.perWorker + 15) / 16 * 16)
	c.scratch = unsafe.SliceData(must(c, int(c.stride)*c.dev.threads, alloc[C.float]))
	return c.err
}

// must allocates, or keeps the error and returns nothing.
func must[T any](c *compiler, n int, alloc func(*exec, int) ([]T, error)) []T {
	if c.err != nil {
		return nil
	}
	var mem []T
	mem, c.err = alloc(c.exec, n)
	return mem
}

func (c *compiler) rowSet(set *device.RowSet) {
	half := set.Rows * set.RotaryDim / 2
	head := must(c, 1, alloc[C.struct_cpu_rows])
	s := rowSet{
		slot: must(c, set.Rows, alloc[int32]), pos: must(c, set.Rows, alloc[int32]), token: must(c, set.Rows, alloc[int32]),
		cos: must(c, half, alloc[float32]), sin: must(c, half, alloc[float32]),
	}
	if c.err != nil {
		return
	}
	s.c = &head[0]
	s.c.slot = (*C.int32_t)(unsafe.SliceData(s.slot))
	s.c.pos = (*C.int32_t)(unsafe.SliceData(s.pos))
	s.c.token = (*C.int32_t)(unsafe.SliceData(s.token))
	s.c.cos = (*C.float)(unsafe.SliceData(s.cos))
	s.c.sin = (*C.float)(unsafe.SliceData(s.sin))
	c.sets = append(c.sets, s)
}

func (c *compiler) op(op device.Op) {
	k := c.dev.kernels
	switch o := op.(type) {
	case *device.EmbedAdd:
		w := c.weight(o.Table)
		if w == nil {
			return
		}
		c.scratchFor(pad(w.cols))
		add(c, C.cpu_kernel(C.cpu_embed_add), o.Rows.Rows, w.cols, func(a *C.struct_cpu_embed) (units, per *C.int32_t) {
			a.y, a.w, a.audio, a.rows, a.dequant = c.floats(o.Y), w.c, c.ring(o.Audio), c.rows(o.Rows), k.dequant
			return &a.units, &a.per
		})
	case *device.RMSNorm:
		add(c, k.rmsnorm, o.X.Rows, o.X.Cols, func(a *C.struct_cpu_rmsnorm) (units, per *C.int32_t) {
			a.y, a.x, a.gain, a.ada = c.floats(o.Y), c.floats(o.X), c.floats(o.Gain), c.floats(o.Ada)
			a.d, a.eps = C.int32_t(o.X.Cols), C.float(o.Eps)
			if !o.Ada.IsZero() {
				a.rows = c.rows(o.Rows)
			}
			return &a.units, &a.per
		})
	case *device.Linear:
		c.linear(fused{Linear: o})
	case *device.RopeAppend:
		add(c, C.cpu_kernel(C.cpu_rope_append), o.Rows.Rows, o.QKV.Cols, func(a *C.struct_cpu_attention) (units, per *C.int32_t) {
			c.attention(a, o.Spec, o.Rows, o.QKV, o.K, o.V)
			return &a.units, &a.per
		})
	case *device.Attention:
		take, ld := attentionShare(o)
		queries := min(queriesOfUnit, take*o.Spec.QHeads/o.Spec.KVHeads)
		c.scratchFor(roundUp(o.Spec.HeadDim, C.CPU_KEYS)*(2*C.CPU_KEYS+valuesAtOnce+queriesOfUnit) + queries*ld)
		add(c, k.attention, (o.Rows.Rows+take-1)/take*o.Spec.KVHeads, math.MaxInt32, func(a *C.struct_cpu_attention) (units, per *C.int32_t) {
			c.attention(a, o.Spec, o.Rows, o.QKV, o.K, o.V)
			a.y, a.m, a.take, a.ld = c.floats(o.Y), C.int32_t(o.Rows.Rows), C.int32_t(take), C.int64_t(ld)
			return &a.units, &a.per
		})
	case *device.ConvWindow:
		args := func(a *C.struct_cpu_conv) (units, per *C.int32_t) {
			a.y, a.x, a.tail, a.rows = c.floats(o.Y), c.floats(o.X), c.floats(o.Tail), c.rows(o.Rows)
			a.stride, a.c = C.int32_t(o.Stride), C.int32_t(o.X.Cols)
			return &a.units, &a.per
		}
		add(c, C.cpu_kernel(C.cpu_conv_window), o.Y.Rows, o.Y.Cols, args)
		add(c, C.cpu_kernel(C.cpu_conv_tail), o.Rows.Rows, 0, args)
	case *device.RingWrite:
		add(c, C.cpu_kernel(C.cpu_ring_copy), o.Rows.Rows, o.X.Cols, func(a *C.struct_cpu_ring_write) (units, per *C.int32_t) {
			a.x, a.to, a.rows = c.floats(o.X), c.ring(o.To), c.rows(o.Rows)
			return &a.units, &a.per
		})
	case *device.Argmax:
		add(c, C.cpu_kernel(C.cpu_argmax_rows), o.X.Rows, o.X.Cols, func(a *C.struct_cpu_argmax) (units, per *C.int32_t) {
			a.x, a.ids, a.top = c.floats(o.X), (*C.int32_t)(unsafe.Pointer(c.floats(o.IDs))), c.floats(o.Top)
			a.vocab = C.int32_t(o.X.Cols)
			return &a.units, &a.per
		})
	default:
		c.fail(fmt.Errorf("ops of type %T are not supported", op))
	}
}

func (c *compiler) attention(a *C.struct_cpu_attention, s sdpa.Spec, rows *device.RowSet, qkv device.Tensor, k, v device.Ring) {
	a.qkv, a.k, a.v, a.rows = c.floats(qkv), c.ring(k), c.ring(v), c.rows(rows)
	a.q_heads, a.kv_heads, a.head_dim = C.int32_t(s.QHeads), C.int32_t(s.KVHeads), C.int32_t(s.HeadDim)
	a.window, a.scale = C.int32_t(min(s.Window, k.Cap)), C.float(s.Scale())
}

// As attention.c has them.
const (
	queriesOfUnit = C.CPU_QUERIES
	valuesAtOnce  = C.CPU_VALUES
)

// attentionShare is how many rows a unit takes, and how much room the scores of one query need. More rows read the rings
// fewer times, but all their scores are to stay in a common second-level cache.
func attentionShare(o *device.Attention) (take, ld int) {
	const scores = 256 << 10
	window, group := min(o.Spec.Window, o.K.Cap), o.Spec.QHeads/o.Spec.KVHeads
	take = max(1, min(o.Rows.Rows, queriesOfUnit/group, scores/(group*window)))
	return take, roundUp(window+take, C.CPU_KEYS) + C.CPU_KEYS
}

// add appends a command over units of the given work each, in elements; work 0 means one chunk.
func add[T any](c *compiler, run C.cpu_kernel, units, work int, fill func(*T) (units, per *C.int32_t)) {
	per := units
	if work > 0 {
		per = fairShare(units, work, c.dev.threads)
	}
	addChunks(c, run, units, per, fill)
}

func addChunks[T any](c *compiler, run C.cpu_kernel, units, per int, fill func(*T) (units, per *C.int32_t)) {
	args := must(c, 1, alloc[T])
	if c.err != nil {
		return
	}
	u, p := fill(&args[0])
	*u, *p = C.int32_t(units), C.int32_t(per)
	c.list = append(c.list, C.struct_cpu_command{run: run, args: unsafe.Pointer(&args[0]), chunks: C.int32_t((units + per - 1) / per)})
}

// Chunks are small, so that a thread that lags holds up little, but worth the few hundred nanoseconds of handing out.
const (
	chunksPerThread = 16
	minChunkWork    = 16 << 10 // elements
)

// fairShare is how many units a chunk takes.
func fairShare(units, work, threads int) int {
	if threads == 1 {
		return units
	}
	return min(units, max(1, units/(threads*chunksPerThread), minChunkWork/work))
}

// pad rounds up to whole blocks of elements.
func pad(n int) int { return (n + C.CPU_BLOCK - 1) / C.CPU_BLOCK * C.CPU_BLOCK }

func (c *compiler) scratchFor(floats int) { c.perWorker = max(c.perWorker, floats) }

func (c *compiler) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// floats is the address of a tensor, nil if it was left out.
func (c *compiler) floats(t device.Tensor) *C.float {
	if t.IsZero() {
		return nil
	}
	return (*C.float)(unsafe.Add(c.address(t.Mem), 4*t.Offset))
}

func (c *compiler) ring(r device.Ring) C.struct_cpu_ring {
	ring := C.struct_cpu_ring{data: (*C.uint8_t)(c.address(r.Mem)), cap: C.int32_t(r.Cap), width: C.int32_t(r.Width)}
	if r.Half {
		ring.half = 1
	}
	return ring
}

func (c *compiler) address(m *device.Memory) unsafe.Pointer {
	p := c.mem[m]
	if p == nil {
		c.fail(fmt.Errorf("%s is not memory of this program", m.Name))
	}
	return p
}

func (c *compiler) rows(set *device.RowSet) *C.struct_cpu_rows {
	return c.sets[set.Index].c
}

func (c *compiler) weight(w device.Weight) *weight {
	own, ok := w.(*weight)
	if !ok || own.dev != c.dev {
		c.fail(errors.New("its weight belongs to another device"))
		return nil
	}
	return own
}
