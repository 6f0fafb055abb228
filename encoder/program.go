package encoder

import (
	"fmt"

	"voxtral/internal/device"
	"voxtral/models"
	"voxtral/sdpa"
)

// Row sets of the program, in Step order.
const (
	frameRows = iota // mel frames
	encRows          // encoder rows
	tickRows         // adapter vectors
)

// Build writes the encoder down for slots × ticks. mel is the host input, F32 [slots·ticks·TickFrames, MelBins].
func (w *Weights) Build(st *State, mel device.Buffer, ticks int) *device.Program {
	cfg, spec := w.cfg, w.spec()
	n := st.slots * ticks
	p := &device.Program{Name: fmt.Sprintf("encode[%d×%d]", st.slots, ticks)}
	frames := p.NewRows("frames", n*TickFrames, 0)
	rows := p.NewRows("rows", n*TickRows, cfg.HeadDim)
	tick := p.NewRows("ticks", n, 0)

	// Convolution stem: two causal convolutions of kernel 3, the second halves the rate.
	in := p.Bind("mel", mel, frames.Rows, cfg.MelBins)
	win0 := p.NewScratch("conv0.window", frames.Rows, 3*cfg.MelBins)
	mid := p.NewScratch("conv0", frames.Rows, cfg.Dim)
	win1 := p.NewScratch("conv1.window", rows.Rows, 3*cfg.Dim)
	x := p.NewScratch("x", rows.Rows, cfg.Dim)
	tail0 := p.Bind("conv0.tail", st.tails[0], st.slots*2, cfg.MelBins)
	tail1 := p.Bind("conv1.tail", st.tails[1], st.slots, cfg.Dim)
	p.Add(&device.ConvWindow{Name: "enc.conv0.window", Rows: frames, Y: win0, X: in, Tail: tail0, Stride: 1})
	p.Add(&device.Linear{Name: "enc.conv0", Y: mid, X: win0, W: w.conv[0].W, Bias: p.Param(w.conv[0].Bias), Act: device.GELU})
	p.Add(&device.ConvWindow{Name: "enc.conv1.window", Rows: frames, Y: win1, X: mid, Tail: tail1, Stride: 2})
	p.Add(&device.Linear{Name: "enc.conv1", Y: x, X: win1, W: w.conv[1].W, Bias: p.Param(w.conv[1].Bias), Act: device.GELU})

	norm := p.NewScratch("norm", rows.Rows, cfg.Dim)
	qkv := p.NewScratch("qkv", rows.Rows, spec.QKVDim())
	heads := p.NewScratch("heads", rows.Rows, spec.QDim())
	hidden := p.NewScratch("hidden", rows.Rows, cfg.Hidden)
	eps := float32(cfg.NormEps)
	for i, l := range w.layers {
		name := func(op string) device.Name { return device.Name(fmt.Sprintf("enc.%d.%s", i, op)) }
		k := p.BindRing(fmt.Sprintf("enc.%d.k", i), st.k[i], st.slots, st.ringCap, spec.KVDim(), st.half)
		v := p.BindRing(fmt.Sprintf("enc.%d.v", i), st.v[i], st.slots, st.ringCap, spec.KVDim(), st.half)
		p.Add(&device.RMSNorm{Name: name("attn.norm"), Y: norm, X: x, Gain: p.Param(l.attnNorm), Eps: eps})
		p.Add(&device.Linear{Name: name("attn.qkv"), Y: qkv, X: norm, W: l.qkv.W, Bias: p.Param(l.qkv.Bias)})
		p.Add(&device.RopeAppend{Name: name("attn.rope"), Rows: rows, Spec: spec, QKV: qkv, K: k, V: v})
		p.Add(&device.Attention{Name: name("attn"), Rows: rows, Spec: spec, Y: heads, QKV: qkv, K: k, V: v})
		p.Add(&device.Linear{Name: name("attn.out"), Y: x, X: heads, W: l.wo.W, Bias: p.Param(l.wo.Bias), Residual: x})
		p.Add(&device.RMSNorm{Name: name("ffn.norm"), Y: norm, X: x, Gain: p.Param(l.ffnNorm), Eps: eps})
		p.Add(&device.Linear{Name: name("ffn.gateup"), Y: hidden, X: norm, W: l.gateUp, Act: device.SwiGLU})
		p.Add(&device.Linear{Name: name("ffn.out"), Y: x, X: hidden, W: l.down.W, Bias: p.Param(l.down.Bias), Residual: x})
	}
	p.Add(&device.RMSNorm{Name: "enc.norm", Y: norm, X: x, Gain: p.Param(w.norm), Eps: eps})

	// Adapter: four rows side by side make one tick.
	a := p.NewScratch("adapter.hidden", n, w.proj[0].Rows())
	y := p.NewScratch("adapter", n, w.out())
	p.Add(&device.Linear{Name: "adapter.0", Y: a, X: norm.Reshape(n, TickRows*cfg.Dim), W: w.proj[0], Act: device.GELU})
	p.Add(&device.Linear{Name: "adapter.1", Y: y, X: a, W: w.proj[1]})
	p.Add(&device.RingWrite{Name: "adapter.ring", Rows: tick, X: y, To: w.audioRing(p, st)})
	return p
}

func (w *Weights) audioRing(p *device.Program, st *State) device.Ring {
	return p.BindRing("audio", st.Audio, st.slots, st.AudioCap, w.out(), false)
}

// Clock fills the step data of one stream's ticks first..first+ticks−1, in slot 0. It owns the step's memory.
type Clock struct {
	rotary sdpa.Rotary
	step   device.Step
}

// NewClock prepares step data for programs of ticks ticks.
func NewClock(cfg models.EncoderConfig, ticks int) *Clock {
	c := &Clock{rotary: sdpa.NewRotary(cfg.RopeTheta, cfg.HeadDim)}
	for _, per := range []int{TickFrames, TickRows, 1} {
		n := per * ticks
		c.step.Rows = append(c.step.Rows, device.RowData{Slot: make([]int32, n), Pos: make([]int32, n)})
	}
	half := TickRows * ticks * cfg.HeadDim / 2
	c.step.Rows[encRows].Cos, c.step.Rows[encRows].Sin = make([]float32, half), make([]float32, half)
	return c
}

// At sets the first tick and returns the step, valid until the next call.
func (c *Clock) At(first int) *device.Step {
	for set, per := range []int{frameRows: TickFrames, encRows: TickRows, tickRows: 1} {
		pos := c.step.Rows[set].Pos
		for i := range pos {
			pos[i] = int32(first*per + i)
		}
	}
	rows, half := &c.step.Rows[encRows], len(c.rotary.Freq)
	for i, pos := range rows.Pos {
		c.rotary.Angles(rows.Cos[i*half:(i+1)*half], rows.Sin[i*half:(i+1)*half], int(pos))
	}
	return &c.step
}
