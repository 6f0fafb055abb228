package hip

import (
	"fmt"

	"voxtral/hip/kernels"
	"voxtral/internal/device"
)

const (
	narrowRows = 8       // rows that matvec and head take
	rowThreads = 256     // of a block of the row kernels
	mvWaves    = mvParts // of a block of matvec, head and attention
	mmWaves    = 4       // of a block of matmul
	mmRows     = 32      // activation rows of a block of matmul
)

// planner turns ops into launches. It goes over the program twice: first to collect the modules, then to lay the launches
// with the loaded functions.
type planner struct {
	e       *execution
	x       Context
	modules map[string]kernels.Module
	laying  bool
	list    []launch
	split   Ptr // of matmul: activations in halves
	back    Ptr // and the factor of each row
	part    Ptr // of split-K attention and of the head
	tickets Ptr // of split-K attention: 0 between steps
	// the fused launches that may be phases of a common kernel, by their index in list, and the launches with such kernels
	phased   map[int]*phase
	together []launch
}

func newPlanner(e *execution, x Context) *planner {
	return &planner{e: e, x: x, modules: map[string]kernels.Module{}}
}

func (p *planner) collect() error {
	if _, _, err := p.walk(); err != nil {
		return err
	}
	return p.allocate()
}

func (p *planner) lay() (plain [][]launch, fused []launch, err error) {
	p.laying = true
	return p.walk()
}

func (p *planner) walk() (plain [][]launch, fused []launch, err error) {
	for _, op := range p.e.prog.Ops {
		p.list = nil
		if err := p.op(op); err != nil {
			return nil, nil, fmt.Errorf("op %s: %w", op.Label(), err)
		}
		plain = append(plain, p.list)
	}
	p.list, p.phased = nil, nil
	ops := p.e.prog.Ops
	for i := 0; i < len(ops); {
		n, err := p.fuse(i)
		if err != nil {
			return nil, nil, fmt.Errorf("op %s: %w", ops[i].Label(), err)
		}
		if n == 0 {
			if err := p.op(ops[i]); err != nil {
				return nil, nil, fmt.Errorf("op %s: %w", ops[i].Label(), err)
			}
			n = 1
		}
		i += n
	}
	fused = p.list
	p.together, err = p.join(fused)
	return plain, fused, err
}

// allocate takes the scratch that kernels hand to each other within an op.
func (p *planner) allocate() (err error) {
	split, back, part, tickets := 0, 0, 0, 0
	for _, op := range p.e.prog.Ops {
		switch o := op.(type) {
		case *device.Linear:
			w, err := p.weight(o.W)
			if err != nil {
				return err
			}
			columns := (o.X.Rows + mmRows - 1) / mmRows
			split = max(split, 64*columns*w.slabs()*(2*32*slabGroups(w.format)+padded(p.e.dev.cuda())))
			back = max(back, 4*mmRows*columns)
			part = max(part, 16*o.X.Rows*w.tiles())
		case *device.Attention:
			if a := p.e.dev.attentionOf(o.Spec); a.Splits > 1 {
				part = max(part, 4*o.Rows.Rows*o.Spec.QHeads*a.Splits*(o.Spec.HeadDim+2))
				tickets = max(tickets, 4*o.Rows.Rows*o.Spec.KVHeads)
			}
		}
	}
	for _, s := range []struct {
		to    *Ptr
		bytes int
	}{{&p.split, split}, {&p.back, back}, {&p.part, part}, {&p.tickets, tickets}} {
		if s.bytes > 0 && err == nil {
			*s.to, err = p.e.malloc(p.x, s.bytes)
		}
	}
	if tickets > 0 && err == nil {
		err = p.x.Memset(p.tickets, 0, int64(tickets))
	}
	return err
}

// add queues a kernel. In the first walk it only notes the module.
func (p *planner) add(m kernels.Module, kernel string, grid [3]int, threads, lds int, a params) error {
	f, err := p.function(m, kernel)
	if err == nil {
		p.list = append(p.list, launch{f: f, grid: grid, block: [3]int{threads, 1, 1}, lds: lds, args: a})
	}
	return err
}

// function is a kernel of a module, nil in the first walk.
func (p *planner) function(m kernels.Module, kernel string) (Function, error) {
	key := moduleKey(m)
	p.modules[key] = m
	if !p.laying {
		return nil, nil
	}
	return p.e.dev.modules[key].Function(kernel)
}

