package amdisa

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Stats counts what a launch executed, in wave instructions.
type Stats struct {
	Instructions uint64
	Mnemonics    map[string]uint64 // by mnemonic without encoding suffix
}

// Launch runs a kernel over grid workgroups of block work-items, with dynamicLDS bytes beyond the kernel's own LDS. kernarg
// holds the explicit arguments at the metadata's offsets; hidden arguments are filled in here. The error is a *Fault where
// the kernel is to blame.
func (m *Machine) Launch(p *Program, kernel string, grid, block [3]int, dynamicLDS int, kernarg []byte) (Stats, error) {
	return m.launch(p, kernel, grid, block, dynamicLDS, kernarg, (*dispatch).runEach)
}

func (m *Machine) launch(p *Program, kernel string, grid, block [3]int, dynamicLDS int, kernarg []byte, run func(*dispatch) error) (Stats, error) {
	k := p.Kernels[kernel]
	if k == nil {
		return Stats{}, fmt.Errorf("amdisa: %s: no kernel %q", p.name, kernel)
	}
	d := &dispatch{m: m, p: p, k: k, grid: grid, block: block, lds: k.LDSBytes + dynamicLDS}
	args, err := d.arguments(dynamicLDS, kernarg)
	if err != nil {
		return Stats{}, fmt.Errorf("amdisa: %s: %s: %w", p.name, kernel, err)
	}
	d.place(args)
	defer d.release()
	d.hits = make([]uint64, len(p.code))
	err = run(d)
	return d.stats(), err
}

// dispatch is one launch.
type dispatch struct {
	m           *Machine
	p           *Program
	k           *Kernel
	grid, block [3]int
	lds         int
	blocks      []*block
	args        *block
	packet      *block
	image       *block
	clock       atomic.Uint64
	nextGroup   atomic.Int64
	stop        atomic.Bool
	hits        []uint64 // how often each instruction was executed
}

func (d *dispatch) groups() int { return d.grid[0] * d.grid[1] * d.grid[2] }

// arguments checks the launch's shape and returns the whole kernel-argument segment.
func (d *dispatch) arguments(dynamicLDS int, kernarg []byte) ([]byte, error) {
	groups, threads := 1, 1
	for i := range 3 {
		if d.grid[i] < 1 || d.block[i] < 1 || d.grid[i] > 1<<24 || d.block[i] > 1024 {
			return nil, fmt.Errorf("grid %v of blocks %v, want positive sizes and at most 1024 work-items", d.grid, d.block)
		}
		groups *= d.grid[i]
		threads *= d.block[i]
		if groups > 1<<32 {
			return nil, fmt.Errorf("grid %v is too large", d.grid)
		}
	}
	if limit := min(d.k.MaxThreads, 1024); threads > limit {
		return nil, fmt.Errorf("block %v has %d work-items, the kernel was compiled for at most %d", d.block, threads, limit)
	}
	if limit := d.p.maxLDS(); dynamicLDS < 0 || d.lds > limit {
		return nil, fmt.Errorf("%d + %d bytes of LDS, %s has %d", d.k.LDSBytes, dynamicLDS, d.p.Arch, limit)
	}
	out := make([]byte, d.k.KernargBytes)
	copy(out, kernarg)
	hidden := map[string]uint64{"hidden_dynamic_lds_size": uint64(dynamicLDS), "hidden_grid_dims": 3,
		"hidden_private_base": privateBase >> 32, "hidden_shared_base": sharedBase >> 32}
	for i, axis := range []string{"x", "y", "z"} {
		hidden["hidden_block_count_"+axis] = uint64(d.grid[i])
		hidden["hidden_group_size_"+axis] = uint64(d.block[i])
	}
	for _, a := range d.k.Args {
		if len(a.Kind) < 7 || a.Kind[:7] != "hidden_" {
			if a.Offset+a.Size > len(kernarg) {
				return nil, fmt.Errorf("arguments of %d bytes, but %s at %d takes %d", len(kernarg), a.Kind, a.Offset, a.Size)
			}
			continue
		}
		v := hidden[a.Kind]
		for i := range a.Size {
			out[a.Offset+i] = 0
			if i < 8 {
				out[a.Offset+i] = byte(v >> (8 * i))
			}
		}
	}
	return out, nil
}

func (p *Program) maxLDS() int {
	if p.gfx == 0x950 {
		return 160 << 10
	}
	return 64 << 10
}

