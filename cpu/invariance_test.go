package cpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"voxtral/internal/device"
	"voxtral/sdpa"
)

// A row of Linear has the same bits alone as among any number of others, on any number of threads.
func TestLinearRowsAndThreads(t *testing.T) {
	for _, isa := range InstructionSets() {
		t.Run(isa, func(t *testing.T) {
			one, three := openISA(t, isa, 1), openISA(t, isa, 3)
			rapid.Check(t, func(t *rapid.T) {
				rng := source(t)
				m, k, n := rapid.IntRange(1, 64).Draw(t, "m"), rapid.IntRange(1, 500).Draw(t, "k"), 2*rapid.IntRange(1, 40).Draw(t, "n")
				f, group := drawFormat(t)
				act := rapid.SampledFrom([]device.Activation{device.NoAct, device.GELU, device.SwiGLU}).Draw(t, "act")
				w, x := part(rng, f, group, n, k, 0, 1), normal(rng, m*k, 1)
				outputs := n
				if act == device.SwiGLU {
					outputs /= 2
				}
				run := func(d *Device, from, rows int) map[string][]float32 {
					r := newRig(t, d)
					r.prog.Add(&device.Linear{
						Name: "linear", X: r.tensor("x", rows, k, x[from*k:(from+rows)*k]), Y: r.tensor("y", rows, outputs, make([]float32, rows*outputs)), W: r.weight(w), Act: act,
					})
					return r.run(&device.Step{})
				}
				all := run(three, 0, m)
				sameBits(t, all, run(one, 0, m))
				for range 5 {
					row := rng.IntN(m)
					sameBits(t, map[string][]float32{"y": all["y"][row*outputs : (row+1)*outputs]}, run(one, row, 1))
				}
			})
		})
	}
}

// A row of Attention has the same bits alone as among others, on any number of threads.
func TestAttentionRowsAndThreads(t *testing.T) {
	for _, isa := range InstructionSets() {
		t.Run(isa, func(t *testing.T) {
			one, three := openISA(t, isa, 1), openISA(t, isa, 3)
			rapid.Check(t, func(t *rapid.T) {
				c := drawAttention(t, 1)
				run := func(d *Device, from, n int, s *device.Step) []float32 {
					r := newRig(t, d)
					c.build(r, from, n, false)
					return r.run(s)["y"]
				}
				all, width := run(three, 0, c.n, &c.step), c.spec.QDim()
				sameBits(t, map[string][]float32{"y": all}, map[string][]float32{"y": run(one, 0, c.n, &c.step)})
				for row := range c.n {
					alone := run(three, row, 1, &device.Step{Rows: []device.RowData{oneRow(c.step.Rows[0], row, c.spec.HeadDim/2)}})
					sameBits(t, map[string][]float32{"y": all[row*width : (row+1)*width]}, map[string][]float32{"y": alone})
				}
			})
		})
	}
}