func (p *planner) weight(w device.Weight) (*weight, error) {
	mine, ok := w.(*weight)
	if !ok || mine.dev != p.e.dev {
		return nil, fmt.Errorf("the weight is another device's")
	}
	return mine, nil
}

func (p *planner) set(r *device.RowSet) (slot, pos, token, cos, sin Ptr) {
	base, at := p.e.rows.ptr, p.e.rows.sets[r.Index]
	return base + Ptr(at.slot), base + Ptr(at.pos), base + Ptr(at.token), base + Ptr(at.cos), base + Ptr(at.sin)
}

func (p *planner) wave() int { return p.e.dev.gpu.WaveSize }

// padded is how many halves of padding a row of split activations has.
func padded(cuda bool) int {
	if cuda {
		return 16
	}
	return 8
}

// op queues the kernels of one op.
func (p *planner) op(op device.Op) error {
	switch o := op.(type) {
	case *device.EmbedAdd:
		return p.embedAdd(o)
	case *device.RMSNorm:
		var slot Ptr
		if !o.Ada.IsZero() {
			slot, _, _, _, _ = p.set(o.Rows)
		}
		a := params{}.ptr(p.e.ptr(o.Y), p.e.ptr(o.X), p.e.ptr(o.Gain), p.e.ptr(o.Ada), slot).int(o.X.Cols).float(o.Eps)
		return p.add(kernels.Rows(), "rmsnorm", [3]int{o.X.Rows, 1, 1}, rowThreads, 0, a)
	case *device.Linear:
		return p.linear(o, nil)
	case *device.RopeAppend:
		slot, pos, _, cos, sin := p.set(o.Rows)
		a := params{}.ptr(p.e.ptr(o.QKV), slot, pos, cos, sin, p.e.mem[o.K.Mem], p.e.mem[o.V.Mem]).
			int(o.Spec.QDim(), o.Spec.KVDim(), o.Spec.HeadDim, o.K.Cap, flag(o.K.Half))
		return p.add(kernels.Rows(), "rope_append", [3]int{o.Rows.Rows, 1, 1}, rowThreads, 0, a)
	case *device.Attention:
		return p.attention(o)
	case *device.ConvWindow:
		return p.convWindow(o)
	case *device.RingWrite:
		slot, pos, _, _, _ := p.set(o.Rows)
		a := params{}.ptr(p.e.mem[o.To.Mem], p.e.ptr(o.X), slot, pos).int(o.To.Width, o.To.Cap)
		return p.add(kernels.Rows(), "ring_write", [3]int{o.Rows.Rows, 1, 1}, rowThreads, 0, a)
	case *device.Argmax:
		a := params{}.ptr(p.e.ptr(o.IDs), p.e.ptr(o.Top), p.e.ptr(o.X)).int(o.X.Cols)
		return p.add(kernels.Argmax(), "argmax", [3]int{o.X.Rows, 1, 1}, rowThreads, 0, a)
	}
	return fmt.Errorf("an op of type %T has no kernel", op)
}

func (p *planner) embedAdd(o *device.EmbedAdd) error {
	w, err := p.weight(o.Table)
	if err != nil {
		return err
	}
	m, err := kernels.Weights("embed", w.format, w.group)
	if err != nil {
		return err
	}
	slot, pos, token, _, _ := p.set(o.Rows)
	a := params{}.ptr(p.e.ptr(o.Y), w.codes, w.scales, p.e.mem[o.Audio.Mem], slot, pos, token).int(w.cols, o.Audio.Cap)
	return p.add(m, "embed_add", [3]int{o.Rows.Rows, 1, 1}, rowThreads, 0, a)
}

func (p *planner) convWindow(o *device.ConvWindow) error {
	slot, pos, _, _, _ := p.set(o.Rows)
	rows, c := o.Rows.Rows, o.X.Cols
	a := params{}.ptr(p.e.ptr(o.Y), p.e.ptr(o.X), p.e.ptr(o.Tail), slot, pos).int(c, o.Stride)
	if err := p.add(kernels.Rows(), "conv_window", [3]int{rows / o.Stride, 1, 1}, rowThreads, 0, a); err != nil {
		return err
	}
	a = params{}.ptr(p.e.ptr(o.Tail), p.e.ptr(o.X), slot, pos).int(rows, c, o.Stride)
	return p.add(kernels.Rows(), "conv_tail", [3]int{rows, 1, 1}, rowThreads, 0, a)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
