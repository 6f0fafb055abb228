package hip

import (
	"fmt"
	"slices"

	"voxtral/hip/kernels"
	"voxtral/internal/device"
	"voxtral/sdpa"
)

// SDPA is the policy by which attention kernels are chosen.
type SDPA string

// Policies.
const (
	SDPAAuto     SDPA = "auto"     // standard on AMD; on NVIDIA split-K over windows that are long enough
	SDPAStandard SDPA = "standard" // one block a key head
	SDPASplitK   SDPA = "splitk"   // several blocks a key head, joined by their true maxima
)

// SDPAs are all policies.
func SDPAs() []SDPA { return []SDPA{SDPAAuto, SDPAStandard, SDPASplitK} }

const (
	splitKeys = 512 // least keys of a split-K share at a full window
	maxSplits = 32
)

// Attention is the kernel that was chosen for attention of a shape.
type Attention struct {
	Heads, KVHeads, HeadDim, Window int
	Kernel                          SDPA // standard or splitk
	Splits                          int  // shares of the keys; 1: standard
}

func (a Attention) String() string {
	shape := fmt.Sprintf("%d heads of %d over %d keys", a.Heads, a.HeadDim, a.Window)
	if a.Splits == 1 {
		return shape + ": " + string(SDPAStandard)
	}
	return fmt.Sprintf("%s: %s in %d shares", shape, SDPASplitK, a.Splits)
}

// Attention lists the kernels of the programs compiled so far, one for each shape.
func (d *Device) Attention() []Attention {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.attention)
}

// attentionOf applies the policy. The choice depends on the shape and the GPU, never on how many rows a step has: a row's
// result has the same bits in steps of any length.
func (d *Device) attentionOf(s sdpa.Spec) Attention {
	a := Attention{Heads: s.QHeads, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Window: s.Window, Kernel: SDPAStandard, Splits: 1}
	// As many shares as one row's blocks leave compute units free, none shorter than splitKeys.
	shares := min(maxSplits, s.Window/splitKeys, d.gpu.Units/s.KVHeads)
	switch {
	case d.sdpa == SDPASplitK:
		a.Splits = max(2, shares)
	case d.sdpa == SDPAAuto && d.cuda():
		a.Splits = max(1, shares)
	}
	if a.Splits > 1 {
		a.Kernel = SDPASplitK
	}
	return a
}

// attention queues the kernels of an attention op. There is no other way to them.
func (p *planner) attention(o *device.Attention) error {
	m, err := kernels.Attention(o.Spec, o.K.Half)
	if err != nil {
		return err
	}
	slot, pos, _, _, _ := p.set(o.Rows)
	rows, s := o.Rows.Rows, o.Spec
	choice := p.e.dev.attentionOf(s)
	if p.laying && !slices.Contains(p.e.dev.attention, choice) {
		p.e.dev.attention = append(p.e.dev.attention, choice)
	}
	y := p.e.ptr(o.Y)
	in := []Ptr{p.e.ptr(o.QKV), p.e.mem[o.K.Mem], p.e.mem[o.V.Mem], slot, pos}
	shape := params{}.int(s.KVHeads, o.K.Cap, s.Window).float(float32(s.Scale()))
	split := append(params{}.ptr(y, p.part, p.tickets).ptr(in...), shape...).int(choice.Splits)
	grid := [3]int{choice.Splits, s.KVHeads, rows}
	p.mayJoin(&phase{kind: phaseAttention, grid: grid, spec: s, half: o.K.Half, args: func(int) params { return split }})
	if choice.Splits == 1 {
		a := append(params{}.ptr(y).ptr(in...), shape...)
		return p.add(m, "attention", [3]int{s.KVHeads, rows, 1}, mvWaves*p.wave(), 0, a)
	}
	return p.add(m, "attention_split", grid, mvWaves*p.wave(), 0, split)
}
