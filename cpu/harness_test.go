package cpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"voxtral/internal/device"
	"voxtral/internal/device/interp"
)

// eachISA runs a test on a device for every instruction set that this machine can run.
func eachISA(t *testing.T, threads int, test func(t *testing.T, d *Device)) {
	for _, isa := range InstructionSets() {
		t.Run(isa, func(t *testing.T) { test(t, openISA(t, isa, threads)) })
	}
}

func openISA(t *testing.T, isa string, threads int) *Device {
	t.Setenv(isaVariable, isa)
	d, err := Open(threads)
	require.NoError(t, err)
	require.Contains(t, d.Info().Detail, isa)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// fatal is what *testing.T and *rapid.T share.
type fatal interface {
	require.TestingT
	Helper()
	Fatalf(format string, args ...any)
}

// guard is how many canary words lie before and behind every tensor; odd, so that nothing is aligned by luck.
const (
	guard  = 17
	canary = 0x7fc0dead
)

// rig builds one program on one device over guarded memory.
type rig struct {
	fatal
	dev  device.Device
	prog *device.Program
	vars []variable
}

type variable struct {
	name         string
	buf          device.Buffer
	front, elems int // words
	half         bool
}

func newRig(t fatal, d device.Device) *rig {
	return &rig{fatal: t, dev: d, prog: &device.Program{Name: "test"}}
}

func (r *rig) buffer(name string, front int, half bool, data []uint32) *device.Memory {
	words := slices.Concat(slices.Repeat([]uint32{canary}, front), data, slices.Repeat([]uint32{canary}, guard))
	buf, err := r.dev.Alloc(4*len(words), device.State)
	require.NoError(r, err)
	raw := make([]byte, 0, 4*len(words))
	for _, w := range words {
		raw = binary.LittleEndian.AppendUint32(raw, w)
	}
	require.NoError(r, r.dev.Write(buf, 0, raw))
	r.vars = append(r.vars, variable{name, buf, front, len(data), half})
	m := &device.Memory{Name: name, Elems: len(words), Buf: buf}
	r.prog.Mem = append(r.prog.Mem, m)
	return m
}

func (r *rig) tensor(name string, rows, cols int, data []float32) device.Tensor {
	require.Len(r, data, rows*cols, name)
	return device.Tensor{Mem: r.buffer(name, guard, false, floatWords(data)), Offset: guard, Rows: rows, Cols: cols}
}

func (r *rig) ring(name string, slots, capRows, width int, half bool, data []float32) device.Ring {
	words := floatWords(data)
	if half {
		words = halfWords(data)
	}
	return device.Ring{Mem: r.buffer(name, 0, half, words), Slots: slots, Cap: capRows, Width: width, Half: half}
}

func floatWords(v []float32) []uint32 {
	words := make([]uint32, len(v))
	for i, x := range v {
		words[i] = math.Float32bits(x)
	}
	return words
}

func halfWords(v []float32) []uint32 {
	words := make([]uint32, len(v)/2)
	for i := range words {
		words[i] = uint32(device.FloatToHalf(v[2*i])) | uint32(device.FloatToHalf(v[2*i+1]))<<16
	}
	return words
}

func (r *rig) weight(parts ...device.Part) device.Weight {
	w, err := r.dev.Pack(device.WeightDesc{Name: "w", Parts: parts})
	require.NoError(r, err)
	return w
}

// run executes the program and returns all its memory by name, with the canaries checked.
func (r *rig) run(s *device.Step) map[string][]float32 {
	exec, err := r.dev.Compile(r.prog)
	require.NoError(r, err)
	require.NoError(r, exec.Run(s))
	require.NoError(r, exec.Close())
	out := map[string][]float32{}
	for _, v := range r.vars {
		words := make([]float32, v.front+v.elems+guard)
		require.NoError(r, r.dev.Read(v.buf, 0, device.F32Bytes(words)))
		for i, w := range words {
			if (i < v.front || i >= v.front+v.elems) && math.Float32bits(w) != canary {
				r.Fatalf("%s: word %d outside of its %d elements was written: %x", v.name, i-v.front, v.elems, math.Float32bits(w))
			}
		}
		out[v.name] = words[v.front : v.front+v.elems]
		if v.half {
			var wide []float32
			for _, w := range out[v.name] {
				bits := math.Float32bits(w)
				wide = append(wide, device.HalfToFloat(uint16(bits)), device.HalfToFloat(uint16(bits>>16)))
			}
			out[v.name] = wide
		}
		v.buf.Free()
	}
	return out
}

// against runs the program that build makes on the oracle and on d, and compares all memory: |got − want| ≤
// tol·max(1, largest of want).
func against(t fatal, d device.Device, tol float64, s *device.Step, build func(r *rig)) {
	t.Helper()
	oracle, own := newRig(t, interp.New()), newRig(t, d)
	build(oracle)
	build(own)
	want, got := oracle.run(s), own.run(s)
	for name, w := range want {
		near(t, name, w, got[name], tol)
	}
}

func near(t fatal, name string, want, got []float32, tol float64) {
	t.Helper()
	top := 1.0
	for _, v := range want {
		if a := math.Abs(float64(v)); a > top && !math.IsInf(a, 0) {
			top = a
		}
	}
	for i := range want {
		w, g := float64(want[i]), float64(got[i])
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) && !(math.Abs(w-g) <= tol*top) && !(math.IsNaN(w) && math.IsNaN(g)) {
			t.Fatalf("%s[%d of %d] = %v, want %v within %g", name, i, len(want), g, w, tol*top)
		}
	}
}

