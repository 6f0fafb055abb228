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

// gpuTests are the tests that every runner must pass.
var gpuTests = map[string]func(*testing.T, runner){
	"matvec": testMatvec, "matvec rows": testMatvecRows, "qkv": testQKV, "head": testHead, "argmax": testArgmax,
	"matmul": testMatmul, "embed": testEmbed, "attention": testAttention, "rows": testRows, "conv": testConv, "read": testRead,
}

func bytesOfFloats(v []float32, half bool) []byte {
	if !half {
		return append([]byte(nil), device.F32Bytes(v)...)
	}
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint16(b, device.FloatToHalf(f))
	}
	return b
}

func readBest(t *testing.T, g runner, ids, top uint64, rows int) ([]int32, []float32) {
	got := make([]int32, rows)
	g.read(t, ids, device.I32Bytes(got))
	return got, readFloats(t, g, top, 2*rows)
}

// testHead: the fused head finds the two largest of the logits that it computes, among equals the lowest id.
func testHead(t *testing.T, g runner) {
	rng := rand.New(rand.NewPCG(4, 4))
	const k, n, rows = 256, 200, 3
	d := desc(rng, formatCase{device.Int8, 64}, k, n)
	part := &d.Parts[0] // rows 150 and 151 equal row 7
	for _, same := range []int{150, 151} {
		copy(part.Data[same*k:(same+1)*k], part.Data[7*k:8*k])
		copy(part.Scales[same*8:(same+1)*8], part.Scales[7*8:8*8])
	}
	x := normals(rng, rows*k, 1)
	copy(x[2*k:], oracleRow(&d, 7)) // the third row's best is row 7 and its doubles
	m, err := kernels.Weights("head", device.Int8, 64)
	require.NoError(t, err)
	a := kernels.Argmax()
	w, codes, scales := upload(t, g, &d)
	p := &product{d: d, m: rows, x: x, gain: normals(rng, k, 0)}
	for i := range p.gain {
		p.gain[i] = 1
	}
	const blocks = 5
	list := g.alloc(t, make([]byte, 16*blocks*rows))
	logits, ids, top := floats(t, g, nans(rows*n)), ints(t, g, make([]int32, rows)), floats(t, g, nans(2*rows))
	g.load(t, m)
	g.launch(t, "head_m4", [3]int{blocks, 1, 1}, threads(g, 8), 4*w.slabs()*stagedBytes(w.format, cuda(g)), kernelArgs(list, floats(t, g, x), codes, scales,
		floats(t, g, p.gain), uint64(0), uint64(0), logits, rows, k, n, w.tiles(), blocks, w.slabs(), float32(testEps)))
	g.load(t, a)
	g.launch(t, "argmax_merge", [3]int{rows, 1, 1}, 256, 0, kernelArgs(ids, top, list, blocks))
	values := readFloats(t, g, logits, rows*n)
	want, scale := p.want()
	e, at := worst(values, want, scale)
	require.LessOrEqual(t, e, tolerance(device.Int8), "logit %d", at)
	gotIDs, gotTop := readBest(t, g, ids, top, rows)
	for j := range rows {
		id, best, next := bestOf(values[j*n : (j+1)*n])
		require.Equal(t, id, gotIDs[j], "row %d", j)
		require.Equal(t, []float32{best, next}, gotTop[2*j:2*j+2], "row %d", j)
	}
	require.Equal(t, int32(7), gotIDs[2])
	require.Equal(t, gotTop[4], gotTop[5])
}

func bestOf(v []float32) (id int32, best, next float32) {
	id, best, next = -1, float32(math.Inf(-1)), float32(math.Inf(-1))
	for i, x := range v {
		if x > best || id < 0 {
			id, best, next = int32(i), x, best
		} else if x > next {
			next = x
		}
	}
	return id, best, next
}

