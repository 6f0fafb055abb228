package cpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"voxtral/internal/device"
	"voxtral/sdpa"
)

// Linear equals the oracle for every format, group, shape, activation, stacking of parts and instruction set.
func TestLinear(t *testing.T) {
	eachISA(t, 3, func(t *testing.T, d *Device) {
		rapid.Check(t, func(t *rapid.T) {
			rng := source(t)
			m := rapid.IntRange(1, 40).Draw(t, "m")
			k := rapid.IntRange(1, 300).Draw(t, "k")
			act := rapid.SampledFrom([]device.Activation{device.NoAct, device.GELU, device.SwiGLU}).Draw(t, "act")
			var parts []device.Part
			n := 0
			for range rapid.IntRange(1, 3).Draw(t, "parts") {
				f, group := drawFormat(t)
				rows, head := rapid.IntRange(1, 13).Draw(t, "rows"), 0
				if rapid.Bool().Draw(t, "rotary") {
					head = 2 * rapid.IntRange(1, 4).Draw(t, "head")
					rows = head * rapid.IntRange(1, 3).Draw(t, "heads")
				}
				parts = append(parts, part(rng, f, group, rows, k, head, 1/math.Sqrt(float64(k))))
				n += rows
			}
			if act == device.SwiGLU {
				parts, n = append(parts, parts...), 2*n
			}
			outputs := n
			if act == device.SwiGLU {
				outputs /= 2
			}
			x, y, bias, extra := normal(rng, m*k, 1), normal(rng, m*outputs, 1), normal(rng, n, 1), normal(rng, m*outputs, 1)
			withBias, residual := rapid.Bool().Draw(t, "bias"), rapid.IntRange(0, 2).Draw(t, "residual")
			tol := 2e-6
			if d.rounds(parts) {
				tol = 0.05 // TestPackedLinear has the exact budget
			}
			against(t, d, tol, &device.Step{}, func(r *rig) {
				o := &device.Linear{Name: "linear", X: r.tensor("x", m, k, x), Y: r.tensor("y", m, outputs, y), W: r.weight(parts...), Act: act}
				if withBias {
					o.Bias = r.tensor("bias", 1, n, bias)
				}
				switch residual {
				case 1:
					o.Residual = o.Y
				case 2:
					o.Residual = r.tensor("residual", m, outputs, extra)
				}
				r.prog.Add(o)
			})
		})
	})
}

// RMSNorm equals the oracle, in place or not, with and without ada, for tiny and for huge rows.
func TestRMSNorm(t *testing.T) {
	eachISA(t, 3, func(t *testing.T, d *Device) {
		rapid.Check(t, func(t *rapid.T) {
			rng := source(t)
			n, dim, slots := rapid.IntRange(1, 20).Draw(t, "n"), rapid.IntRange(1, 200).Draw(t, "d"), rapid.IntRange(1, 4).Draw(t, "slots")
			size := rapid.SampledFrom([]float64{0, 1e-30, 1e-3, 1, 1e15}).Draw(t, "size")
			x, y, gain, ada := normal(rng, n*dim, size), normal(rng, n*dim, 1), normal(rng, dim, 1), normal(rng, slots*dim, 0.1)
			withAda, inPlace := rapid.Bool().Draw(t, "ada"), rapid.Bool().Draw(t, "in place")
			s := &device.Step{Rows: []device.RowData{drawRows(t, n, slots, n, 1)}}
			against(t, d, 2e-6, s, func(r *rig) {
				o := &device.RMSNorm{Name: "norm", Rows: r.prog.NewRows("rows", n, 0), X: r.tensor("x", n, dim, x), Gain: r.tensor("gain", 1, dim, gain), Eps: 1e-5}
				o.Y = o.X
				if !inPlace {
					o.Y = r.tensor("y", n, dim, y)
				}
				if withAda {
					o.Ada = r.tensor("ada", slots, dim, ada)
				}
				r.prog.Add(o)
			})
		})
	})
}

