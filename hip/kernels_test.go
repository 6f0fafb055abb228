package hip

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/hip/kernels"
	"voxtral/internal/device"
	"voxtral/sdpa"
)

// runner runs kernels: an emulated GPU, or a real one.
type runner interface {
	wave() int
	load(t *testing.T, m kernels.Module)
	// alloc copies data to the device.
	alloc(t *testing.T, data []byte) uint64
	read(t *testing.T, at uint64, data []byte)
	launch(t *testing.T, kernel string, grid [3]int, block, lds int, args []byte)
}

// kernelArgs lays kernel arguments out as every ABI here does: in order, each aligned to its size.
func kernelArgs(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case uint64:
			for len(b)%8 != 0 {
				b = append(b, 0)
			}
			b = binary.LittleEndian.AppendUint64(b, v)
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(int32(v)))
		case float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		default:
			panic(fmt.Sprintf("argument of type %T", v))
		}
	}
	return b
}

func normals(rng *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(scale * rng.NormFloat64())
	}
	return v
}

func floats(t *testing.T, g runner, v []float32) uint64 { return g.alloc(t, device.F32Bytes(v)) }
func ints(t *testing.T, g runner, v []int32) uint64     { return g.alloc(t, device.I32Bytes(v)) }

func readFloats(t *testing.T, g runner, at uint64, n int) []float32 {
	v := make([]float32, n)
	g.read(t, at, device.F32Bytes(v))
	return v
}

func nans(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.NaN())
	}
	return v
}

// worst is the largest |got − want|/scale, and the place.
func worst(got []float32, want, scale []float64) (float64, int) {
	top, at := 0.0, 0
	for i := range want {
		e := math.Abs(float64(got[i])-want[i]) / scale[i]
		if !(e <= top) {
			top, at = e, i
		}
	}
	return top, at
}

// product is a matrix product and all that is fused with it, in float64; scale bounds what rounding may do to each value.
type product struct {
	d              device.WeightDesc
	m              int
	x              []float32
	gain, ada      []float32 // or nil
	slot           []int32
	bias, residual []float32 // or nil
	act            device.Activation
}

const testEps = 1e-5

func (p *product) input(j int) []float64 {
	k := p.d.Cols()
	x, square := make([]float64, k), 0.0
	for i := range x {
		x[i] = float64(p.x[j*k+i])
		square += x[i] * x[i]
	}
	if p.gain == nil {
		return x
	}
	norm := 1 / math.Sqrt(square/float64(k)+testEps)
	for i := range x {
		x[i] *= norm * float64(p.gain[i])
		if p.ada != nil {
			x[i] *= 1 + float64(p.ada[int(max(p.slot[j], 0))*k+i])
		}
	}
	return x
}

// plain gives X·Wᵀ + bias [m, n] and Σ|x·w| + |bias|.
func (p *product) plain() (y, scale []float64) {
	n := p.d.Rows()
	y, scale = make([]float64, p.m*n), make([]float64, p.m*n)
	for row := range n {
		w := oracleRow(&p.d, row)
		for j := range p.m {
			at := j*n + row
			for i, x := range p.input(j) {
				y[at] += x * float64(w[i])
				scale[at] += math.Abs(x * float64(w[i]))
			}
			if p.bias != nil {
				y[at] += float64(p.bias[row])
				scale[at] += math.Abs(float64(p.bias[row]))
			}
			scale[at] += 1e-6
		}
	}
	return y, scale
}

func (p *product) want() (y, scale []float64) {
	y, scale = p.plain()
	n := p.d.Rows()
	switch p.act {
	case device.GELU:
		for i, v := range y {
			y[i] = 0.5 * v * math.Erfc(-v/math.Sqrt2)
			scale[i] += 0.1
		}
	case device.SwiGLU:
		h := n / 2
		out, bound := make([]float64, p.m*h), make([]float64, p.m*h)
		for j := range p.m {
			for i := range h {
				a, b := y[j*n+i], y[j*n+h+i]
				sa, sb := scale[j*n+i], scale[j*n+h+i]
				out[j*h+i] = a / (1 + math.Exp(-a)) * b
				bound[j*h+i] = sa*sb + sa + sb
			}
		}
		y, scale = out, bound
	}
	if p.residual != nil {
		for i := range y {
			y[i] += float64(p.residual[i])
			scale[i] += math.Abs(float64(p.residual[i]))
		}
	}
	return y, scale
}

// tolerance of a product, relative to Σ|x·w|: the split keeps 22 bits of x (bf16: 16), F32 sums a little less.
func tolerance(f device.Format) float64 {
	if f == device.BF16 {
		return 1.5e-5
	}
	return 1e-6
}

// cuda says whether a runner is NVIDIA's.
func cuda(g runner) bool {
	_, is := g.(interface{ cuda() })
	return is
}

