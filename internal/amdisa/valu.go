package amdisa

import (
	"fmt"
	"math/bits"
)

// The vector ALU's engine: sources with their modifiers, one pass over the lanes, a masked write.

// laneOp computes one lane; vecOp computes len(d) lanes, d may be a source.
type (
	laneOp func(a, b, c uint32) uint32
	vecOp  func(d, a, b, c []uint32)
)

// vectorOp is a lane-wise instruction with 32-bit (or narrower) sources and result.
type vectorOp struct {
	n        int // sources
	in, out  format
	inPlace  bool // the destination is also the last source
	integers bool // clamp saturates, by the function given
	saturate laneOp
	run      vecOp
}

var vectorOps = map[string]*vectorOp{}

func lift(f laneOp) vecOp {
	return func(d, a, b, c []uint32) {
		a, b, c = a[:len(d)], b[:len(d)], c[:len(d)]
		for i := range d {
			d[i] = f(a[i], b[i], c[i])
		}
	}
}

// vector registers a lane-wise operation under its names.
func vector(op vectorOp, names ...string) {
	for _, n := range names {
		v := op
		vectorOps[n] = &v
		register(buildVector, n)
	}
}

func bitsOp(n int, f laneOp, names ...string) { vector(vectorOp{n: n, run: lift(f)}, names...) }
func floatOp(n int, f laneOp, names ...string) {
	vector(vectorOp{n: n, in: fmtFloat, out: fmtFloat, run: lift(f)}, names...)
}
func halfOp(n int, f laneOp, names ...string) {
	vector(vectorOp{n: n, in: fmtHalf, out: fmtHalf, run: lift(f)}, names...)
}

// fetch returns a source's lanes, in buf where they are not a register's own.
type fetch func(w *wave, buf *lanes) *lanes

// fetcher compiles source i of an instruction.
func (in *inst) fetcher(p *Program, i int, o operand, t format) fetch {
	base := bareFetch(o, t)
	lanesOf := p.wave
	if i == 0 && in.dpp != nil {
		d, from := in.dpp, base
		base = func(w *wave, buf *lanes) *lanes {
			var moved lanes
			d.move(moved[:lanesOf], from(w, buf)[:lanesOf], w.exec())
			*buf = moved
			return buf
		}
	}
	f := in.adjust(i, &o, t)
	if f == nil {
		return base
	}
	return func(w *wave, buf *lanes) *lanes {
		src := base(w, buf)
		for l := range lanesOf {
			buf[l] = f(src[l])
		}
		return buf
	}
}

func bareFetch(o operand, t format) fetch {
	switch o.kind {
	case vectorReg:
		return func(w *wave, _ *lanes) *lanes { return &w.v[o.reg] }
	case integer, floating:
		c := new(lanes)
		if t == fmtPacked {
			t = fmtHalf
		}
		fill(c, o.constant32(t))
		return func(*wave, *lanes) *lanes { return c }
	}
	return func(w *wave, buf *lanes) *lanes {
		fill(buf, w.scalar(&o))
		return buf
	}
}

func fill(d *lanes, v uint32) {
	for i := range 8 {
		d[i] = v
	}
	copy(d[8:16], d[:8])
	copy(d[16:32], d[:16])
	copy(d[32:64], d[:32])
}

// adjust is what source i's modifiers do to each lane, or nil.
func (in *inst) adjust(i int, o *operand, t format) func(uint32) uint32 {
	sign := uint32(1 << 31)
	switch t {
	case fmtHalf:
		sign = 1 << 15
	case fmtPacked:
		return in.adjustPacked(i)
	}
	var sel func(uint32) uint32
	switch {
	case in.sdwa != nil && i < 2 && (in.sdwa.src[i].width != 32 || o.sext):
		s, signed := in.sdwa.src[i], o.sext
		sel = func(v uint32) uint32 { return s.get(v, signed) }
	case t == fmtHalf && in.opSel[i] == 1:
		sel = func(v uint32) uint32 { return v >> 16 }
	}
	if (t != fmtFloat && t != fmtHalf) || !o.neg && !o.abs {
		return sel
	}
	var and, xor = ^uint32(0), uint32(0)
	if o.abs {
		and = ^sign
	}
	if o.neg {
		xor = sign
	}
	if sel == nil {
		return func(v uint32) uint32 { return v&and ^ xor }
	}
	return func(v uint32) uint32 { return sel(v)&and ^ xor }
}