// attentionCase is one random geometry with rings full of history.
type attentionCase struct {
	spec          sdpa.Spec
	n, slots, cap int
	qkv, y, k, v  []float32
	step          device.Step
	half          bool
}

func drawAttention(t *rapid.T, size float64) attentionCase {
	return drawAttentionOf(t, size, rapid.IntRange(1, 9), rapid.IntRange(1, 6), rapid.IntRange(1, 70))
}

// drawAttentionOf draws a case with so many rows, query heads for each key head, and keys in the window.
func drawAttentionOf(t *rapid.T, size float64, rows, group, window *rapid.Generator[int]) attentionCase {
	rng := source(t)
	kv := rapid.IntRange(1, 3).Draw(t, "kv heads")
	c := attentionCase{
		spec: sdpa.Spec{
			KVHeads: kv, QHeads: kv * group.Draw(t, "group"),
			HeadDim: 2 * rapid.IntRange(1, 40).Draw(t, "half"), Window: window.Draw(t, "window"),
		},
		n: rows.Draw(t, "rows"), slots: rapid.IntRange(1, 3).Draw(t, "slot count"),
	}
	c.half = rapid.Bool().Draw(t, "half")
	longest := rapid.IntRange((c.n+c.slots-1)/c.slots, c.n).Draw(t, "longest")
	c.cap = c.spec.RingCap(longest) + rapid.IntRange(0, 20).Draw(t, "spare")
	data := drawRows(t, c.n, c.slots, longest, 1)
	for range c.n * c.spec.HeadDim / 2 {
		sin, cos := math.Sincos(rng.Float64() * 2 * math.Pi)
		data.Cos, data.Sin = append(data.Cos, float32(cos)), append(data.Sin, float32(sin))
	}
	c.step.Rows = []device.RowData{data}
	c.qkv, c.y = normal(rng, c.n*c.spec.QKVDim(), size), normal(rng, c.n*c.spec.QDim(), 1)
	c.k, c.v = normal(rng, c.slots*c.cap*c.spec.KVDim(), 1), normal(rng, c.slots*c.cap*c.spec.KVDim(), 1)
	return c
}

// build adds RopeAppend (if rope) and Attention over rows from.. of the case.
func (c *attentionCase) build(r *rig, from, n int, rope bool) {
	rows := r.prog.NewRows("rows", n, c.spec.HeadDim)
	qkv := r.tensor("qkv", n, c.spec.QKVDim(), c.qkv[from*c.spec.QKVDim():(from+n)*c.spec.QKVDim()])
	k := r.ring("k", c.slots, c.cap, c.spec.KVDim(), c.half, c.k)
	v := r.ring("v", c.slots, c.cap, c.spec.KVDim(), c.half, c.v)
	if rope {
		r.prog.Add(&device.RopeAppend{Name: "rope", Rows: rows, Spec: c.spec, QKV: qkv, K: k, V: v})
	}
	y := r.tensor("y", n, c.spec.QDim(), c.y[from*c.spec.QDim():(from+n)*c.spec.QDim()])
	r.prog.Add(&device.Attention{Name: "attn", Rows: rows, Spec: c.spec, Y: y, QKV: qkv, K: k, V: v})
}

// Attention equals the oracle over wrapped rings of floats and halves, window edges, inactive rows and several slots. So
// does RopeAppend before it, but for the last place of a half, where the two may round to either side.
func TestAttention(t *testing.T) {
	eachISA(t, 3, func(t *testing.T, d *Device) {
		rapid.Check(t, func(t *rapid.T) {
			c := drawAttention(t, 1)
			rope, tol := rapid.Bool().Draw(t, "rope"), 4e-6
			if rope && c.half {
				tol = 0x1p-10
			}
			against(t, d, tol, &c.step, func(r *rig) { c.build(r, 0, c.n, rope) })
		})
	})
}