// place puts the code object, the arguments and the dispatch packet into memory for the launch.
func (d *dispatch) place(args []byte) {
	m := d.m
	m.mu.Lock()
	defer m.mu.Unlock()
	d.image = m.alloc("code object", len(d.p.image))
	copy(d.image.data, d.p.image)
	d.args = m.alloc("kernel arguments", len(args)+64) // the compiler may load past the last argument
	copy(d.args.data, args)
	d.packet = m.alloc("dispatch packet", 64)
	for i := range 3 {
		le.PutUint16(d.packet.data[4+2*i:], uint16(d.block[i]))
		le.PutUint32(d.packet.data[12+4*i:], uint32(d.grid[i]*d.block[i]))
	}
	d.blocks = m.blocks
}

func (d *dispatch) release() {
	for _, b := range []*block{d.image, d.args, d.packet} {
		d.m.Free(b.base)
	}
}

// runEach runs the workgroups on the machine's workers, each from its start to its end.
func (d *dispatch) runEach() error {
	total := int64(d.groups())
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	for range min(int64(max(d.m.Workers, 1)), total) {
		wg.Go(func() {
			g := newGroup(d)
			var err error
			for err == nil && !d.stop.Load() {
				n := d.nextGroup.Add(1) - 1
				if n >= total {
					break
				}
				err = g.runGroup(int(n))
			}
			mu.Lock()
			defer mu.Unlock()
			g.countHits()
			if err != nil && !errors.Is(err, errStopped) && first == nil {
				first = err
				d.stop.Store(true)
			}
		})
	}
	wg.Wait()
	return first
}

func (g *group) countHits() {
	for i, h := range g.hits {
		g.dispatch.hits[i] += h
	}
}

func (d *dispatch) stats() Stats {
	st := Stats{Mnemonics: map[string]uint64{}}
	for i, h := range d.hits {
		if h > 0 {
			in := d.p.code[i]
			st.Instructions += h
			st.Mnemonics[in.name] += h
			if in.second != nil {
				st.Mnemonics[in.second.name] += h
			}
		}
	}
	return st
}

var errStopped = errors.New("another workgroup faulted")

// group is one workgroup at a time, reused for the next.
type group struct {
	*dispatch
	at    [3]int
	turn  int // instructions of a wave before the next one has its turn
	waves []*wave
	code  []*inst
	hits  []uint64
	mem   []byte // LDS
	wrote []byte // LDS bytes that something has written: 1
	races *raceMap
}

func newGroup(d *dispatch) *group {
	g := &group{dispatch: d, turn: quantum, code: d.p.code, hits: make([]uint64, len(d.p.code)), mem: make([]byte, d.lds), wrote: make([]byte, d.lds)}
	if d.m.CheckRaces {
		g.races = newRaceMap(d.lds)
	}
	n := d.block[0] * d.block[1] * d.block[2]
	for start := 0; start < n; start += d.p.wave {
		w := &wave{size: d.p.wave, number: len(g.waves), group: g, lane0: d.k.ScratchBytes}
		w.born = ^uint64(0) >> (64 - min(d.p.wave, n-start))
		w.scratch = make([]byte, d.p.wave*d.k.ScratchBytes)
		g.waves = append(g.waves, w)
	}
	return g
}

// runGroup runs workgroup n to its end.
func (g *group) runGroup(n int) error {
	g.start(n)
	for {
		switch what, err := g.round(); {
		case err != nil:
			return err
		case what == allEnded:
			return nil
		case g.stop.Load():
			return errStopped
		}
	}
}

// start makes g workgroup n, before its first instruction.
func (g *group) start(n int) {
	g.at = [3]int{n % g.grid[0], n / g.grid[0] % g.grid[1], n / (g.grid[0] * g.grid[1])}
	clear(g.mem)
	clear(g.wrote)
	if g.races != nil {
		g.races.reset()
	}
	for _, w := range g.waves {
		w.reset()
	}
}

// roundEnd is what a round of turns came to.
type roundEnd uint8

const (
	goingOn   roundEnd = iota
	allAsleep          // every wave that can run ended its turn asleep: it waits for other workgroups
	allEnded
)

// round gives every wave that can run a turn: until it ends, sleeps, waits at a barrier or has used its turn. The barrier
// opens when no wave can run.
func (g *group) round() (roundEnd, error) {
	live, sleeping, waiting := 0, 0, 0
	moved := false
	for _, w := range g.waves {
		if w.state == asleep {
			w.state = running
		}
		if w.state == running {
			if err := g.step(w); err != nil {
				return goingOn, err
			}
			moved = moved || w.state != asleep
		}
		switch w.state {
		case running:
			live++
		case asleep:
			sleeping++
		case atBarrier:
			waiting++
		}
	}
	switch {
	case live+sleeping+waiting == 0:
		return allEnded, nil
	case live+sleeping == 0:
		return goingOn, g.release()
	case !moved:
		return allAsleep, nil
	}
	return goingOn, nil
}