// adjustPacked applies op_sel, op_sel_hi, neg_lo and neg_hi, so that the operation sees its low and high halves in place.
func (in *inst) adjustPacked(i int) func(uint32) uint32 {
	lo, hi := uint(16*in.opSel[i]), uint(16*in.opSelHi[i])
	neg := uint32(in.negLo[i])<<15 | uint32(in.negHi[i])<<31
	if lo == 0 && hi == 16 && neg == 0 {
		return nil
	}
	return func(v uint32) uint32 { return (v>>lo&0xffff | v>>hi<<16) ^ neg }
}

// compute is a compiled vector instruction up to its write: results into out, and the lanes to write.
type compute func(w *wave, out *lanes) uint64

func full(m uint64, size int) bool {
	return m == ^uint64(0) || size == 32 && m == 1<<32-1
}

// compile builds the computing half of a lane-wise instruction.
func (op *vectorOp) compile(p *Program, in *inst) (compute, error) {
	need := op.n + 1
	if op.inPlace {
		need = op.n
	}
	if err := in.want(need); err != nil {
		return nil, err
	}
	if in.ops[0].kind != vectorReg {
		return nil, fmt.Errorf("%s: destination %s", in.name, in.ops[0].text)
	}
	var src [3]fetch
	for i := range op.n {
		o := in.source(i + 1)
		if op.inPlace && i == op.n-1 {
			o = in.ops[0]
		}
		src[i] = in.fetcher(p, i, o, op.in)
	}
	run, size := op.run, p.wave
	if in.clamp || in.scale != 1 {
		f, err := op.output(in)
		if err != nil {
			return nil, err
		}
		inner := run
		run = func(d, a, b, c []uint32) {
			inner(d, a, b, c)
			for i := range d {
				d[i] = f(d[i])
			}
		}
		if op.saturate != nil {
			run = lift(op.saturate)
		}
	}
	dpp := in.dpp
	return func(w *wave, out *lanes) uint64 {
		m := w.exec()
		if dpp != nil {
			m = dpp.writes(m)
		}
		a := src[0](w, &w.tmp[0])[:size]
		b, c := a, a
		if src[1] != nil {
			b = src[1](w, &w.tmp[1])[:size]
		}
		if src[2] != nil {
			c = src[2](w, &w.tmp[2])[:size]
		}
		if bits.OnesCount64(m) > 4 {
			run(out[:size], a, b, c)
			return m
		}
		for t := m; t != 0; t &= t - 1 {
			l := bits.TrailingZeros64(t) & 63
			run(out[l:l+1], a[l:l+1], b[l:l+1], c[l:l+1])
		}
		return m
	}, nil
}

// output is the result modifier: scaling, then clamping to [0, 1].
func (op *vectorOp) output(in *inst) (func(uint32) uint32, error) {
	scale, clamp := in.scale, in.clamp
	one := func(f float32) float32 {
		f *= scale
		if clamp {
			f = clampUnit(f)
		}
		return f
	}
	switch {
	case op.saturate != nil:
		return func(v uint32) uint32 { return v }, nil
	case op.out == fmtFloat:
		return func(v uint32) uint32 { return b32(one(f32(v))) }, nil
	case op.out == fmtHalf && op.in != fmtBits:
		return func(v uint32) uint32 { return toHalf(float64(one(half(v)))) }, nil
	case op.out == fmtPacked && !op.integers:
		return func(v uint32) uint32 {
			return toHalf(float64(one(half(v)))) | toHalf(float64(one(half(v>>16))))<<16
		}, nil
	}
	return nil, fmt.Errorf("%s: clamp is not emulated here", in.name)
}