// upload puts a packed weight on the device.
func upload(t *testing.T, g runner, d *device.WeightDesc) (p *packed, codes, scales uint64) {
	t.Helper()
	p, err := pack(d)
	require.NoError(t, err)
	return p, g.alloc(t, p.codes), g.alloc(t, append(p.scales, 0, 0, 0, 0))
}

func optional(t *testing.T, g runner, v []float32) uint64 {
	if v == nil {
		return 0
	}
	return floats(t, g, v)
}

// threads is the size of a block of so many waves.
func threads(g runner, waves int) int { return waves * g.wave() }

type formatCase struct {
	format device.Format
	group  int
}

var formats = []formatCase{{device.Int4, 32}, {device.Int4, 64}, {device.Int4, 128}, {device.Int8, 32}, {device.Int8, 64}, {device.Int8, 128}, {device.F16, 0}, {device.BF16, 0}}

func desc(rng *rand.Rand, f formatCase, cols int, rows ...int) device.WeightDesc {
	d := device.WeightDesc{Name: "w"}
	for _, n := range rows {
		d.Parts = append(d.Parts, randomPart(rng, f.format, n, cols, f.group))
	}
	return d
}

// testMatvec: every format, row count and fused step is the product in float64, to within rounding.
func testMatvec(t *testing.T, g runner) {
	for _, f := range formats {
		t.Run(fmt.Sprint(f.format, f.group), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(f.group)))
			m, err := kernels.Weights("matvec", f.format, f.group)
			require.NoError(t, err)
			g.load(t, m)
			top := 0.0
			for i, c := range []struct{ m, entry, k int }{{1, 1, 96}, {2, 2, 1280}, {3, 4, 416}, {4, 4, 128}, {5, 8, 384}, {8, 8, 1056}} {
				p := &product{d: desc(rng, f, c.k, 24, 24), m: c.m, x: normals(rng, c.m*c.k, math.Pow(10, float64(i-2)))}
				outs := 48
				switch i % 3 {
				case 0:
					p.act, outs = device.SwiGLU, 24
					p.gain, p.ada, p.slot = normals(rng, c.k, 1), normals(rng, 3*c.k, 0.3), []int32{2, 0, 1, -1, 2, 0, 1, 1}[:c.m]
				case 1:
					p.d = desc(rng, f, c.k, 40)
					outs, p.act, p.bias = 40, device.GELU, normals(rng, 40, 1)
				case 2:
					p.d = desc(rng, f, c.k, 16, 8, 16)
					outs, p.residual = 40, normals(rng, c.m*40, 1)
				}
				top = max(top, runMatvec(t, g, p, c.entry, outs, i%2 == 1))
			}
			t.Logf("%s/%d: worst error %.2g of the sum of magnitudes", f.format, f.group, top)
		})
	}
}

func runMatvec(t *testing.T, g runner, p *product, entry, outs int, pieces bool) float64 {
	t.Helper()
	w, codes, scales := upload(t, g, &p.d)
	y := floats(t, g, nans(p.m*outs))
	piece := w.slabs()
	if pieces { // no more than the smallest unit at a time
		switch {
		case !digits(w.format, cuda(g)):
			piece = min(piece, mvParts)
		case entry == 8:
			piece = min(piece, legColumns/(32*slabGroups(w.format)))
		}
	}
	blocks := max(1, w.tiles()-1)
	var slot uint64
	if p.slot != nil {
		slot = ints(t, g, p.slot)
	}
	lds := entry * piece * stagedBytes(w.format, cuda(g))
	g.launch(t, fmt.Sprintf("matvec_m%d", entry), [3]int{blocks, 1, 1}, threads(g, 8), lds, kernelArgs(y, floats(t, g, p.x), codes, scales,
		optional(t, g, p.gain), optional(t, g, p.ada), slot, optional(t, g, p.bias), optional(t, g, p.residual),
		p.m, p.d.Cols(), p.d.Rows(), w.tiles(), blocks, piece, float32(testEps), w.half, int(p.act)))
	want, scale := p.want()
	got := readFloats(t, g, y, p.m*outs)
	e, at := worst(got, want, scale)
	require.LessOrEqual(t, e, tolerance(w.format), "m %d, k %d, act %d: element %d, want %g", p.m, p.d.Cols(), p.act, at, want[at])
	return e
}

// testMatvecRows: a row's product has the same bits whatever rows run beside it.
func testMatvecRows(t *testing.T, g runner) {
	for _, f := range []formatCase{{device.Int4, 32}, {device.Int8, 64}, {device.BF16, 0}} {
		rng := rand.New(rand.NewPCG(2, 2))
		m, err := kernels.Weights("matvec", f.format, f.group)
		require.NoError(t, err)
		g.load(t, m)
		const k, n = 1280, 32
		d := desc(rng, f, k, n)
		w, codes, scales := upload(t, g, &d)
		x, gain := normals(rng, 8*k, 1), normals(rng, k, 1)
		var first []float32
		for _, entry := range []int{8, 4, 2, 1} {
			y := floats(t, g, nans(8*n))
			lds := entry * w.slabs() * stagedBytes(w.format, cuda(g))
			g.launch(t, fmt.Sprintf("matvec_m%d", entry), [3]int{2, 1, 1}, threads(g, 8), lds, kernelArgs(y, floats(t, g, x), codes, scales,
				floats(t, g, gain), uint64(0), uint64(0), uint64(0), uint64(0), entry, k, n, w.tiles(), 2, w.slabs(), float32(testEps), 0, 0))
			got := readFloats(t, g, y, entry*n)
			if first == nil {
				first = got
			}
			require.Equal(t, first[:entry*n], got, "%s: %d rows", f.format, entry)
		}
	}
}