// So it does with more rows than a unit takes, more heads that share a key head, and longer windows than are widened at a time.
func TestAttentionUnits(t *testing.T) {
	few, many := rapid.IntRange(1, 3), rapid.IntRange(queriesOfUnit+1, queriesOfUnit+40)
	eachISA(t, 3, func(t *testing.T, d *Device) {
		rapid.Check(t, func(t *rapid.T) {
			c := drawAttentionOf(t, 1, many, few, rapid.IntRange(valuesAtOnce+1, 200))
			if rapid.Bool().Draw(t, "heads") {
				c = drawAttentionOf(t, 1, few, many, rapid.IntRange(1, 20))
			}
			against(t, d, 4e-6, &c.step, func(r *rig) { c.build(r, 0, c.n, false) })
		})
	})
}

// Values go into rings of halves as the nearest half, ties to even, whatever their size.
func TestRopeAppendHalf(t *testing.T) {
	d := openISA(t, "generic", 1)
	spec := sdpa.Spec{QHeads: 1, KVHeads: 1, HeadDim: 2, Window: 1}
	rapid.Check(t, func(t *rapid.T) {
		v := float32(math.Ldexp(rapid.Float64Range(-2, 2).Draw(t, "fraction"), rapid.IntRange(-27, 17).Draw(t, "exponent")))
		v = rapid.SampledFrom([]float32{v, halfway(v), float32(math.Inf(1)), float32(math.NaN())}).Draw(t, "value")
		qkv := []float32{0, 0, 0, 0, v, -v}
		r := newRig(t, d)
		k := r.ring("k", 1, 1, 2, true, make([]float32, 2))
		r.prog.Add(&device.RopeAppend{
			Name: "rope", Rows: r.prog.NewRows("rows", 1, 2), Spec: spec, QKV: r.tensor("qkv", 1, 6, qkv), K: k, V: r.ring("v", 1, 1, 2, true, make([]float32, 2)),
		})
		got := r.run(&device.Step{Rows: []device.RowData{{Slot: []int32{0}, Pos: []int32{0}, Cos: []float32{1}, Sin: []float32{0}}}})["v"]
		near(t, "v", []float32{device.HalfToFloat(device.FloatToHalf(v)), device.HalfToFloat(device.FloatToHalf(-v))}, got, 0)
	})
}

// halfway lies exactly between two neighbouring normal halves near v.
func halfway(v float32) float32 { return math.Float32frombits(math.Float32bits(v)&^0x1fff | 0x1000) }

// Scores of any size give a weighted mean of the values: finite and within their range.
func TestAttentionHugeScores(t *testing.T) {
	eachISA(t, 2, func(t *testing.T, d *Device) {
		rapid.Check(t, func(t *rapid.T) {
			c := drawAttention(t, 1e4)
			r := newRig(t, d)
			c.build(r, 0, c.n, false)
			out, top := r.run(&c.step), 0.0
			for _, v := range out["v"] {
				top = max(top, math.Abs(float64(v)))
			}
			for i, v := range out["y"] {
				active := c.step.Rows[0].Slot[i/c.spec.QDim()] >= 0
				if active && !(math.Abs(float64(v)) <= top*(1+1e-5)) {
					t.Fatalf("y[%d] = %v, values reach %v", i, v, top)
				}
			}
		})
	})
}

// EmbedAdd equals the oracle for tables in every format.
func TestEmbedAdd(t *testing.T) {
	eachISA(t, 3, func(t *testing.T, d *Device) {
		rapid.Check(t, func(t *rapid.T) {
			rng := source(t)
			n, dim, vocab := rapid.IntRange(1, 9).Draw(t, "n"), rapid.IntRange(1, 200).Draw(t, "d"), rapid.IntRange(1, 20).Draw(t, "vocab")
			slots, capRows := rapid.IntRange(1, 3).Draw(t, "slots"), rapid.IntRange(1, 9).Draw(t, "cap")
			f, group := drawFormat(t)
			table := part(rng, f, group, vocab, dim, 0, 1)
			y, audio := normal(rng, n*dim, 1), normal(rng, slots*capRows*dim, 1)
			rows := drawRows(t, n, slots, n, 1)
			rows.Token = rapid.SliceOfN(rapid.Int32Range(0, int32(vocab-1)), n, n).Draw(t, "tokens")
			against(t, d, 0, &device.Step{Rows: []device.RowData{rows}}, func(r *rig) {
				set := r.prog.NewRows("rows", n, 0)
				set.HasTokens = true
				r.prog.Add(&device.EmbedAdd{
					Name: "embed", Rows: set, Y: r.tensor("y", n, dim, y), Table: r.weight(table), Audio: r.ring("audio", slots, capRows, dim, false, audio),
				})
			})
		})
	})
}

