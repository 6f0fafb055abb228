package hip

import (
	"fmt"

	"voxtral/hip/kernels"
	"voxtral/internal/device"
)

// linear queues a product, with the RMSNorm in front of it if norm is given.
func (p *planner) linear(o *device.Linear, norm *device.RMSNorm) error {
	w, err := p.weight(o.W)
	if err != nil {
		return err
	}
	if o.X.Rows > narrowRows {
		return p.wide(o, norm, w)
	}
	m, err := kernels.Weights("matvec", w.format, w.group)
	if err != nil {
		return err
	}
	in := p.input(o, norm)
	rows := narrow(o.X.Rows)
	kernel := fmt.Sprintf("matvec_m%d", rows)
	shape, lds, err := p.shape(m, kernel, rows, w)
	if err != nil {
		return err
	}
	a := params{}.ptr(p.e.ptr(o.Y), in.x, w.codes, w.scales, in.gain, in.ada, in.slot, p.e.ptr(o.Bias), p.e.ptr(o.Residual)).
		int(o.X.Rows, w.cols, w.rows, w.tiles(), shape.blocks, shape.piece).float(in.eps).int(w.half, int(o.Act))
	p.mayJoin(&phase{kind: phaseLinear, rows: o.X.Rows, weight: w, args: func(piece int) params {
		return params{}.ptr(p.e.ptr(o.Y), in.x, w.codes, w.scales, in.gain, in.ada, in.slot, p.e.ptr(o.Bias), p.e.ptr(o.Residual), 0, 0, 0, 0, 0).
			int(o.X.Rows, w.cols, w.rows, w.tiles(), piece).float(in.eps).int(w.half, int(o.Act), 0, 0, 0, 0, 0)
	}})
	return p.add(m, kernel, [3]int{shape.blocks, 1, 1}, mvWaves*p.wave(), lds, a)
}

// wide is a product of many rows: they are split into halves once, then multiplied.
func (p *planner) wide(o *device.Linear, norm *device.RMSNorm, w *weight) error {
	m, err := kernels.Weights("matmul", w.format, w.group)
	if err != nil {
		return err
	}
	in, rows := p.input(o, norm), o.X.Rows
	columns := (rows + mmRows - 1) / mmRows
	a := params{}.ptr(p.split, p.back, in.x, in.gain, in.ada, in.slot).int(rows, w.cols).float(in.eps)
	if err := p.add(m, "split_rows", [3]int{mmRows * columns, 1, 1}, mmWaves*p.wave(), 0, a); err != nil {
		return err
	}
	a = params{}.ptr(p.e.ptr(o.Y), p.split, p.back, w.codes, w.scales, p.e.ptr(o.Bias), p.e.ptr(o.Residual)).
		int(rows, w.cols, w.rows, w.tiles(), w.half, int(o.Act))
	return p.add(m, "matmul", [3]int{(w.tiles() + mmWaves - 1) / mmWaves, columns, 1}, mmWaves*p.wave(), 0, a)
}

// productInput is what a product reads, with or without a norm in front.
type productInput struct {
	x, gain, ada, slot Ptr
	eps                float32
}

func (p *planner) input(o *device.Linear, norm *device.RMSNorm) productInput {
	if norm == nil {
		return productInput{x: p.e.ptr(o.X)}
	}
	in := productInput{x: p.e.ptr(norm.X), gain: p.e.ptr(norm.Gain), ada: p.e.ptr(norm.Ada), eps: norm.Eps}
	if !norm.Ada.IsZero() {
		in.slot, _, _, _, _ = p.set(norm.Rows)
	}
	return in
}

// narrow is the kernel's row count for m rows.
func narrow(m int) int {
	n := 1
	for n < m {
		n *= 2
	}
	return n
}

// mvShape is how a matvec or head kernel is cut: blocks of the grid, slabs of activations in LDS at a time.
type mvShape struct{ blocks, piece int }

func (p *planner) shape(m kernels.Module, kernel string, rows int, w *weight) (s mvShape, lds int, err error) {
	s.piece, lds = p.piece(rows, w)
	f, err := p.function(m, kernel)
	if err != nil || f == nil {
		s.blocks = 1
		return s, lds, err
	}
	per, err := f.BlocksPerUnit(mvWaves*p.wave(), lds)
	if err != nil {
		return s, lds, err
	}
	if per == 0 { // the driver cannot tell
		per = 2
	}
	s.blocks = min(w.tiles(), per*p.e.dev.gpu.Units)
	return s, lds, nil
}

// piece is how many slabs of activations are in LDS at a time, and their bytes.
func (p *planner) piece(rows int, w *weight) (slabs, lds int) {
	cuda := p.e.dev.cuda()
	slabs = staged(w.format, rows, w.slabs(), cuda)
	return slabs, rows * slabs * stagedBytes(w.format, cuda)
}

