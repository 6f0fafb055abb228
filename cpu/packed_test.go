package cpu

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"voxtral/internal/device"
	"voxtral/internal/device/interp"
)

// rounds says whether the device rounds activations that meet a weight of these parts.
func (d *Device) rounds(parts []device.Part) bool {
	if d.kernels.packed.linear == nil {
		return false
	}
	for _, p := range parts {
		if !p.Format.Grouped() || p.Format != parts[0].Format || p.Group != parts[0].Group {
			return false
		}
	}
	return true
}

// budget is how far the contract lets a product of a packed row w with x be from the exact one. sums of floats in any order
// add 2⁻²⁴ of Σ|x·w| for every column.
func (d *Device) budget(x, w []float32) float64 {
	total, blocks, weights := 0.0, 0.0, 0.0
	for from := 0; from < len(x); from += 32 {
		top, size := 0.0, 0.0
		for i := from; i < min(from+32, len(x)); i++ {
			total += math.Abs(float64(x[i]) * float64(w[i]))
			top, size = max(top, math.Abs(float64(x[i]))), size+math.Abs(float64(w[i]))
		}
		blocks, weights = blocks+top*size, weights+size
	}
	bound := float64(len(x)+8)*0x1p-24*total + 0x1p-80*weights // less counts as nothing
	if d.kernels.packed.linear != nil {
		bound += blocks / 254 * 1.0001 // the scale itself is a float
	}
	return bound
}

// hard are activations that rounding finds hard: nothing, next to nothing, everything in one place.
func hard(t *rapid.T, rng *rand.Rand, n int) []float32 {
	x := normal(rng, n, rapid.SampledFrom([]float64{0, 1e-30, 1e-3, 1, 1e4}).Draw(t, "size"))
	if rapid.Bool().Draw(t, "outlier") {
		x[rng.IntN(n)] = 1e4
	}
	return x
}

// hardPart is a part whose scales may be zero, as large and as small as halves go, or negative.
func hardPart(t *rapid.T, rng *rand.Rand, f device.Format, group, rows, cols, head int) device.Part {
	p := part(rng, f, group, rows, cols, head, 1)
	for i := 0; i < len(p.Scales); i += 2 {
		if s := rapid.SampledFrom([]uint16{1, 0, 0x0001, 0x7bff, 0x8400}).Draw(t, "scale"); s != 1 {
			binary.LittleEndian.PutUint16(p.Scales[i:], s)
		}
		if len(p.Scales) > 64 {
			i += 2 * rng.IntN(len(p.Scales)/32)
		}
	}
	return p
}

// Linear over packed weights keeps within the budget of its instruction set, for every format, group, shape and stacking.
func TestPackedLinear(t *testing.T) {
	worst := map[string]float64{}
	eachISA(t, 2, func(t *testing.T, d *Device) {
		rapid.Check(t, func(t *rapid.T) {
			rng := source(t)
			f := rapid.SampledFrom([]device.Format{device.Int4, device.Int8}).Draw(t, "format")
			group := rapid.SampledFrom([]int{32, 64, 128}).Draw(t, "group")
			m, k := rapid.IntRange(1, 64).Draw(t, "m"), rapid.IntRange(1, 700).Draw(t, "k")
			var parts []device.Part
			n := 0
			for range rapid.IntRange(1, 3).Draw(t, "parts") {
				rows, head := rapid.IntRange(1, 40).Draw(t, "rows"), 0
				if rapid.Bool().Draw(t, "rotary") {
					head = 2 * rapid.IntRange(1, 9).Draw(t, "head")
					rows = head * rapid.IntRange(1, 3).Draw(t, "heads")
				}
				parts = append(parts, hardPart(t, rng, f, group, rows, k, head))
				n += rows
			}
			x := hard(t, rng, m*k)
			build := func(r *rig) {
				r.prog.Add(&device.Linear{Name: "linear", X: r.tensor("x", m, k, x), Y: r.tensor("y", m, n, make([]float32, m*n)), W: r.weight(parts...)})
			}
			oracle, own := newRig(t, interp.New()), newRig(t, d)
			build(oracle)
			build(own)
			want, got := oracle.run(&device.Step{})["y"], own.run(&device.Step{})["y"]
			w, row := make([]float32, k), 0
			for i := range parts {
				for r := range parts[i].Rows {
					parts[i].Dequantize(w, parts[i].StoredRow(r))
					for j := range m {
						at := j*n + row
						off, bound := math.Abs(float64(want[at])-float64(got[at])), d.budget(x[j*k:(j+1)*k], w)
						if !(off <= bound) {
							t.Fatalf("y[%d][%d] = %v, want %v within %g", j, row, got[at], want[at], bound)
						}
						if bound > 1e-20 {
							worst[d.isa] = max(worst[d.isa], off/bound)
						}
					}
					row++
				}
			}
		})
	})
	for isa, share := range worst {
		t.Logf("%s: largest share of the budget %.3f", isa, share)
	}
}