// testArgmax: ties go to the lowest id, a NaN anywhere gives −1, minus infinity is a value like others.
func testArgmax(t *testing.T, g runner) {
	g.load(t, kernels.Argmax())
	inf, nan := float32(math.Inf(-1)), float32(math.NaN())
	for name, c := range map[string]struct {
		v          []float32
		id         int32
		best, next float32
	}{
		"one": {[]float32{3}, 0, 3, inf}, "tie": {[]float32{1, 5, 5, 2}, 1, 5, 5}, "infinite": {[]float32{inf, inf, inf}, 0, inf, inf}, "late": {[]float32{1, 2, 3}, 2, 3, 2},
	} {
		ids, top := ints(t, g, []int32{9}), floats(t, g, nans(2))
		g.launch(t, "argmax", [3]int{1, 1, 1}, 256, 0, kernelArgs(ids, top, floats(t, g, c.v), len(c.v)))
		gotIDs, gotTop := readBest(t, g, ids, top, 1)
		require.Equal(t, c.id, gotIDs[0], name)
		require.Equal(t, []float32{c.best, c.next}, gotTop, name)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	const n = 700
	v := normals(rng, 2*n, 1)
	v[n+650] = nan
	ids, top := ints(t, g, []int32{9, 9}), floats(t, g, nans(4))
	g.launch(t, "argmax", [3]int{2, 1, 1}, 256, 0, kernelArgs(ids, top, floats(t, g, v), n))
	gotIDs, gotTop := readBest(t, g, ids, top, 2)
	id, best, next := bestOf(v[:n])
	require.Equal(t, []int32{id, -1}, gotIDs)
	require.Equal(t, []float32{best, next}, gotTop[:2])
	require.True(t, math.IsNaN(float64(gotTop[2])) && math.IsNaN(float64(gotTop[3])))
}

// testMatmul: many rows, with all that is fused, in every format.
func testMatmul(t *testing.T, g runner) {
	for i, f := range []formatCase{{device.Int4, 32}, {device.Int8, 64}, {device.BF16, 0}, {device.F16, 0}} {
		rng := rand.New(rand.NewPCG(6, uint64(i)))
		m, err := kernels.Weights("matmul", f.format, f.group)
		require.NoError(t, err)
		g.load(t, m)
		k, rows := 160+96*i, 33+6*i
		p := &product{d: desc(rng, f, k, 40, 40), m: rows, x: normals(rng, rows*k, 3)}
		outs := 40
		switch i {
		case 0:
			p.act, p.residual = device.SwiGLU, normals(rng, rows*outs, 1)
		case 1:
			p.d, p.act, p.bias = desc(rng, f, k, 56), device.GELU, normals(rng, 56, 1)
			outs = 56
		case 2:
			p.gain, p.ada = normals(rng, k, 1), normals(rng, 2*k, 0.5)
			outs = 80
			for j := range rows {
				p.slot = append(p.slot, int32(j%3-1))
			}
		default:
			outs, p.residual = 80, normals(rng, rows*80, 1)
		}
		w, codes, scales := upload(t, g, &p.d)
		columns := (rows + 31) / 32
		split, back := g.alloc(t, make([]byte, 2*columns*32*w.slabs()*(64*slabGroups(f.format)+padded(cuda(g))))), floats(t, g, nans(32*columns))
		var slot uint64
		if p.slot != nil {
			slot = ints(t, g, p.slot)
		}
		y := floats(t, g, nans(rows*outs))
		g.launch(t, "split_rows", [3]int{32 * columns, 1, 1}, threads(g, 4), 0, kernelArgs(split, back, floats(t, g, p.x), optional(t, g, p.gain), optional(t, g, p.ada), slot, rows, k, float32(testEps)))
		g.launch(t, "matmul", [3]int{(w.tiles() + 3) / 4, columns, 1}, threads(g, 4), 0, kernelArgs(y, split, back, codes, scales,
			optional(t, g, p.bias), optional(t, g, p.residual), rows, k, p.d.Rows(), w.tiles(), w.half, int(p.act)))
		want, scale := p.want()
		e, at := worst(readFloats(t, g, y, rows*outs), want, scale)
		require.LessOrEqual(t, e, tolerance(f.format), "%s: element %d", f.format, at)
		t.Logf("%s: worst error %.2g of the sum of magnitudes", f.format, e)
	}
}

// testEmbed: a row of the table plus the slot's audio at the position.
func testEmbed(t *testing.T, g runner) {
	for _, f := range formats {
		rng := rand.New(rand.NewPCG(7, 7))
		m, err := kernels.Weights("embed", f.format, f.group)
		require.NoError(t, err)
		g.load(t, m)
		const k, vocab, capRows = 300, 50, 5
		d := desc(rng, f, k, vocab)
		_, codes, scales := upload(t, g, &d)
		audio := normals(rng, 2*capRows*k, 1)
		slot, pos, token := []int32{1, -1, 0}, []int32{13, 0, 2}, []int32{49, 0, 17}
		y := floats(t, g, nans(3*k))
		g.launch(t, "embed_add", [3]int{3, 1, 1}, 256, 0, kernelArgs(y, codes, scales, floats(t, g, audio), ints(t, g, slot), ints(t, g, pos), ints(t, g, token), k, capRows))
		got := readFloats(t, g, y, 3*k)
		for r := range 3 {
			if slot[r] < 0 {
				continue
			}
			w := oracleRow(&d, int(token[r]))
			a := audio[(int(slot[r])*capRows+int(pos[r])%capRows)*k:]
			for i := range w {
				require.InDelta(t, w[i]+a[i], got[r*k+i], 1e-6, "%s row %d element %d", f.format, r, i)
			}
		}
	}
}

// testAttention: standard and split attention both are softmax in float64, finite for scores of any size, whatever the ring
// holds beyond what the query sees, and wherever it wraps.
func testAttention(t *testing.T, g runner) {
	for i, c := range []struct {
		spec  sdpa.Spec
		half  bool
		scale float64
	}{
		{sdpa.Spec{QHeads: 8, KVHeads: 2, HeadDim: 128, Window: 90}, true, 1},
		{sdpa.Spec{QHeads: 3, KVHeads: 3, HeadDim: 64, Window: 33}, false, 1},
		{sdpa.Spec{QHeads: 6, KVHeads: 2, HeadDim: 32, Window: 200}, false, 4},
		{sdpa.Spec{QHeads: 8, KVHeads: 2, HeadDim: 128, Window: 150}, true, 60},  // scores of 1e4
		{sdpa.Spec{QHeads: 2, KVHeads: 2, HeadDim: 64, Window: 70}, false, 1000}, // scores of 1e7
	} {
		rng := rand.New(rand.NewPCG(8, uint64(i)))
		m, err := kernels.Attention(c.spec, c.half)
		require.NoError(t, err)
		g.load(t, m)
		s, capRows, slots := c.spec, c.spec.Window+5, 2
		slot, pos := []int32{1, -1, 0, 1}, []int32{int32(3*s.Window + 7), 5, 0, int32(s.Window / 2)}
		keys, values := normals(rng, slots*capRows*s.KVDim(), c.scale), normals(rng, slots*capRows*s.KVDim(), 1)
		qkv := normals(rng, len(slot)*s.QKVDim(), c.scale)
		kb, vb := bytesOfFloats(keys, c.half), bytesOfFloats(values, c.half)
		if c.half { // what was stored
			for i := range keys {
				keys[i], values[i] = device.HalfToFloat(device.FloatToHalf(keys[i])), device.HalfToFloat(device.FloatToHalf(values[i]))
			}
		}
		kAt, vAt, qAt, slotAt, posAt := g.alloc(t, kb), g.alloc(t, vb), floats(t, g, qkv), ints(t, g, slot), ints(t, g, pos)
		n := len(slot) * s.QDim()
		y := floats(t, g, nans(n))
		g.launch(t, "attention", [3]int{s.KVHeads, len(slot), 1}, threads(g, 8), 0, kernelArgs(y, qAt, kAt, vAt, slotAt, posAt, s.KVHeads, capRows, s.Window, float32(s.Scale())))
		got := map[string][]float32{"standard": readFloats(t, g, y, n)}
		for _, splits := range []int{1, 3, 8} {
			part := floats(t, g, nans(len(slot)*s.QHeads*splits*(s.HeadDim+2)))
			y := floats(t, g, nans(n))
			tickets := ints(t, g, make([]int32, len(slot)*s.KVHeads))
			g.launch(t, "attention_split", [3]int{splits, s.KVHeads, len(slot)}, threads(g, 8), 0, kernelArgs(y, part, tickets, qAt, kAt, vAt, slotAt, posAt, s.KVHeads, capRows, s.Window, float32(s.Scale()), splits))
			left := make([]int32, len(slot)*s.KVHeads)
			g.read(t, tickets, device.I32Bytes(left))
			require.Equal(t, make([]int32, len(left)), left, "tickets are given back")
			got[fmt.Sprintf("split %d", splits)] = readFloats(t, g, y, n)
		}
		tol := min(1e-6*(1+c.scale*c.scale), 1e-4) // F32 scores of size a are known to a·2⁻²³ or so, and weights with them
		for name, v := range got {
			top := 0.0
			for r := range slot {
				if slot[r] < 0 {
					continue
				}
				want := make([]float32, s.QDim())
				at := int(slot[r]) * capRows * s.KVDim()
				sdpa.Attend(s, want, qkv[r*s.QKVDim():], keys[at:at+capRows*s.KVDim()], values[at:at+capRows*s.KVDim()], capRows, int(pos[r]))
				for d := range want {
					x := v[r*s.QDim()+d]
					require.False(t, math.IsNaN(float64(x)) || math.IsInf(float64(x), 0), "%s row %d", name, r)
					top = max(top, math.Abs(float64(x-want[d])))
				}
			}
			require.LessOrEqual(t, top, tol, "%s, case %d", name, i)
			t.Logf("case %d %s: worst error %.2g, allowed %.2g", i, name, top, tol)
		}
	}
}

// testRows: norm, rotary append and ring write row by row; inactive rows touch nothing.
func testRows(t *testing.T, g runner) {
	rng := rand.New(rand.NewPCG(9, 9))
	g.load(t, kernels.Rows())
	const k, rows = 300, 3
	p := &product{d: device.WeightDesc{Parts: []device.Part{{Rows: 1, Cols: k}}}, m: rows, x: normals(rng, rows*k, 2), gain: normals(rng, k, 1), ada: normals(rng, 2*k, 1), slot: []int32{1, -1, 0}}
	y, slot := floats(t, g, nans(rows*k)), ints(t, g, p.slot)
	g.launch(t, "rmsnorm", [3]int{rows, 1, 1}, 256, 0, kernelArgs(y, floats(t, g, p.x), floats(t, g, p.gain), floats(t, g, p.ada), slot, k, float32(testEps)))
	got := readFloats(t, g, y, rows*k)
	for _, r := range []int{0, 2} {
		for i, want := range p.input(r) {
			require.InDelta(t, want, got[r*k+i], 1e-6*(1+math.Abs(want)))
		}
	}
	require.True(t, math.IsNaN(float64(got[k])))

	const head, qdim, kvdim, capRows, n = 32, 96, 64, 4, 96 + 128
	pos := []int32{6, 2, 3}
	cos, sin := make([]float32, rows*head/2), make([]float32, rows*head/2)
	for r := range rows {
		sdpa.NewRotary(1e4, head).Angles(cos[r*head/2:(r+1)*head/2], sin[r*head/2:(r+1)*head/2], int(pos[r]))
	}
	for _, half := range []bool{false, true} {
		qkv := normals(rng, rows*n, 1)
		size := device.RingBytes(2, capRows, kvdim, half)
		qkvAt, keys, values := floats(t, g, qkv), g.alloc(t, make([]byte, size)), g.alloc(t, make([]byte, size))
		g.launch(t, "rope_append", [3]int{rows, 1, 1}, 256, 0, kernelArgs(qkvAt, slot, ints(t, g, pos), floats(t, g, cos), floats(t, g, sin), keys, values, qdim, kvdim, head, capRows, boolInt(half)))
		got, gotK, gotV := readFloats(t, g, qkvAt, rows*n), make([]byte, size), make([]byte, size)
		g.read(t, keys, gotK)
		g.read(t, values, gotV)
		wantK, wantV := make([]float32, 2*capRows*kvdim), make([]float32, 2*capRows*kvdim)
		for r := range rows {
			row := make([]float64, n)
			for i := range row {
				row[i] = float64(qkv[r*n+i])
			}
			if p.slot[r] >= 0 {
				rotated(row[:qdim+kvdim], cos[r*head/2:(r+1)*head/2], sin[r*head/2:(r+1)*head/2], head)
				at := (int(p.slot[r])*capRows + int(pos[r])%capRows) * kvdim
				for i := range kvdim {
					wantK[at+i], wantV[at+i] = float32(row[qdim+i]), float32(row[qdim+kvdim+i])
				}
			}
			for i := range qdim {
				require.InDelta(t, row[i], got[r*n+i], 1e-6)
			}
		}
		for i := range wantK {
			tol := 1e-6
			var k, v float64
			if half {
				k, v, tol = float64(device.HalfToFloat(binary.LittleEndian.Uint16(gotK[2*i:]))), float64(device.HalfToFloat(binary.LittleEndian.Uint16(gotV[2*i:]))), 2e-3
			} else {
				k, v = float64(math.Float32frombits(binary.LittleEndian.Uint32(gotK[4*i:]))), float64(math.Float32frombits(binary.LittleEndian.Uint32(gotV[4*i:])))
			}
			require.InDelta(t, wantK[i], k, tol)
			require.InDelta(t, wantV[i], v, tol)
		}
	}

	ring := floats(t, g, make([]float32, 2*capRows*k))
	g.launch(t, "ring_write", [3]int{rows, 1, 1}, 256, 0, kernelArgs(ring, floats(t, g, p.x), slot, ints(t, g, pos), k, capRows))
	want := make([]float32, 2*capRows*k)
	copy(want[(capRows+2)*k:(capRows+3)*k], p.x[:k])
	copy(want[3*k:4*k], p.x[2*k:])
	require.Equal(t, want, readFloats(t, g, ring, len(want)))
}

// testConv: any split of a stream into steps gives the same windows, and slots do not mix.
func testConv(t *testing.T, g runner) {
	rng := rand.New(rand.NewPCG(10, 10))
	g.load(t, kernels.Rows())
	for _, stride := range []int{1, 2} {
		const c, total = 20, 12
		keep := 3 - stride
		x := [2][]float32{normals(rng, total*c, 1), normals(rng, total*c, 1)}
		tail := floats(t, g, nans(2*keep*c))
		done := 0
		for _, step := range []int{stride, 2, 4, 2 * stride} { // frames of slot 1, then as many of slot 0, then an idle row
			var rows []float32
			var slot, pos []int32
			for _, s := range []int{1, 0} {
				rows = append(rows, x[s][done*c:(done+step)*c]...)
				for i := range step {
					slot, pos = append(slot, int32(s)), append(pos, int32(done+i))
				}
			}
			for range stride {
				rows, slot, pos = append(rows, nans(c)...), append(slot, -1), append(pos, 0)
			}
			n := len(slot)
			y, xAt, slotAt, posAt := floats(t, g, nans(n/stride*3*c)), floats(t, g, rows), ints(t, g, slot), ints(t, g, pos)
			g.launch(t, "conv_window", [3]int{n / stride, 1, 1}, 256, 0, kernelArgs(y, xAt, tail, slotAt, posAt, c, stride))
			g.launch(t, "conv_tail", [3]int{n, 1, 1}, 256, 0, kernelArgs(tail, xAt, slotAt, posAt, n, c, stride))
			got := readFloats(t, g, y, n/stride*3*c)
			for i, s := range []int{1, 0} {
				for out := range step / stride {
					for e := range 3 * c {
						from, want := done+out*stride+e%3-keep, float32(0)
						if from >= 0 {
							want = x[s][from*c+e/3]
						}
						require.Equal(t, want, got[(i*step/stride+out)*3*c+e], "stride %d, slot %d, frame %d", stride, s, done+out*stride)
					}
				}
			}
			done += step
		}
	}
}