// fuse queues what can be made of the ops from i on in fewer launches, and says of how many ops; 0 if nothing.
func (p *planner) fuse(i int) (ops int, err error) {
	all := p.e.prog.Ops
	at := i
	norm, isNorm := all[i].(*device.RMSNorm)
	if isNorm {
		at++
	}
	if at >= len(all) {
		return 0, nil
	}
	o, ok := all[at].(*device.Linear)
	if !ok {
		return 0, nil
	}
	if isNorm && (o.X != norm.Y || shares(norm.Y, o.Residual) || !unread(p.e.prog, norm.Y, at)) {
		return 0, nil
	}
	at++
	if at < len(all) && o.X.Rows <= narrowRows && o.Residual.IsZero() && o.Act == device.NoAct {
		switch next := all[at].(type) {
		case *device.RopeAppend:
			if next.QKV == o.Y && next.Rows.Rows == o.X.Rows {
				return at + 1 - i, p.qkv(o, norm, next)
			}
		case *device.Argmax:
			if next.X == o.Y && o.Bias.IsZero() && unread(p.e.prog, o.Y, at) {
				return at + 1 - i, p.head(o, norm, next)
			}
		}
	}
	if !isNorm {
		return 0, nil
	}
	return at - i, p.linear(o, norm)
}

func (p *planner) qkv(o *device.Linear, norm *device.RMSNorm, r *device.RopeAppend) error {
	w, err := p.weight(o.W)
	if err != nil {
		return err
	}
	m, err := kernels.Weights("matvec", w.format, w.group)
	if err != nil {
		return err
	}
	in, rows := p.input(o, norm), narrow(o.X.Rows)
	kernel := fmt.Sprintf("qkv_m%d", rows)
	shape, lds, err := p.shape(m, kernel, rows, w)
	if err != nil {
		return err
	}
	slot, pos, _, cos, sin := p.set(r.Rows)
	a := params{}.ptr(p.e.ptr(o.Y), in.x, w.codes, w.scales, in.gain, in.ada, slot, p.e.ptr(o.Bias), pos, cos, sin, p.e.mem[r.K.Mem], p.e.mem[r.V.Mem]).
		int(o.X.Rows, w.cols, w.rows, w.tiles(), shape.blocks, shape.piece).float(in.eps).
		int(r.Spec.QDim(), r.Spec.KVDim(), r.Spec.HeadDim, r.K.Cap, flag(r.K.Half))
	p.mayJoin(&phase{kind: phaseLinear, rows: o.X.Rows, weight: w, args: func(piece int) params {
		return params{}.ptr(p.e.ptr(o.Y), in.x, w.codes, w.scales, in.gain, in.ada, slot, p.e.ptr(o.Bias), 0, pos, cos, sin, p.e.mem[r.K.Mem], p.e.mem[r.V.Mem]).
			int(o.X.Rows, w.cols, w.rows, w.tiles(), piece).float(in.eps).
			int(0, actAppend, r.Spec.QDim(), r.Spec.KVDim(), r.Spec.HeadDim, r.K.Cap, flag(r.K.Half))
	}})
	return p.add(m, kernel, [3]int{shape.blocks, 1, 1}, mvWaves*p.wave(), lds, a)
}

func (p *planner) head(o *device.Linear, norm *device.RMSNorm, r *device.Argmax) error {
	w, err := p.weight(o.W)
	if err != nil {
		return err
	}
	m, err := kernels.Weights("head", w.format, w.group)
	if err != nil {
		return err
	}
	in, rows := p.input(o, norm), narrow(o.X.Rows)
	kernel := fmt.Sprintf("head_m%d", rows)
	shape, lds, err := p.shape(m, kernel, rows, w)
	if err != nil {
		return err
	}
	a := params{}.ptr(p.part, in.x, w.codes, w.scales, in.gain, in.ada, in.slot, 0).
		int(o.X.Rows, w.cols, w.rows, w.tiles(), shape.blocks, shape.piece).float(in.eps)
	if err := p.add(m, kernel, [3]int{shape.blocks, 1, 1}, mvWaves*p.wave(), lds, a); err != nil {
		return err
	}
	a = params{}.ptr(p.e.ptr(r.IDs), p.e.ptr(r.Top), p.part).int(shape.blocks)
	return p.add(kernels.Argmax(), "argmax_merge", [3]int{o.X.Rows, 1, 1}, rowThreads, 0, a)
}

// shares says whether two tensors have elements in common.
func shares(a, b device.Tensor) bool {
	return a.Mem != nil && a.Mem == b.Mem && a.Offset < b.Offset+b.Rows*b.Cols && b.Offset < a.Offset+a.Rows*a.Cols
}

// unread says that no op after i reads t before it is written anew, nor the host.
func unread(prog *device.Program, t device.Tensor, i int) bool {
	if t.Mem.Buf != nil {
		return false
	}
	for _, op := range prog.Ops[i+1:] {
		for _, in := range device.Inputs(op) {
			if shares(in, t) {
				return false
			}
		}
		if op.Out() == t {
			return true
		}
	}
	return true
}
