package cpu

/*
#include "cpu.h"
*/
import "C"

import (
	"unsafe"

	"voxtral/internal/device"
)

// fused is a Linear with what it takes over from its neighbours.
type fused struct {
	*device.Linear
	norm   *device.RMSNorm // makes X
	argmax *device.Argmax  // reads Y
}

func (c *compiler) linear(o fused) {
	w := c.weight(o.W)
	if w == nil {
		return
	}
	m, k := o.X.Rows, w.cols
	kernel, strip := c.dev.kernels.linear, C.CPU_TILE
	packed := c.packed(w)
	if packed != nil {
		kernel, strip = packed.linear, int(packed.strip)
		columns := (k + int(packed.columns) - 1) / int(packed.columns)
		c.scratchFor(int(packed.scratch) + roundUp(m, int(packed.rows))*int(packed.row_scratch) + columns*int(packed.column_scratch))
		c.prepare(o, packed, w)
	}
	if o.Act == device.SwiGLU {
		strip /= 2
	}
	units := (o.Y.Cols + strip - 1) / strip
	var perChunk int
	if packed != nil {
		perChunk = longShare(units, c.dev.threads)
	} else {
		perChunk = min(fairShare(units, k*m*C.CPU_TILE, c.dev.threads), panelTiles(k))
		c.scratchFor(perChunk * C.CPU_TILE * pad(k))
	}
	chunks := (units + perChunk - 1) / perChunk
	var tops []C.struct_cpu_top
	if o.argmax != nil {
		tops = must(c, chunks*m, alloc[C.struct_cpu_top])
	}
	addChunks(c, kernel, units, perChunk, func(a *C.struct_cpu_linear) (units, per *C.int32_t) {
		a.y, a.x, a.w, a.bias, a.residual = c.floats(o.Y), c.floats(o.X), w.c, c.floats(o.Bias), c.floats(o.Residual)
		a.prepared, a.top = c.prepared, unsafe.SliceData(tops)
		a.m, a.outputs, a.act = C.int32_t(m), C.int32_t(o.Y.Cols), C.int32_t(o.Act)
		return &a.units, &a.per
	})
	if o.argmax != nil {
		add(c, C.cpu_kernel(C.cpu_argmax_merge), m, 0, func(a *C.struct_cpu_argmax) (units, per *C.int32_t) {
			a.ids, a.top = (*C.int32_t)(unsafe.Pointer(c.floats(o.argmax.IDs))), c.floats(o.argmax.Top)
			a.tops, a.chunks = unsafe.SliceData(tops), C.int32_t(chunks)
			return &a.units, &a.per
		})
	}
}

// packed is how the device multiplies with a weight whose activations it rounds, nil if it does not.
func (c *compiler) packed(w *weight) *C.struct_cpu_packed {
	if !w.packed || c.dev.kernels.packed.linear == nil {
		return nil
	}
	return &c.dev.kernels.packed
}

// prepare rounds and lays out the activations.
func (c *compiler) prepare(o fused, packed *C.struct_cpu_packed, w *weight) {
	x := o.X
	if o.norm != nil {
		x = o.norm.X
	}
	rows := int(packed.rows)
	add(c, packed.prepare, (x.Rows+rows-1)/rows, rows*x.Cols, func(a *C.struct_cpu_prepare) (units, per *C.int32_t) {
		a.prepared, a.x = c.prepared, c.floats(x)
		a.m, a.k, a.format = C.int32_t(x.Rows), C.int32_t(x.Cols), w.c.parts.format
		if n := o.norm; n != nil {
			a.gain, a.ada, a.eps = c.floats(n.Gain), c.floats(n.Ada), C.float(n.Eps)
			if !n.Ada.IsZero() {
				a.rows = c.rows(n.Rows)
			}
		}
		return &a.units, &a.per
	})
}

// preparedBytes is the room for the prepared activations of any Linear of the program.
func (c *compiler) preparedBytes() int {
	most := 0
	for _, op := range c.prog.Ops {
		o, ok := op.(*device.Linear)
		if !ok {
			continue
		}
		w, ok := o.W.(*weight)
		if !ok || c.packed(w) == nil {
			continue
		}
		p := c.packed(w)
		rows, columns := roundUp(o.X.Rows, int(p.rows)), roundUp(w.cols, int(p.columns))
		most = max(most, rows/int(p.rows)*(columns/int(p.columns))*int(p.bytes))
	}
	return most
}

// longShare is how many strips a chunk takes: long runs, because the strips of one are fetched while the one before is
// worked on.
func longShare(strips, threads int) int {
	if threads == 1 {
		return strips
	}
	const chunksPerThread = 8
	return max(1, strips/(threads*chunksPerThread))
}

// panelTiles is how many tiles of weights to unpack at a time, about half of a common second-level cache.
func panelTiles(cols int) int {
	const bytes = 256 << 10
	return max(1, bytes/(4*C.CPU_TILE*pad(cols)))
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
