package interp

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/internal/device"
	"voxtral/sdpa"
)

// f32Part stores rows of float32.
func f32Part(rows [][]float32) device.Part {
	p := device.Part{Name: "w", Rows: len(rows), Cols: len(rows[0]), Format: device.F32}
	for _, row := range rows {
		for _, v := range row {
			p.Data = binary.LittleEndian.AppendUint32(p.Data, math.Float32bits(v))
		}
	}
	return p
}

func buffer32(t *testing.T, d device.Device, v []float32) device.Buffer {
	b, err := d.Alloc(4*len(v), device.HostIO)
	require.NoError(t, err)
	require.NoError(t, d.Write(b, 0, device.F32Bytes(v)))
	return b
}

func read32(t *testing.T, d device.Device, b device.Buffer, n int) []float32 {
	v := make([]float32, n)
	require.NoError(t, d.Read(b, 0, device.F32Bytes(v)))
	return v
}

// The ops, on numbers small enough to work out by hand.
func TestOpsByHand(t *testing.T) {
	d := New()
	w, err := d.Pack(device.WeightDesc{Name: "w", Parts: []device.Part{f32Part([][]float32{{1, 2}, {3, 4}}), f32Part([][]float32{{0, 1}, {1, 0}})}})
	require.NoError(t, err)

	p := &device.Program{Name: "hand"}
	x := p.Bind("x", buffer32(t, d, []float32{3, 4}), 1, 2)
	y := p.Bind("y", buffer32(t, d, make([]float32, 4)), 1, 4)
	z := p.Bind("z", buffer32(t, d, []float32{100, 200}), 1, 2)
	n := p.Bind("n", buffer32(t, d, make([]float32, 2)), 1, 2)
	gain := p.Bind("gain", buffer32(t, d, []float32{2, 1}), 1, 2)
	bias := p.Bind("bias", buffer32(t, d, []float32{0, 0, 0, 5}), 1, 4)
	ids := p.Bind("ids", buffer32(t, d, []float32{9}), 1, 1)
	top := p.Bind("top", buffer32(t, d, make([]float32, 2)), 1, 2)
	p.Add(&device.RMSNorm{Name: "norm", Y: n, X: x, Gain: gain, Eps: 0.5})
	p.Add(&device.Linear{Name: "linear", Y: y, X: x, W: w, Bias: bias})
	p.Add(&device.Linear{Name: "swiglu", Y: z, X: x, W: w, Act: device.SwiGLU, Residual: z})
	p.Add(&device.Argmax{Name: "argmax", X: y, IDs: ids, Top: top})
	exec, err := d.Compile(p)
	require.NoError(t, err)
	var labels []string
	require.NoError(t, exec.Run(&device.Step{Trace: func(label string, _, _ int, _ []float32) { labels = append(labels, label) }}))
	require.Equal(t, []string{"norm", "linear", "swiglu", "argmax"}, labels)

	rms := math.Sqrt((9.0+16)/2 + 0.5)
	require.InDeltaSlice(t, []float64{6 / rms, 4 / rms}, widen(read32(t, d, n.Mem.Buf, 2)), 1e-6)
	require.Equal(t, []float32{11, 25, 4, 8}, read32(t, d, y.Mem.Buf, 4))
	require.InDeltaSlice(t, []float64{100 + 11/(1+math.Exp(-11))*4, 200 + 25/(1+math.Exp(-25))*3}, widen(read32(t, d, z.Mem.Buf, 2)), 1e-4)
	var id [4]byte
	require.NoError(t, d.Read(ids.Mem.Buf, 0, id[:]))
	require.EqualValues(t, 1, binary.LittleEndian.Uint32(id[:]))
	require.Equal(t, []float32{25, 11}, read32(t, d, top.Mem.Buf, 2))
}