// rotated turns the pairs of a row of heads.
func rotated(v []float64, cos, sin []float32, head int) {
	for i := 0; i < len(v); i += 2 {
		c, s := float64(cos[i%head/2]), float64(sin[i%head/2])
		v[i], v[i+1] = v[i]*c-v[i+1]*s, v[i]*s+v[i+1]*c
	}
}

// testQKV: q is rotated into place, k and v land in their slot's row of the ring, an inactive row touches nothing.
func testQKV(t *testing.T, g runner) {
	for _, half := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(3, 3))
		f := formatCase{device.Int4, 32}
		m, err := kernels.Weights("matvec", f.format, f.group)
		require.NoError(t, err)
		g.load(t, m)
		const head, qdim, kvdim, k, rows, slots, capRows = 32, 128, 64, 256, 4, 3, 7
		n := qdim + 2*kvdim
		p := &product{d: desc(rng, f, k, qdim, kvdim, kvdim), m: rows, x: normals(rng, rows*k, 1), gain: normals(rng, k, 1), bias: normals(rng, n, 1)}
		for i := range 2 {
			p.d.Parts[i].RotaryHead = head
		}
		p.slot = []int32{2, 2, -1, 0}
		pos := []int32{6, 7, 3, 20}
		cos, sin := make([]float32, rows*head/2), make([]float32, rows*head/2)
		for j := range rows {
			sdpa.NewRotary(1e4, head).Angles(cos[j*head/2:(j+1)*head/2], sin[j*head/2:(j+1)*head/2], int(pos[j]))
		}
		w, codes, scales := upload(t, g, &p.d)
		y := floats(t, g, nans(rows*n))
		ringBytes := device.RingBytes(slots, capRows, kvdim, half)
		blank := make([]byte, ringBytes)
		keys, values := g.alloc(t, blank), g.alloc(t, blank)
		g.launch(t, "qkv_m4", [3]int{w.tiles(), 1, 1}, threads(g, 8), 4*w.slabs()*stagedBytes(w.format, cuda(g)), kernelArgs(y, floats(t, g, p.x), codes, scales,
			floats(t, g, p.gain), uint64(0), ints(t, g, p.slot), floats(t, g, p.bias), ints(t, g, pos), floats(t, g, cos), floats(t, g, sin), keys, values,
			rows, k, n, w.tiles(), w.tiles(), w.slabs(), float32(testEps), qdim, kvdim, head, capRows, boolInt(half)))
		got := readFloats(t, g, y, rows*n)
		ring := func(at uint64) []float32 {
			raw := make([]byte, ringBytes)
			g.read(t, at, raw)
			v := make([]float32, slots*capRows*kvdim)
			for i := range v {
				if half {
					v[i] = device.HalfToFloat(binary.LittleEndian.Uint16(raw[2*i:]))
				} else {
					v[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
				}
			}
			return v
		}
		gotK, gotV := ring(keys), ring(values)
		plain, scale := p.plain()
		wantK, wantV := make([]float64, len(gotK)), make([]float64, len(gotV))
		tol := tolerance(f.format)
		for j := range rows {
			if p.slot[j] < 0 {
				continue
			}
			c, s := cos[j*head/2:(j+1)*head/2], sin[j*head/2:(j+1)*head/2]
			row := plain[j*n : (j+1)*n]
			rotated(row[:qdim], c, s, head)
			rotated(row[qdim:qdim+kvdim], c, s, head)
			e, at := worst(got[j*n:j*n+qdim], row[:qdim], double(scale[j*n:j*n+qdim], 2))
			require.LessOrEqual(t, e, tol, "row %d q %d", j, at)
			at = (int(p.slot[j])*capRows + int(pos[j])%capRows) * kvdim
			copy(wantK[at:], row[qdim:qdim+kvdim])
			copy(wantV[at:], row[qdim+kvdim:])
		}
		for i := range wantK {
			bound := tol * 100
			if half {
				bound = 0.001 * (math.Abs(wantK[i]) + math.Abs(wantV[i]) + 0.01)
			}
			require.InDelta(t, wantK[i], gotK[i], bound+tol*math.Abs(wantK[i]), "key %d", i)
			require.InDelta(t, wantV[i], gotV[i], bound+tol*math.Abs(wantV[i]), "value %d", i)
		}
	}
}

func double(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] * by
	}
	return out
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