// commit writes out's lanes m to the destination; 16-bit results keep or clear the other half as the generation does.
func (in *inst) commit(p *Program, t format) func(w *wave, out *lanes, m uint64) {
	dst, size := in.ops[0].reg, p.wave
	var merge func(old, v uint32) uint32
	switch {
	case in.sdwa != nil:
		merge = in.sdwa.put
	case t == fmtHalf && in.opSel[3] == 1:
		merge = func(old, v uint32) uint32 { return old&0xffff | v<<16 }
	case t == fmtHalf && p.gfx >= 0x1000:
		merge = func(old, v uint32) uint32 { return old&^0xffff | v&0xffff }
	case t == fmtHalf:
		merge = func(_, v uint32) uint32 { return v & 0xffff }
	}
	return func(w *wave, out *lanes, m uint64) {
		d := &w.v[dst]
		switch {
		case merge != nil:
			for t := m; t != 0; t &= t - 1 {
				l := bits.TrailingZeros64(t) & 63
				d[l] = merge(d[l], out[l])
			}
		case full(m, size):
			copy(d[:size], out[:size])
		default:
			for t := m; t != 0; t &= t - 1 {
				l := bits.TrailingZeros64(t) & 63
				d[l] = out[l]
			}
		}
	}
}

func buildVector(p *Program, in *inst) (func(*wave), error) {
	op := vectorOps[in.name]
	c, err := op.compile(p, in)
	if err != nil {
		return nil, err
	}
	return finish(p, in, c, op.out), nil
}

// finish joins compute and commit; where every lane is written whole, the result goes straight to the register.
func finish(p *Program, in *inst, c compute, t format) func(*wave) {
	commit := in.commit(p, t)
	dst, size := in.ops[0].reg, p.wave
	direct := t != fmtHalf && in.sdwa == nil && in.dpp == nil
	return func(w *wave) {
		if direct && full(w.exec(), size) {
			c(w, &w.v[dst])
			return
		}
		m := c(w, &w.tmp[3])
		commit(w, &w.tmp[3], m)
	}
}

// buildDual builds a dual-issue instruction: both halves read before either writes.
func buildDual(p *Program, in *inst) (func(*wave), error) {
	part := func(in *inst) (compute, func(*wave, *lanes, uint64), error) {
		if in.name == "v_dual_cndmask_b32" {
			c, err := compileSelect(p, in)
			return c, in.commit(p, fmtBits), err
		}
		op := vectorOps[in.name]
		if op == nil {
			return nil, nil, fmt.Errorf("unknown instruction %s", in.name)
		}
		c, err := op.compile(p, in)
		if err != nil {
			return nil, nil, err
		}
		return c, in.commit(p, fmtBits), in.leftover()
	}
	x, putX, err := part(in)
	if err != nil {
		return nil, err
	}
	y, putY, err := part(in.second)
	if err != nil {
		return nil, err
	}
	return func(w *wave) {
		mx, my := x(w, &w.tmp[3]), y(w, &w.tmp[4])
		putX(w, &w.tmp[3], mx)
		putY(w, &w.tmp[4], my)
	}, nil
}

func init() { register(buildSelect, "v_cndmask_b32", "v_dual_cndmask_b32") }

// compileSelect builds v_cndmask: the second source where the mask's bit is set, else the first.
func compileSelect(p *Program, in *inst) (compute, error) {
	if err := in.want(3); err != nil {
		return nil, err
	}
	mask := vcc
	if len(in.ops) > 3 {
		mask = in.ops[3]
	}
	a, b := in.fetcher(p, 0, in.ops[1], fmtFloat), in.fetcher(p, 1, in.ops[2], fmtFloat)
	size, dpp := p.wave, in.dpp
	return func(w *wave, out *lanes) uint64 {
		m := w.mask(&mask)
		x, y := a(w, &w.tmp[0])[:size], b(w, &w.tmp[1])[:size]
		for l := range out[:size] {
			v := x[l]
			if m>>l&1 == 1 {
				v = y[l]
			}
			out[l] = v
		}
		if dpp != nil {
			return dpp.writes(w.exec())
		}
		return w.exec()
	}, nil
}

func buildSelect(p *Program, in *inst) (func(*wave), error) {
	c, err := compileSelect(p, in)
	if err != nil {
		return nil, err
	}
	return finish(p, in, c, fmtBits), nil
}