// sameBits compares all memory of two runs.
func sameBits(t fatal, want, got map[string][]float32) {
	t.Helper()
	for name, w := range want {
		if !slices.EqualFunc(w, got[name], func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			t.Fatalf("%s differs in bits", name)
		}
	}
}

// Generators. Sizes are drawn by rapid, so that failures shrink; elements come from a seeded source.

func source(t *rapid.T) *rand.Rand { return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)) }

func normal(rng *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * scale)
	}
	return v
}

// part stores random elements of about the given size at an odd address.
func part(rng *rand.Rand, format device.Format, group, rows, cols, rotaryHead int, size float64) device.Part {
	p := device.Part{Name: "part", Rows: rows, Cols: cols, Format: format, Group: group, RotaryHead: rotaryHead}
	var data, scales []byte
	for range rows {
		switch format {
		case device.F32, device.BF16, device.F16:
			for range cols {
				v := float32(rng.NormFloat64() * size)
				switch format {
				case device.F32:
					data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
				case device.BF16:
					data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(v)>>16))
				default:
					data = binary.LittleEndian.AppendUint16(data, device.FloatToHalf(v))
				}
			}
		default: // any byte is a valid code, padding included
			for range format.RowBytes(cols, group) {
				data = append(data, byte(rng.Uint32()))
			}
			top := 64.0
			if format == device.Int4 {
				top = 4
			}
			for range device.Groups(cols, group) {
				scales = binary.LittleEndian.AppendUint16(scales, device.FloatToHalf(float32(rng.NormFloat64()*size/top)))
			}
		}
	}
	p.Data, p.Scales = misaligned(data), misaligned(scales)
	return p
}

func misaligned(b []byte) []byte {
	return append(make([]byte, 1, len(b)+1), b...)[1 : len(b)+1 : len(b)+1]
}

var formats = []device.Format{device.F32, device.BF16, device.F16, device.Int8, device.Int4}

func drawFormat(t *rapid.T) (device.Format, int) {
	f := rapid.SampledFrom(formats).Draw(t, "format")
	if !f.Grouped() {
		return f, 0
	}
	return f, rapid.SampledFrom([]int{32, 64, 128}).Draw(t, "group")
}

// drawRows places n rows: runs of consecutive positions in distinct slots, none longer than longest, and inactive rows.
// Runs start and end at multiples of align.
func drawRows(t *rapid.T, n, slots, longest, align int) device.RowData {
	r := device.RowData{Slot: make([]int32, n), Pos: make([]int32, n)}
	free := rapid.Permutation(indices(slots)).Draw(t, "slots")
	for at := 0; at < n; {
		run := align * rapid.IntRange(1, max(1, min(longest, n-at)/align)).Draw(t, "run")
		slot, pos := int32(-1), align*rapid.IntRange(0, 200).Draw(t, "pos")
		if len(free) > 0 && rapid.IntRange(0, 4).Draw(t, "active") > 0 {
			slot, free = free[0], free[1:]
		}
		for i := range run {
			r.Slot[at+i], r.Pos[at+i] = slot, int32(pos+i)
		}
		at += run
	}
	return r
}

func indices(n int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(i)
	}
	return v
}

// oneRow is row r of a set alone.
func oneRow(d device.RowData, r, half int) device.RowData {
	one := device.RowData{Slot: d.Slot[r : r+1], Pos: d.Pos[r : r+1], Cos: d.Cos[r*half : (r+1)*half], Sin: d.Sin[r*half : (r+1)*half]}
	if d.Token != nil {
		one.Token = d.Token[r : r+1]
	}
	return one
}
