package hip

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"voxtral/internal/device"
)

// randomPart is a part whose codes and scales are random but finite.
func randomPart(rng *rand.Rand, f device.Format, rows, cols, group int) device.Part {
	p := device.Part{Name: "w", Rows: rows, Cols: cols, Format: f, Data: make([]byte, rows*f.RowBytes(cols, max(group, 1)))}
	half := func(b []byte, v float32) { binary.LittleEndian.PutUint16(b, device.FloatToHalf(v)) }
	for i := range p.Data {
		p.Data[i] = byte(rng.Uint32())
	}
	switch f {
	case device.F16:
		for i := 0; i < len(p.Data); i += 2 {
			half(p.Data[i:], float32(rng.NormFloat64()))
		}
	case device.BF16:
		for i := 0; i < len(p.Data); i += 2 {
			binary.LittleEndian.PutUint16(p.Data[i:], uint16(math.Float32bits(float32(rng.NormFloat64()))>>16))
		}
	case device.Int4, device.Int8:
		p.Group, p.Scales = group, make([]byte, 2*rows*device.Groups(cols, group))
		for i := 0; i < len(p.Scales); i += 2 {
			half(p.Scales[i:], 0.05*float32(rng.NormFloat64()))
		}
	}
	return p
}

// oracleRow is row of a weight, parts stacked, in logical order.
func oracleRow(d *device.WeightDesc, row int) []float32 {
	dst, part := make([]float32, d.Cols()), 0
	for row >= d.Parts[part].Rows {
		row -= d.Parts[part].Rows
		part++
	}
	d.Parts[part].Dequantize(dst, d.Parts[part].StoredRow(row))
	return dst
}

// Packing loses nothing: every element can be read back from the kernels' layout.
func TestPackInverts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		f := rapid.SampledFrom([]device.Format{device.BF16, device.F16, device.Int8, device.Int4}).Draw(t, "format")
		group := rapid.SampledFrom([]int{32, 64, 128}).Draw(t, "group")
		cols := 4 * rapid.IntRange(1, 100).Draw(t, "cols/4")
		d := device.WeightDesc{Name: "w"}
		equal := 8 * rapid.IntRange(1, 5).Draw(t, "rows/8")
		for i := range rapid.IntRange(1, 3).Draw(t, "parts") {
			d.Parts = append(d.Parts, randomPart(rng, f, equal+i*8*rapid.IntRange(0, 1).Draw(t, "more"), cols, group))
		}
		d.Parts[0].RotaryHead = rapid.SampledFrom([]int{0, 8}).Draw(t, "rotary head")
		p, err := pack(&d)
		require.NoError(t, err)
		got := make([]float32, cols)
		for row := range d.Rows() {
			p.dequantize(got, row)
			require.Equal(t, oracleRow(&d, row), got, "row %d", row)
		}
	})
}

func TestPackRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	_, err := pack(&device.WeightDesc{Name: "w", Parts: []device.Part{randomPart(rng, device.F32, 8, 8, 0)}})
	require.ErrorContains(t, err, "f32")
	_, err = pack(&device.WeightDesc{Name: "w", Parts: []device.Part{randomPart(rng, device.BF16, 8, 8, 0), randomPart(rng, device.F16, 8, 8, 0)}})
	require.ErrorContains(t, err, "one format")
	_, err = pack(&device.WeightDesc{Name: "w"})
	require.ErrorContains(t, err, "no parts")
}

// dequantize writes a row of the weight as the kernels see it.
func (p *packed) dequantize(dst []float32, row int) {
	tile, r := row/tileRows, row%tileRows
	if p.half > 0 {
		tile, r = row%p.half/(tileRows/2), row%p.half%(tileRows/2)+row/p.half*(tileRows/2)
	}
	for i := range dst[:p.cols] {
		at, in := p.at(tile, r, i/32, i%32/8), i%8
		switch p.format {
		case device.Int4:
			dst[i] = float32(int(binary.LittleEndian.Uint32(p.codes[at:])>>(in/2*4+in%2*16)&15^8) - 8)
		case device.Int8:
			dst[i] = float32(int8(p.codes[at+in]))
		case device.F16:
			dst[i] = device.HalfToFloat(binary.LittleEndian.Uint16(p.codes[at+2*in:]))
		default:
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(p.codes[at+2*in:])) << 16)
		}
		if n := p.slabScales(); n > 0 {
			w := 32 * slabGroups(p.format)
			at := ((tile*p.slabs()+i/w)*tileRows+r)*n + i%w*n/w
			dst[i] *= device.HalfToFloat(binary.LittleEndian.Uint16(p.scales[2*at:]))
		}
	}
}