// RingWrite equals the oracle.
func TestRingWrite(t *testing.T) {
	d := openISA(t, "generic", 3)
	rapid.Check(t, func(t *rapid.T) {
		rng := source(t)
		n, width := rapid.IntRange(1, 9).Draw(t, "n"), rapid.IntRange(1, 20).Draw(t, "width")
		slots, capRows := rapid.IntRange(1, 3).Draw(t, "slots"), rapid.IntRange(1, 12).Draw(t, "cap")
		x, ring := normal(rng, n*width, 1), normal(rng, slots*capRows*width, 1)
		s := &device.Step{Rows: []device.RowData{drawRows(t, n, slots, capRows, 1)}}
		against(t, d, 0, s, func(r *rig) {
			r.prog.Add(&device.RingWrite{Name: "write", Rows: r.prog.NewRows("rows", n, 0), X: r.tensor("x", n, width, x), To: r.ring("ring", slots, capRows, width, false, ring)})
		})
	})
}

// ConvWindow equals the oracle, tails included.
func TestConvWindow(t *testing.T) {
	d := openISA(t, "generic", 3)
	rapid.Check(t, func(t *rapid.T) {
		rng := source(t)
		stride := rapid.IntRange(1, 2).Draw(t, "stride")
		n, c, slots := stride*rapid.IntRange(1, 9).Draw(t, "n"), rapid.IntRange(1, 30).Draw(t, "c"), rapid.IntRange(1, 3).Draw(t, "slots")
		x, y, tail := normal(rng, n*c, 1), normal(rng, n/stride*3*c, 1), normal(rng, slots*(3-stride)*c, 1)
		rows := drawRows(t, n, slots, n, stride)
		for i := range rows.Pos { // a stream at position 1 has one row of history, the other is zero
			if stride == 1 && rows.Slot[i] >= 0 && rows.Pos[i] == 1 && (i == 0 || rows.Slot[i-1] != rows.Slot[i]) {
				clear(tail[int(rows.Slot[i])*2*c:][:c])
			}
		}
		against(t, d, 0, &device.Step{Rows: []device.RowData{rows}}, func(r *rig) {
			r.prog.Add(&device.ConvWindow{
				Name: "conv", Rows: r.prog.NewRows("rows", n, 0), Stride: stride,
				X: r.tensor("x", n, c, x), Y: r.tensor("y", n/stride, 3*c, y), Tail: r.tensor("tail", slots*(3-stride), c, tail),
			})
		})
	})
}

// Argmax equals the oracle on rows full of ties, infinities and now and then a NaN.
func TestArgmax(t *testing.T) {
	d := openISA(t, "generic", 3)
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	rapid.Check(t, func(t *rapid.T) {
		n, vocab := rapid.IntRange(1, 5).Draw(t, "n"), rapid.IntRange(1, 40).Draw(t, "vocab")
		values := rapid.SampledFrom([][]float32{{1}, {-inf}, {-1, 0, 1}, {-inf, 2, 2, inf}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, nan}}).Draw(t, "values")
		x := rapid.SliceOfN(rapid.SampledFrom(values), n*vocab, n*vocab).Draw(t, "x")
		against(t, d, 0, &device.Step{}, func(r *rig) {
			r.prog.Add(&device.Argmax{Name: "argmax", X: r.tensor("x", n, vocab, x), IDs: r.tensor("ids", n, 1, make([]float32, n)), Top: r.tensor("top", n, 2, make([]float32, 2*n))})
		})
	})
}