// A stream through convolution window, rotation and attention has the same bits however it is split into steps and
// however large the ring is.
func TestStreamSplits(t *testing.T) {
	const rows, c = 24, 3
	spec := sdpa.Spec{QHeads: 4, KVHeads: 2, HeadDim: 22, Window: 7}
	eachISA(t, 3, func(t *testing.T, d *Device) {
		rapid.Check(t, func(t *rapid.T) {
			rng := source(t)
			half := rapid.Bool().Draw(t, "half")
			x, qkv := normal(rng, rows*c, 1), normal(rng, rows*spec.QKVDim(), 1)
			angles := normal(rng, rows*spec.HeadDim/2, 1)
			cos, sin := make([]float32, len(angles)), make([]float32, len(angles))
			for i, a := range angles {
				s, c := math.Sincos(float64(a))
				sin[i], cos[i] = float32(s), float32(c)
			}
			// stream runs everything in steps of the given sizes over rings of spare rows too many.
			stream := func(steps []int, spare int) (window, attended []float32) {
				capRows := rows + spec.Window + spare
				ring := make([]float32, capRows*spec.KVDim())
				k, v, tail := ring, ring, normal(rng, 2*c, 1)
				from := 0
				for _, n := range steps {
					r := newRig(t, d)
					set := r.prog.NewRows("rows", n, spec.HeadDim)
					q := r.tensor("qkv", n, spec.QKVDim(), qkv[from*spec.QKVDim():(from+n)*spec.QKVDim()])
					kr, vr := r.ring("k", 1, capRows, spec.KVDim(), half, k), r.ring("v", 1, capRows, spec.KVDim(), half, v)
					r.prog.Add(&device.ConvWindow{
						Name: "conv", Rows: set, Stride: 1, X: r.tensor("x", n, c, x[from*c:(from+n)*c]),
						Y: r.tensor("window", n, 3*c, make([]float32, n*3*c)), Tail: r.tensor("tail", 2, c, tail),
					})
					r.prog.Add(&device.RopeAppend{Name: "rope", Rows: set, Spec: spec, QKV: q, K: kr, V: vr})
					r.prog.Add(&device.Attention{Name: "attn", Rows: set, Spec: spec, QKV: q, K: kr, V: vr, Y: r.tensor("y", n, spec.QDim(), make([]float32, n*spec.QDim()))})
					data := device.RowData{Slot: make([]int32, n), Pos: make([]int32, n)}
					pairs := spec.HeadDim / 2
					data.Cos, data.Sin = cos[from*pairs:(from+n)*pairs], sin[from*pairs:(from+n)*pairs]
					for i := range n {
						data.Pos[i] = int32(from + i)
					}
					out := r.run(&device.Step{Rows: []device.RowData{data}})
					k, v, tail = out["k"], out["v"], out["tail"]
					window, attended = append(window, out["window"]...), append(attended, out["y"]...)
					from += n
				}
				return window, attended
			}
			var steps []int
			for left := rows; left > 0; left -= steps[len(steps)-1] {
				steps = append(steps, rapid.IntRange(1, left).Draw(t, "step"))
			}
			w0, y0 := stream([]int{rows}, 0)
			w1, y1 := stream(steps, rapid.IntRange(1, 9).Draw(t, "spare"))
			sameBits(t, map[string][]float32{"window": w0, "y": y0}, map[string][]float32{"window": w1, "y": y1})
		})
	})
}

// The exponential of the softmax is within two units in the last place. A position at score 0 beside others below −22
// makes the sum of weights round to 1, so that with unit vectors as values the output is the exponential itself.
func TestExponential(t *testing.T) {
	const heads, d = 256, 64
	spec := sdpa.Spec{QHeads: heads, KVHeads: heads, HeadDim: d, Window: d}
	eachISA(t, 1, func(t *testing.T, dev *Device) {
		r := newRig(t, dev)
		qkv, k, v := make([]float32, spec.QKVDim()), make([]float32, d*spec.KVDim()), make([]float32, d*spec.KVDim())
		at := func(pos, head int) int { return pos*spec.KVDim() + head*d }
		for h := range heads {
			qkv[h*d] = 8 // cancels the scale of 1/8
			for pos := range d {
				v[at(pos, h)+pos] = 1
				if pos > 0 {
					k[at(pos, h)] = -22 - 83*(float32(h)+float32(pos)/d)/heads
				}
			}
		}
		r.prog.Add(&device.Attention{
			Name: "attn", Rows: r.prog.NewRows("rows", 1, d), Spec: spec, Y: r.tensor("y", 1, spec.QDim(), make([]float32, spec.QDim())),
			QKV: r.tensor("qkv", 1, spec.QKVDim(), qkv), K: r.ring("k", 1, d, spec.KVDim(), false, k), V: r.ring("v", 1, d, spec.KVDim(), false, v),
		})
		y := r.run(&device.Step{Rows: []device.RowData{{Slot: []int32{0}, Pos: []int32{d - 1}, Cos: make([]float32, d/2), Sin: make([]float32, d/2)}}})["y"]
		worst := 0.0
		for h := range heads {
			for pos := 1; pos < d; pos++ {
				want := math.Exp(float64(k[at(pos, h)]))
				unit := math.Max(math.Exp2(math.Floor(math.Log2(want))-23), 0x1p-149)
				worst = max(worst, math.Abs(float64(y[h*d+pos])-want)/unit)
			}
		}
		t.Logf("worst error %.2f units in the last place", worst)
		require.Less(t, worst, 2.0)
	})
}
