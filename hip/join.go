package hip

import (
	"fmt"

	"voxtral/hip/kernels"
	"voxtral/sdpa"
)

// Kinds of phases, as step.hip numbers them, and its act of a product whose result goes to queries, keys and values.
const (
	phaseLinear = iota
	phaseAttention

	actAppend = 3
)

const (
	phaseBytes   = 208
	arrivedBytes = 32 // between the counters of two phases
	joinAtLeast  = 4  // launches; fewer are not worth a kernel of their own
)

// phase is a launch that can be part of a common kernel.
type phase struct {
	kind   int
	grid   [3]int // pieces of work, of attention
	rows   int    // of activations, of a product
	weight *weight
	spec   sdpa.Spec // of attention
	half   bool
	args   func(piece int) params
}

// mayJoin says that the next launch can be a phase.
func (p *planner) mayJoin(ph *phase) {
	if p.phased == nil {
		p.phased = map[int]*phase{}
	}
	p.phased[len(p.list)] = ph
}

// shared is what the phases of one kernel have in common.
type shared struct {
	weight *weight // the first, for its format and group
	rows   int     // the most
	attn   *phase
}

// take adds a phase, or says that it does not go with the others.
func (s *shared) take(ph *phase) bool {
	switch {
	case ph.kind == phaseLinear && s.weight == nil:
		s.weight = ph.weight
	case ph.kind == phaseLinear:
		if ph.weight.format != s.weight.format || ph.weight.group != s.weight.group {
			return false
		}
	case s.attn == nil:
		s.attn = ph
	case ph.spec != s.attn.spec || ph.half != s.attn.half:
		return false
	}
	s.rows = max(s.rows, ph.rows)
	return true
}

// join puts runs of launches into kernels that do all of a run. It gives nil if there is no such run.
func (p *planner) join(list []launch) ([]launch, error) {
	var out []launch
	found := false
	for i := 0; i < len(list); {
		var s shared
		n := 0
		for i+n < len(list) && p.phased[i+n] != nil && s.take(p.phased[i+n]) {
			n++
		}
		if n < joinAtLeast || s.weight == nil || s.attn == nil {
			n = max(n, 1)
			out = append(out, list[i:i+n]...)
			i += n
			continue
		}
		phases := make([]*phase, n)
		for k := range phases {
			phases[k] = p.phased[i+k]
		}
		l, err := p.one(phases, &s)
		if err != nil {
			return nil, err
		}
		if l.f == nil { // it cannot be launched, or this is the first walk
			return nil, nil
		}
		out, found = append(out, l), true
		i += n
	}
	if !found {
		return nil, nil
	}
	return out, nil
}

// one is the launch that does all phases.
func (p *planner) one(phases []*phase, s *shared) (l launch, err error) {
	if p.e.dev.step == StepKernels {
		return l, nil
	}
	group := s.weight.group
	m, err := kernels.Step(s.weight.format, group, s.attn.spec, s.attn.half)
	if err != nil {
		return l, err
	}
	teams := 1
	if p.e.dev.cuda() {
		teams = 2
		m = m.With(fmt.Sprintf("TEAMS=%d", teams))
	}
	rows := narrow(s.rows)
	f, err := p.function(m, fmt.Sprintf("step_m%d", rows))
	if err != nil || f == nil {
		return l, err
	}
	a := s.attn.spec
	heads := a.QHeads / a.KVHeads
	lds := 4 * mvParts * teams * heads * (2 + a.HeadDim) // what attention joins
	for _, ph := range phases {
		if ph.kind == phaseLinear {
			_, bytes := p.piece(rows, ph.weight)
			lds = max(lds, bytes)
		}
	}
	threads := mvParts * teams * p.wave()
	per, err := f.BlocksPerUnit(threads, lds)
	if err != nil {
		return l, err
	}
	if per == 0 {
		return l, nil // the driver cannot tell how many blocks run at once
	}
	blocks := per * p.e.dev.gpu.Units
	var table params
	for _, ph := range phases {
		piece, work := 0, ph.grid[0]*ph.grid[1]*ph.grid[2]
		if ph.kind == phaseLinear {
			piece, _ = p.piece(rows, ph.weight)
			work = ph.weight.tiles()
		}
		from := len(table)
		table = table.int(ph.kind, ph.grid[0], ph.grid[1], ph.grid[2], min(work, blocks), 0, 0, 0)
		args := ph.args(piece)
		table = append(append(table, args...), make([]byte, phaseBytes-(len(table)-from)-len(args))...)
	}
	at, err := p.e.malloc(p.x, len(table))
	if err != nil {
		return l, err
	}
	if err := p.x.CopyIn(at, table); err != nil {
		return l, err
	}
	arrived, err := p.e.malloc(p.x, arrivedBytes*len(phases))
	if err != nil {
		return l, err
	}
	if err := p.x.Memset(arrived, 0, int64(arrivedBytes*len(phases))); err != nil {
		return l, err
	}
	args := func(count int) params {
		return params{}.ptr(at, arrived, p.e.rows.ptr+Ptr(p.e.rows.turn), p.e.rows.pinned.Ptr+Ptr(p.e.rows.stuck)).int(count, blocks)
	}
	l = launch{f: f, grid: [3]int{blocks, 1, 1}, block: [3]int{threads, 1, 1}, lds: lds, args: args(len(phases)), together: true}
	// A step of no phases shows whether the grid can be launched at all.
	empty := l
	empty.args = args(0)
	if err := launchAll(p.x, []launch{empty}); err != nil {
		p.e.dev.warnings = append(p.e.dev.warnings, fmt.Sprintf("program %s runs as single kernels: %v", p.e.prog.Name, err))
		return launch{}, nil
	}
	return l, p.x.Sync()
}