// Instruction sets differ in the instructions that sum products of integers, on amd64 and arm64 alike, never in a bit of what
// the contract of integer.c says: exact sums of blocks, added by turns. Vectors of 256 bits have two turns, all others four.
func TestPackedLinearOneArithmetic(t *testing.T) {
	eachISA(t, 2, func(t *testing.T, d *Device) {
		if d.kernels.packed.linear == nil {
			require.Equal(t, "generic", d.isa) // multiplies floats
			return
		}
		turns := 4
		if strings.HasPrefix(d.isa, "avx") && !strings.HasPrefix(d.isa, "avx512") {
			turns = 2
		}
		rapid.Check(t, func(t *rapid.T) {
			rng := source(t)
			f := rapid.SampledFrom([]device.Format{device.Int4, device.Int8}).Draw(t, "format")
			group := rapid.SampledFrom([]int{32, 64, 128}).Draw(t, "group")
			m, k, n := rapid.IntRange(1, 64).Draw(t, "m"), rapid.IntRange(1, 2100).Draw(t, "k"), rapid.IntRange(1, 70).Draw(t, "n")
			x, w := hard(t, rng, m*k), hardPart(t, rng, f, group, n, k, 0)
			r := newRig(t, d)
			r.prog.Add(&device.Linear{Name: "linear", X: r.tensor("x", m, k, x), Y: r.tensor("y", m, n, make([]float32, m*n)), W: r.weight(w)})
			y := r.run(&device.Step{})["y"]
			rows := make([]quantized, n)
			for i := range rows {
				rows[i] = storedRow(&w, i)
			}
			for i := range m {
				q := rounded(x[i*k:(i+1)*k], turns == 2)
				for j := range rows {
					if want, got := q.dot(&rows[j], turns), y[i*n+j]; math.Float32bits(want) != math.Float32bits(got) {
						t.Fatalf("y[%d][%d] = %v, want %v", i, j, got, want)
					}
				}
			}
		})
	})
}

// quantized is a row in whole blocks of 32 columns, each with a scale.
type quantized struct {
	codes  []int32
	scales []float32
}

// storedRow is a row of a packed part; what its last block lacks is zero.
func storedRow(p *device.Part, row int) quantized {
	unit := *p
	unit.Scales = bytes.Repeat([]byte{0x00, 0x3c}, len(p.Scales)/2) // 1, so that values are codes
	w, groups := make([]float32, p.Cols), device.Groups(p.Cols, p.Group)
	unit.Dequantize(w, row)
	q := quantized{codes: make([]int32, (p.Cols+31)/32*32)}
	for i, c := range w {
		q.codes[i] = int32(c)
		if i%32 == 0 {
			q.scales = append(q.scales, device.HalfToFloat(binary.LittleEndian.Uint16(p.Scales[2*(row*groups+i/p.Group):])))
		}
	}
	return q
}

// rounded are activations as integer.c has them. fused: x · 127 / largest is not rounded to a float before it becomes a code.
func rounded(x []float32, fused bool) quantized {
	q := quantized{codes: make([]int32, (len(x)+31)/32*32)}
	for from := 0; from < len(x); from += 32 {
		block := x[from:min(from+32, len(x))]
		largest := float32(0)
		for _, v := range block {
			largest = max(largest, float32(math.Abs(float64(v))))
		}
		if largest < 0x1p-80 {
			q.scales = append(q.scales, 0)
			continue
		}
		inverse := 127 / largest
		for i, v := range block {
			product := float64(v) * float64(inverse)
			if !fused {
				product = float64(float32(product))
			}
			q.codes[from+i] = int32(math.RoundToEven(product))
		}
		q.scales = append(q.scales, largest/127)
	}
	return q
}

func (q *quantized) dot(w *quantized, turns int) float32 {
	var sums [4]float32
	for b, scale := range q.scales {
		block := int32(0)
		for i := 32 * b; i < 32*b+32; i++ {
			block += q.codes[i] * w.codes[i]
		}
		sums[b%turns] = fma32(float32(block), scale*w.scales[b], sums[b%turns])
	}
	return (sums[0] + sums[1]) + (sums[2] + sums[3])
}

// fma32 is a·b + c, rounded once. The sum of doubles is rounded to odd first, so that the second rounding does no harm.
func fma32(a, b, c float32) float32 {
	p, d := float64(a)*float64(b), float64(c)
	s := p + d
	t := s - p
	if off := (p - (s - t)) + (d - t); off != 0 && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Copysign(math.Inf(1), off))
	}
	return float32(s)
}

// The typical error, which the budget's worst case does not show, against the size of the result: both roundings together
// stay below half a percent.
func TestPackedLinearTypicalError(t *testing.T) {
	const m, k, n = 8, 3072, 64
	eachISA(t, 2, func(t *testing.T, d *Device) {
		for _, f := range []device.Format{device.Int4, device.Int8} {
			rng := rand.New(rand.NewPCG(7, uint64(f)))
			w, x := part(rng, f, 32, n, k, 0, 1), normal(rng, m*k, 1)
			build := func(r *rig) map[string][]float32 {
				r.prog.Add(&device.Linear{Name: "linear", X: r.tensor("x", m, k, x), Y: r.tensor("y", m, n, make([]float32, m*n)), W: r.weight(w)})
				return r.run(&device.Step{})
			}
			want, got := build(newRig(t, interp.New()))["y"], build(newRig(t, d))["y"]
			off, size := 0.0, 0.0
			for i := range want {
				off += math.Pow(float64(want[i]-got[i]), 2)
				size += math.Pow(float64(want[i]), 2)
			}
			t.Logf("%s: relative error %.2g", f, math.Sqrt(off/size))
			require.Less(t, math.Sqrt(off/size), 0.012)
		}
	})
}

