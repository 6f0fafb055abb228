package hip

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"voxtral/internal/device"
	"voxtral/internal/device/interp"
	"voxtral/sdpa"
)

// selfTest runs a small decoder layer on the device and on the oracle, with few rows and with many, and compares. It
// catches a compiler, driver or GPU that computes something else before any of it becomes text.
func selfTest(d *Device) error {
	for _, rows := range []int{1, 12} {
		want, err := probe(interp.New(), rows)
		if err != nil {
			return err
		}
		got, err := probe(d, rows)
		if err != nil {
			return err
		}
		scale := 0.0
		for _, v := range want {
			scale = max(scale, math.Abs(float64(v)))
		}
		for i, v := range want {
			if diff := math.Abs(float64(got[i]) - float64(v)); !(diff <= 1e-3*scale) {
				return fmt.Errorf("%d rows: value %d is %g, want %g", rows, i, got[i], v)
			}
		}
	}
	return nil
}

// probe is the output of one attention and feed-forward layer over fixed numbers: int4 products, F16 rings.
func probe(d device.Device, rows int) ([]float32, error) {
	const dim, hidden = 128, 160
	rng := rand.New(rand.NewPCG(7, 7))
	spec := sdpa.Spec{QHeads: 4, KVHeads: 2, HeadDim: 32, Window: 9}
	var held []device.Buffer
	defer func() {
		for _, b := range held {
			b.Free()
		}
	}()
	var firstErr error
	alloc := func(v []float32) device.Buffer {
		b, err := d.Alloc(4*len(v), device.State)
		if err == nil {
			held = append(held, b)
			err = d.Write(b, 0, device.F32Bytes(v))
		}
		if err != nil && firstErr == nil {
			firstErr = err
		}
		return b
	}
	weight := func(n, k, parts int) device.Weight {
		desc := device.WeightDesc{Name: "self-test"}
		for range parts {
			part := device.Part{Name: "self-test", Rows: n / parts, Cols: k, Format: device.Int4, Group: 32}
			part.Data = make([]byte, part.Rows*device.Int4.RowBytes(k, 32))
			for i := range part.Data {
				part.Data[i] = byte(rng.Uint32())
			}
			for range part.Rows * device.Groups(k, 32) {
				part.Scales = binary.LittleEndian.AppendUint16(part.Scales, device.FloatToHalf(0.02+0.01*rng.Float32()))
			}
			desc.Parts = append(desc.Parts, part)
		}
		w, err := d.Pack(desc)
		if err != nil && firstErr == nil {
			firstErr = err
		}
		return w
	}
	normal := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	capRows := spec.RingCap(rows)
	x, gain := alloc(normal(rows*dim)), alloc(normal(dim))
	keys, values := alloc(make([]float32, capRows*spec.KVDim())), alloc(make([]float32, capRows*spec.KVDim()))
	qkvW, outW, upW, downW := weight(spec.QKVDim(), dim, 1), weight(dim, spec.QDim(), 1), weight(2*hidden, dim, 2), weight(dim, hidden, 1)
	if firstErr != nil {
		return nil, firstErr
	}
	p := &device.Program{Name: "self-test"}
	set := p.NewRows("rows", rows, spec.HeadDim)
	xt, g := p.Bind("x", x, rows, dim), p.Bind("gain", gain, 1, dim)
	k, v := p.BindRing("k", keys, 1, capRows, spec.KVDim(), true), p.BindRing("v", values, 1, capRows, spec.KVDim(), true)
	norm, qkv, heads, mid := p.NewScratch("norm", rows, dim), p.NewScratch("qkv", rows, spec.QKVDim()), p.NewScratch("heads", rows, spec.QDim()), p.NewScratch("mid", rows, hidden)
	p.Add(&device.RMSNorm{Name: "norm", Y: norm, X: xt, Gain: g, Eps: 1e-5})
	p.Add(&device.Linear{Name: "qkv", Y: qkv, X: norm, W: qkvW})
	p.Add(&device.RopeAppend{Name: "rope", Rows: set, Spec: spec, QKV: qkv, K: k, V: v})
	p.Add(&device.Attention{Name: "attention", Rows: set, Spec: spec, Y: heads, QKV: qkv, K: k, V: v})
	p.Add(&device.Linear{Name: "out", Y: xt, X: heads, W: outW, Residual: xt})
	p.Add(&device.RMSNorm{Name: "norm", Y: norm, X: xt, Gain: g, Eps: 1e-5})
	p.Add(&device.Linear{Name: "up", Y: mid, X: norm, W: upW, Act: device.SwiGLU})
	p.Add(&device.Linear{Name: "down", Y: xt, X: mid, W: downW, Residual: xt})
	e, err := d.Compile(p)
	if err != nil {
		return nil, err
	}
	step := device.Step{Rows: []device.RowData{{Slot: make([]int32, rows), Pos: make([]int32, rows), Cos: make([]float32, rows*spec.HeadDim/2), Sin: make([]float32, rows*spec.HeadDim/2)}}}
	rotary := sdpa.NewRotary(1e4, spec.HeadDim)
	for i := range rows {
		step.Rows[0].Pos[i] = int32(i)
		rotary.Angles(step.Rows[0].Cos[i*spec.HeadDim/2:(i+1)*spec.HeadDim/2], step.Rows[0].Sin[i*spec.HeadDim/2:(i+1)*spec.HeadDim/2], i)
	}
	out := make([]float32, rows*dim)
	if err := e.Run(&step); err != nil {
		return nil, err
	}
	if err := d.Read(x, 0, device.F32Bytes(out)); err != nil {
		return nil, err
	}
	return out, e.Close()
}
