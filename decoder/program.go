package decoder

import (
	"fmt"

	"voxtral/internal/device"
	"voxtral/models"
	"voxtral/sdpa"
)

// Audio is where the encoder leaves its vectors, one a position: F32 [slots, Cap, Dim].
type Audio struct {
	Buf device.Buffer
	Cap int // ticks kept
}

// Output is what the host reads after a step.
type Output struct {
	IDs device.Buffer // int32 [heads]
	Top device.Buffer // F32 [heads, 2]: the largest logit and the next one
}

// NewOutput allocates the output of heads rows.
func NewOutput(dev device.Device, heads int) (Output, error) {
	ids, err := dev.Alloc(4*heads, device.HostIO)
	if err != nil {
		return Output{}, fmt.Errorf("decoder: %w", err)
	}
	top, err := dev.Alloc(8*heads, device.HostIO)
	if err != nil {
		ids.Free()
		return Output{}, fmt.Errorf("decoder: %w", err)
	}
	return Output{IDs: ids, Top: top}, nil
}

// Free returns the memory.
func (o Output) Free() {
	o.IDs.Free()
	o.Top.Free()
}

// Build writes the decoder down for n rows, of which the last heads get logits and a token. n is a stream's prompt, or one
// row per slot, or a run to verify.
func (w *Weights) Build(st *State, audio Audio, out Output, n, heads int) *device.Program {
	cfg, spec := w.cfg, w.spec()
	p := &device.Program{Name: fmt.Sprintf("decode[%d]", n)}
	rows := p.NewRows("positions", n, cfg.HeadDim)
	rows.HasTokens = true

	x := p.NewScratch("x", n, cfg.Dim)
	norm := p.NewScratch("norm", n, cfg.Dim)
	qkv := p.NewScratch("qkv", n, spec.QKVDim())
	attn := p.NewScratch("heads", n, spec.QDim())
	hidden := p.NewScratch("hidden", n, cfg.Hidden)
	ada := p.Bind("ada", st.ada, len(w.layers)*st.slots, cfg.Dim)
	eps := float32(cfg.NormEps)

	p.Add(&device.EmbedAdd{Name: "dec.embed", Rows: rows, Y: x, Table: w.embed, Audio: p.BindRing("audio", audio.Buf, st.slots, audio.Cap, cfg.Dim, false)})
	for i, l := range w.layers {
		name := func(op string) device.Name { return device.Name(fmt.Sprintf("dec.%d.%s", i, op)) }
		k := p.BindRing(fmt.Sprintf("dec.%d.k", i), st.k[i], st.slots, st.ringCap, spec.KVDim(), st.half)
		v := p.BindRing(fmt.Sprintf("dec.%d.v", i), st.v[i], st.slots, st.ringCap, spec.KVDim(), st.half)
		p.Add(&device.RMSNorm{Name: name("attn.norm"), Y: norm, X: x, Gain: p.Param(l.attnNorm), Eps: eps})
		p.Add(&device.Linear{Name: name("attn.qkv"), Y: qkv, X: norm, W: l.qkv})
		p.Add(&device.RopeAppend{Name: name("attn.rope"), Rows: rows, Spec: spec, QKV: qkv, K: k, V: v})
		p.Add(&device.Attention{Name: name("attn"), Rows: rows, Spec: spec, Y: attn, QKV: qkv, K: k, V: v})
		p.Add(&device.Linear{Name: name("attn.out"), Y: x, X: attn, W: l.wo, Residual: x})
		p.Add(&device.RMSNorm{Name: name("ffn.norm"), Rows: rows, Y: norm, X: x, Gain: p.Param(l.ffnNorm), Ada: ada.RowsFrom(i*st.slots, st.slots), Eps: eps})
		p.Add(&device.Linear{Name: name("ffn.gateup"), Y: hidden, X: norm, W: l.gateUp, Act: device.SwiGLU})
		p.Add(&device.Linear{Name: name("ffn.out"), Y: x, X: hidden, W: l.down, Residual: x})
	}
	// Only the rows that are asked for a token pay for the LM head.
	last, top := x.RowsFrom(n-heads, heads), norm.RowsFrom(n-heads, heads)
	logits := p.NewScratch("logits", heads, cfg.Vocab)
	p.Add(&device.RMSNorm{Name: "dec.norm", Y: top, X: last, Gain: p.Param(w.norm), Eps: eps})
	p.Add(&device.Linear{Name: "dec.logits", Y: logits, X: top, W: w.embed})
	p.Add(&device.Argmax{Name: "dec.argmax", X: logits, IDs: p.Bind("ids", out.IDs, heads, 1), Top: p.Bind("top", out.Top, heads, 2)})
	return p
}

// Clock fills the step data of one stream's consecutive positions, in slot 0. It owns the step's memory.
type Clock struct {
	rotary sdpa.Rotary
	step   device.Step
}

// NewClock prepares step data for programs of n rows.
func NewClock(cfg models.DecoderConfig, n int) *Clock {
	half := n * cfg.HeadDim / 2
	return &Clock{rotary: sdpa.NewRotary(cfg.RopeTheta, cfg.HeadDim), step: device.Step{Rows: []device.RowData{{
		Slot: make([]int32, n), Pos: make([]int32, n), Token: make([]int32, n), Cos: make([]float32, half), Sin: make([]float32, half),
	}}}}
}

// Tokens is the step's token ids, for the caller to fill.
func (c *Clock) Tokens() []int32 { return c.step.Rows[0].Token }

// At sets the first position and returns the step, valid until the next call.
func (c *Clock) At(first int) *device.Step {
	rows, half := &c.step.Rows[0], len(c.rotary.Freq)
	for i := range rows.Pos {
		rows.Pos[i] = int32(first + i)
		c.rotary.Angles(rows.Cos[i*half:(i+1)*half], rows.Sin[i*half:(i+1)*half], first+i)
	}
	return &c.step
}