func widen(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// The two convolutions of the stem, as window + Linear, equal a causal convolution written out, for any even split.
func TestConvWindowIsCausalConvolution(t *testing.T) {
	const frames, c = 12, 3
	in := make([]float32, frames*c)
	for i := range in {
		in[i] = float32(i*i%17) - 8
	}
	at := func(time, ch int) float32 {
		if time < 0 {
			return 0
		}
		return in[time*c+ch]
	}
	for _, stride := range []int{1, 2} {
		for _, step := range []int{2, 4, 12} {
			d := New()
			tail := buffer32(t, d, []float32{7, 7, 7, 7, 7, 7}) // left over from an earlier stream: must not show
			var got []float32
			for from := 0; from < frames; from += step {
				p := &device.Program{Name: "conv"}
				rows := p.NewRows("frames", step, 0)
				y := p.Bind("y", buffer32(t, d, make([]float32, step/stride*3*c)), step/stride, 3*c)
				p.Add(&device.ConvWindow{
					Name: "window", Rows: rows, Stride: stride, Y: y,
					X: p.Bind("x", buffer32(t, d, in[from*c:(from+step)*c]), step, c), Tail: p.Bind("tail", tail, 3-stride, c),
				})
				exec, err := d.Compile(p)
				require.NoError(t, err)
				pos := make([]int32, step)
				for i := range pos {
					pos[i] = int32(from + i)
				}
				require.NoError(t, exec.Run(&device.Step{Rows: []device.RowData{{Slot: make([]int32, step), Pos: pos}}}))
				got = append(got, read32(t, d, y.Mem.Buf, y.Rows*y.Cols)...)
			}
			for o := range frames / stride {
				for ch := range c {
					for j := range 3 {
						require.Equal(t, at(o*stride+j-(3-stride), ch), got[o*3*c+3*ch+j], "stride %d step %d out %d", stride, step, o)
					}
				}
			}
		}
	}
}

// Misuse is an error that names the program and the op, never a panic.
func TestCompileAndRunRefuse(t *testing.T) {
	d := New()
	spec := sdpa.Spec{QHeads: 2, KVHeads: 1, HeadDim: 2, Window: 4}
	build := func(change func(p *device.Program, o *device.Attention)) error {
		p := &device.Program{Name: "prog"}
		rows := p.NewRows("rows", 2, 2)
		ring := p.BindRing("ring", buffer32(t, d, make([]float32, 5*2)), 1, 5, 2, false)
		o := &device.Attention{Name: "attn", Rows: rows, Spec: spec, Y: p.NewScratch("y", 2, 4), QKV: p.NewScratch("qkv", 2, 8), K: ring, V: ring}
		change(p, o)
		p.Add(o)
		_, err := d.Compile(p)
		return err
	}
	require.NoError(t, build(func(*device.Program, *device.Attention) {}))
	require.ErrorContains(t, build(func(_ *device.Program, o *device.Attention) { o.Spec.Window = 5 }), "op attn: ring of 5 rows is too short")
	require.ErrorContains(t, build(func(p *device.Program, o *device.Attention) { o.Y = p.NewScratch("y2", 2, 3) }), "output y2 is [2, 3], want [2, 4]")
	require.ErrorContains(t, build(func(_ *device.Program, o *device.Attention) { o.Y.Offset = 1 }), "reaches past")
	require.ErrorContains(t, build(func(p *device.Program, o *device.Attention) {
		o.K = p.BindRing("big", buffer32(t, d, make([]float32, 4)), 1, 5, 2, false)
	}), "its buffer has 16")

	p := &device.Program{Name: "prog"}
	rows := p.NewRows("rows", 1, 0)
	p.Add(&device.RingWrite{Name: "ring", Rows: rows, X: p.NewScratch("x", 1, 2), To: p.BindRing("r", buffer32(t, d, make([]float32, 4)), 1, 2, 2, false)})
	exec, err := d.Compile(p)
	require.NoError(t, err)
	require.ErrorContains(t, exec.Run(&device.Step{}), "0 row sets, want 1")
	require.ErrorContains(t, exec.Run(&device.Step{Rows: []device.RowData{{Slot: []int32{1}, Pos: []int32{0}}}}), "slot 1 of 1")
	require.ErrorContains(t, exec.Run(&device.Step{Rows: []device.RowData{{Slot: []int32{0}, Pos: []int32{-1}}}}), "position -1")
	require.NoError(t, exec.Run(&device.Step{Rows: []device.RowData{{Slot: []int32{-1}, Pos: []int32{0}}}}))

	two := &device.Program{Name: "prog"}
	set := two.NewRows("rows", 4, 2)
	long := two.BindRing("ring", buffer32(t, d, make([]float32, 2*5*2)), 2, 5, 2, false)
	two.Add(&device.Attention{Name: "attn", Rows: set, Spec: spec, Y: two.NewScratch("y", 4, 4), QKV: two.NewScratch("qkv", 4, 8), K: long, V: long})
	exec, err = d.Compile(two)
	require.NoError(t, err)
	step := func(slot, pos []int32) error {
		return exec.Run(&device.Step{Rows: []device.RowData{{Slot: slot, Pos: pos, Cos: make([]float32, 4), Sin: make([]float32, 4)}}})
	}
	require.NoError(t, step([]int32{1, 1, 0, 0}, []int32{7, 8, 0, 1}))
	require.ErrorContains(t, step([]int32{1, 1, 0, 0}, []int32{7, 9, 0, 1}), "positions must be consecutive")
	require.ErrorContains(t, step([]int32{1, 0, 0, 1}, []int32{7, 0, 1, 8}), "slot 1 are not side by side")
	require.ErrorContains(t, step([]int32{1, 1, 1, 0}, []int32{7, 8, 9, 0}), "slot 1: ring of 5 rows is too short")

	same := &device.Program{Name: "prog"}
	square, err := d.Pack(device.WeightDesc{Name: "w", Parts: []device.Part{f32Part([][]float32{{1, 2}, {3, 4}})}})
	require.NoError(t, err)
	x := same.NewScratch("x", 2, 2)
	same.Add(&device.Linear{Name: "linear", Y: x, X: x, W: square})
	_, err = d.Compile(same)
	require.ErrorContains(t, err, "share elements of x")
	same.Ops = []device.Op{&device.RingWrite{Name: "ring"}}
	_, err = d.Compile(same)
	require.ErrorContains(t, err, "no row set")
}