// release opens the barrier: every wave that has not ended waits there.
func (g *group) release() error {
	var first *wave
	for _, w := range g.waves {
		switch {
		case w.state == atBarrier && first == nil:
			first = w
		case g.m.LooseBarriers:
		case w.state == atBarrier && w.at != first.at:
			return g.fault(w, trap{-1, fmt.Sprintf("barrier divergence: wave %d waits at +%#x", first.number, first.at.pc-g.k.entry)})
		}
	}
	if !g.m.LooseBarriers {
		for _, w := range g.waves {
			if w.state == ended {
				return g.fault(first, trap{-1, fmt.Sprintf("barrier divergence: wave %d has ended without reaching this barrier", w.number)})
			}
		}
	}
	for _, w := range g.waves {
		if w.state == atBarrier {
			w.state, w.arrived = running, false
		}
	}
	if g.races != nil {
		g.races.epoch++
	}
	return nil
}

func (g *group) fault(w *wave, t trap) *Fault {
	f := &Fault{Kernel: g.k.Name, Group: g.at, Wave: w.number, Lane: t.lane, Reason: t.reason}
	if w.at != nil {
		f.PC, f.Inst = w.at.pc-g.k.entry, w.at.text
	}
	return f
}

// step gives a wave its turn and turns what goes wrong into an error.
func (g *group) step(w *wave) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case trap:
			err = g.fault(w, r)
		default:
			err = g.fault(w, trap{-1, fmt.Sprintf("the emulator failed: %v", r)})
		}
	}()
	w.run()
	return nil
}

// reset is what the dispatcher does to a wave before its first instruction.
func (w *wave) reset() {
	g, k := w.group, w.group.k
	clear(w.v[:min(max(k.VGPRs, 3), accBase)])
	clear(w.v[accBase : accBase+min(k.AccVGPRs, accBase)])
	clear(w.s[:])
	clear(w.scratch)
	clear(w.known[:])
	w.scc, w.arrived, w.state, w.steps, w.at, w.last = false, false, running, 0, nil, nil
	w.pc = int(k.entry-g.p.text) / 4
	w.setS64(regExec, w.born)
	n := 0
	push := func(vs ...uint32) {
		for _, v := range vs {
			if n < regFlatScratch {
				w.s[n] = v
				w.markScalar(n)
				n++
			}
		}
	}
	push64 := func(v uint64) { push(uint32(v), uint32(v>>32)) }
	for bit, v := range []func(){
		func() { push64(scratchBase); push64(0) }, // private segment buffer
		func() { push64(g.packet.base) },
		func() { push64(0) }, // queue
		func() { push64(g.args.base) },
		func() { push64(0) }, // dispatch id
		func() { push64(0) }, // flat scratch
		func() { push(uint32(k.ScratchBytes)) },
	} {
		if k.properties>>bit&1 == 1 {
			v()
		}
	}
	for i := range int(k.preload & 127) {
		if at := 4 * (int(k.preload>>7) + i); at+4 <= len(g.args.data) {
			push(le.Uint32(g.args.data[at:]))
		}
	}
	for n < int(k.rsrc2>>1&31) {
		push(0)
	}
	if g.p.gfx >= 0x1200 {
		w.s[regTTMP+9] = uint32(g.at[0])
		w.s[regTTMP+7] = uint32(g.at[1]&0xffff | g.at[2]<<16)
		w.s[regTTMP+8] = uint32(w.number) << 25
	} else {
		for i, at := range g.at {
			if k.rsrc2>>(7+i)&1 == 1 {
				push(uint32(at))
			}
		}
		push(0, 0) // workgroup information and the wave's scratch offset, where enabled
	}
	packed := g.p.gfx >= 0x900 && g.p.gfx < 0xa00 && g.p.gfx >= 0x90a || g.p.gfx >= 0x1100
	for l := range w.size {
		t := w.number*w.size + l
		x, y, z := uint32(t%g.block[0]), uint32(t/g.block[0]%g.block[1]), uint32(t/(g.block[0]*g.block[1]))
		if packed {
			w.v[0][l] = x | y<<10 | z<<20
			continue
		}
		w.v[0][l], w.v[1][l], w.v[2][l] = x, y, z
	}
	w.markVector(0)
	if !packed {
		w.markVector(1)
		w.markVector(2)
	}
}