// A value that is not a number makes its row's results such, and no other's.
func TestPackedLinearNotFinite(t *testing.T) {
	const m, k, n = 3, 100, 40
	eachISA(t, 2, func(t *testing.T, d *Device) {
		for _, f := range []device.Format{device.Int4, device.Int8} {
			for _, bad := range []float64{math.NaN(), math.Inf(1)} {
				rng := rand.New(rand.NewPCG(1, 2))
				x := normal(rng, m*k, 1)
				x[k+17] = float32(bad)
				r := newRig(t, d)
				w := part(rng, f, 32, n, k, 0, 1)
				r.prog.Add(&device.Linear{Name: "linear", X: r.tensor("x", m, k, x), Y: r.tensor("y", m, n, make([]float32, m*n)), W: r.weight(w)})
				for i, v := range r.run(&device.Step{})["y"] {
					finite := !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
					require.Equal(t, i/n != 1, finite, "%s y[%d][%d] = %v", f, i/n, i%n, v)
				}
			}
		}
	})
}

// Watched or not, a program leaves the same bits in all memory that it shares: norms before and argmax behind a Linear of
// any format are fused only where nobody can tell.
func TestFusedEqualsSingleOps(t *testing.T) {
	eachISA(t, 3, func(t *testing.T, d *Device) {
		rapid.Check(t, func(t *rapid.T) {
			rng := source(t)
			f, group := drawFormat(t)
			m, k, n := rapid.IntRange(1, 40).Draw(t, "m"), rapid.IntRange(1, 300).Draw(t, "k"), rapid.IntRange(1, 200).Draw(t, "n")
			x, gain, ada := hard(t, rng, m*k), normal(rng, k, 1), normal(rng, k, 0.1)
			w, extra := part(rng, f, group, n, k, 0, 1), normal(rng, m*n, 1)
			if rapid.IntRange(0, 3).Draw(t, "ties") == 0 { // all rows alike
				clear(w.Data)
			}
			if rapid.IntRange(0, 3).Draw(t, "nan") == 0 {
				x[rng.IntN(len(x))] = float32(math.NaN())
			}
			withNorm, withAda, withArgmax, residual := rapid.Bool().Draw(t, "norm"), rapid.Bool().Draw(t, "ada"), rapid.Bool().Draw(t, "argmax"), rapid.Bool().Draw(t, "residual")
			reader := rapid.IntRange(0, 2).Draw(t, "reader") // of the normed rows, of the logits
			rows, ones := device.RowData{Slot: make([]int32, m), Pos: indices(m)}, slices.Repeat([]float32{1}, 300)
			run := func(watch func(*device.Step)) map[string][]float32 {
				r := newRig(t, d)
				set := r.prog.NewRows("rows", m, 0)
				in, normed, logits := r.tensor("x", m, k, x), r.prog.NewScratch("normed", m, k), r.prog.NewScratch("logits", m, n)
				if withNorm {
					o := &device.RMSNorm{Name: "norm", Rows: set, X: in, Y: normed, Gain: r.tensor("gain", 1, k, gain), Eps: 1e-5}
					if withAda {
						o.Ada = r.tensor("ada", 1, k, ada)
					}
					r.prog.Add(o)
					in = normed
				}
				o := &device.Linear{Name: "linear", X: in, Y: logits, W: r.weight(w)}
				if !withArgmax {
					o.Y = r.tensor("y", m, n, make([]float32, m*n))
				}
				if residual {
					o.Residual = r.tensor("residual", m, n, extra)
				}
				r.prog.Add(o)
				if withArgmax {
					r.prog.Add(&device.Argmax{Name: "argmax", X: o.Y, IDs: r.tensor("ids", m, 1, make([]float32, m)), Top: r.tensor("top", m, 2, make([]float32, 2*m))})
				}
				read := func(x device.Tensor) {
					r.prog.Add(&device.RMSNorm{Name: "read", X: x, Y: r.tensor("seen", m, x.Cols, make([]float32, m*x.Cols)), Gain: r.tensor("ones", 1, x.Cols, ones[:x.Cols]), Eps: 1})
				}
				switch {
				case reader == 1 && withNorm:
					read(normed)
				case reader == 2 && withArgmax:
					read(o.Y)
				}
				s := &device.Step{Rows: []device.RowData{rows}}
				watch(s)
				return r.run(s)
			}
			plain := run(func(s *device.Step) { s.Trace = func(string, int, int, []float32) {} })
			sameBits(t, plain, run(func(*device.Step) {}))
		})
	})
}
