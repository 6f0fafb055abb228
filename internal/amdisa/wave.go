package amdisa

import "math/bits"

// lanes is one vector register.
type lanes = [64]uint32

type waveState uint8

const (
	running waveState = iota
	asleep            // s_sleep ended the wave's turn
	atBarrier
	ended
)

// wave is the state of one wave while it runs.
type wave struct {
	v      [512]lanes // vector registers, then accumulation registers
	s      [numScalars]uint32
	scc    bool
	pc     int // index into the program's code
	size   int // lanes
	state  waveState
	at     *inst  // the instruction that runs
	number int    // in the workgroup
	born   uint64 // EXEC at launch
	steps  uint64

	arrived bool // gfx12: signalled the barrier, not yet waited for it
	tmp     [5]lanes
	group   *group
	last    *block                         // where the last global access was
	scratch []byte                         // lane by lane
	lane0   int                            // bytes of scratch per lane
	known   [512/64 + numScalars/64]uint64 // registers written, with CheckRegisters
}

func (w *wave) s64(r int) uint64       { return uint64(w.s[r]) | uint64(w.s[r+1])<<32 }
func (w *wave) setS64(r int, v uint64) { w.s[r], w.s[r+1] = uint32(v), uint32(v>>32) }

func (w *wave) exec() uint64 {
	if w.size == 32 {
		return uint64(w.s[regExec])
	}
	return w.s64(regExec)
}

// mask reads a lane mask: a scalar register of the wave's width, or a constant.
func (w *wave) mask(o *operand) uint64 {
	switch o.kind {
	case scalarReg:
		if w.size == 32 {
			return uint64(w.s[o.reg])
		}
		return w.s64(o.reg)
	case integer:
		return o.imm
	}
	return 0
}

func (w *wave) setMask(o *operand, m uint64) {
	if o.kind != scalarReg {
		return
	}
	w.s[o.reg] = uint32(m)
	if w.size == 64 {
		w.s[o.reg+1] = uint32(m >> 32)
	}
}

var vcc = operand{kind: scalarReg, reg: regVCC, n: 2}

// scalar reads a 32-bit scalar operand.
func (w *wave) scalar(o *operand) uint32 {
	switch o.kind {
	case scalarReg:
		return w.s[o.reg]
	case sccReg:
		if w.scc {
			return 1
		}
		return 0
	case noOperand:
		return 0
	}
	return o.constant32(fmtBits)
}

func (w *wave) scalar64(o *operand) uint64 {
	switch o.kind {
	case scalarReg:
		return w.s64(o.reg)
	case noOperand:
		return 0
	case sccReg:
		return uint64(w.scalar(o))
	}
	return o.constant64(fmtLong)
}

func (w *wave) setScalar(o *operand, v uint32) {
	if o.kind == scalarReg {
		w.s[o.reg] = v
	}
}

func (w *wave) setScalar64(o *operand, v uint64) {
	if o.kind == scalarReg {
		w.setS64(o.reg, v)
	}
}

// lane reads one lane of a 32-bit operand, without modifiers.
func (w *wave) lane(o *operand, l int, t format) uint32 {
	switch o.kind {
	case vectorReg:
		return w.v[o.reg][l]
	case integer, floating:
		return o.constant32(t)
	}
	return w.scalar(o)
}

// lane64 reads one lane of a 64-bit operand, without modifiers.
func (w *wave) lane64(o *operand, l int, t format) uint64 {
	switch o.kind {
	case vectorReg:
		return uint64(w.v[o.reg][l]) | uint64(w.v[o.reg+1][l])<<32
	case integer, floating:
		return o.constant64(t)
	}
	return w.scalar64(o)
}

func (w *wave) setLane64(o *operand, l int, v uint64) {
	w.v[o.reg][l], w.v[o.reg+1][l] = uint32(v), uint32(v>>32)
}

// each calls f for every lane that is switched on, in order.
func (w *wave) each(f func(l int)) {
	for t := w.exec(); t != 0; t &= t - 1 {
		f(bits.TrailingZeros64(t))
	}
}

// quantum is how many instructions a wave runs before its workgroup's next wave has its turn.
const quantum = 1 << 14

// run executes until the wave ends, waits or has used its turn.
func (w *wave) run() {
	g := w.group
	code, hits := g.code, g.hits
	check := g.m.CheckRegisters
	for n := 1; n <= g.turn; n++ {
		if uint(w.pc) >= uint(len(code)) || code[w.pc] == nil {
			fail(-1, "jump to %#x, where no instruction is", g.p.text+4*uint64(w.pc))
		}
		in := code[w.pc]
		w.at = in
		w.pc = in.next
		hits[in.index]++
		if check {
			w.checkRegisters(in)
		}
		in.run(w)
		if w.state != running {
			w.count(n)
			return
		}
	}
	w.count(g.turn)
}

// count adds executed instructions, of which a wave may have so many.
func (w *wave) count(n int) {
	w.steps += uint64(n)
	if limit := w.group.m.MaxInstructions; w.steps > limit {
		fail(-1, "more than %d instructions in one wave: a loop that does not end", limit)
	}
}

// checkRegisters faults on a source that nothing has written and notes the destination. Destinations come first, except in
// stores, compares with an implicit destination and branches, which have none.
func (w *wave) checkRegisters(in *inst) {
	dsts := in.destinations()
	for i := range in.ops {
		if o := &in.ops[i]; i >= dsts {
			for r := o.reg; r < o.reg+o.n; r++ {
				if at, ok := w.knownBit(o, r); ok && w.known[at/64]>>(at%64)&1 == 0 {
					fail(-1, "reads %s, register %d of which nothing has written", o.text, r-o.reg)
				}
			}
		}
	}
	for i := range min(dsts, len(in.ops)) {
		o := &in.ops[i]
		for r := o.reg; r < o.reg+o.n; r++ {
			if at, ok := w.knownBit(o, r); ok {
				w.known[at/64] |= 1 << (at % 64)
			}
		}
	}
	if in.second != nil {
		w.checkRegisters(in.second)
	}
}

// knownBit numbers the register; special registers count as always written.
func (w *wave) knownBit(o *operand, r int) (int, bool) {
	switch {
	case o.kind == vectorReg:
		return r, true
	case o.kind == scalarReg && r < regFlatScratch:
		return 512 + r, true
	}
	return 0, false
}

func (w *wave) markScalar(r int) { w.known[(512+r)/64] |= 1 << (r % 64) }
func (w *wave) markVector(r int) { w.known[r/64] |= 1 << (r % 64) }
