package device

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Every half survives the way to float32 and back, and every float32 goes to the nearest half.
func TestHalfRoundTrip(t *testing.T) {
	for h := range 1 << 16 {
		f := HalfToFloat(uint16(h))
		if math.IsNaN(float64(f)) {
			require.True(t, math.IsNaN(float64(HalfToFloat(FloatToHalf(f)))))
			continue
		}
		require.Equal(t, uint16(h), FloatToHalf(f), "%#x is %v", h, f)
	}
	require.EqualValues(t, 1, HalfToFloat(0x3c00))
	require.EqualValues(t, 65504, HalfToFloat(0x7bff))
	require.EqualValues(t, 0x7c00, FloatToHalf(65520))
	require.EqualValues(t, 0x7bff, FloatToHalf(65519))
}

func TestFloatToHalfIsNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := float32(rapid.Float64Range(-65504, 65504).Draw(t, "f"))
		if rapid.Bool().Draw(t, "tiny") {
			f *= 1e-6
		}
		h := FloatToHalf(f)
		err := math.Abs(float64(HalfToFloat(h)) - float64(f))
		for _, other := range []uint16{h - 1, h + 1} {
			if o := float64(HalfToFloat(other)); !math.IsNaN(o) && !math.IsInf(o, 0) {
				require.LessOrEqual(t, err, math.Abs(o-float64(f)))
			}
		}
	})
}

// Dequantize reads back what was packed, element for element, in every format and with a padded last group.
func TestDequantize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Format(rapid.IntRange(0, int(Int4)).Draw(t, "format"))
		p := Part{Name: "w", Rows: rapid.IntRange(1, 4).Draw(t, "rows"), Cols: rapid.IntRange(1, 200).Draw(t, "cols"), Format: f}
		if f.Grouped() {
			p.Group = rapid.SampledFrom([]int{32, 64, 128}).Draw(t, "group")
			p.Scales = make([]byte, 2*p.Rows*Groups(p.Cols, p.Group))
			for i := range len(p.Scales) / 2 {
				binary.LittleEndian.PutUint16(p.Scales[2*i:], FloatToHalf(float32(i+1)/8))
			}
		}
		stride := f.RowBytes(p.Cols, p.Group)
		p.Data = make([]byte, p.Rows*stride)
		want := make([]float32, p.Rows*p.Cols)
		for r := range p.Rows {
			for c := range p.Cols {
				code := rapid.IntRange(-8, 7).Draw(t, "code")
				v, row := float32(code), p.Data[r*stride:]
				switch f {
				case F32:
					binary.LittleEndian.PutUint32(row[4*c:], math.Float32bits(v))
				case BF16:
					binary.LittleEndian.PutUint16(row[2*c:], uint16(math.Float32bits(v)>>16))
				case F16:
					binary.LittleEndian.PutUint16(row[2*c:], FloatToHalf(v))
				case Int8:
					row[c] = byte(int8(code))
				case Int4:
					at, shift := Int4Index(c)
					row[at] |= byte(code+8) << shift
				}
				if f.Grouped() {
					v *= float32(r*Groups(p.Cols, p.Group)+c/p.Group+1) / 8
				}
				want[r*p.Cols+c] = v
			}
		}
		require.NoError(t, p.Validate())
		got := make([]float32, p.Cols)
		for r := range p.Rows {
			p.Dequantize(got, r)
			require.Equal(t, want[r*p.Cols:(r+1)*p.Cols], got)
		}
	})
}

// Half-split rows: the stored rows of a head are first the even, then the odd members of the pairs.
func TestStoredRow(t *testing.T) {
	p := Part{Rows: 8, RotaryHead: 4}
	var got []int
	for r := range p.Rows {
		got = append(got, p.StoredRow(r))
	}
	require.Equal(t, []int{0, 2, 1, 3, 4, 6, 5, 7}, got)
	require.Equal(t, 5, (&Part{}).StoredRow(5))
}

func TestPartValidate(t *testing.T) {
	good := Part{Name: "w", Rows: 2, Cols: 40, Format: Int4, Group: 32, Data: make([]byte, 2*32), Scales: make([]byte, 2*2*2)}
	require.NoError(t, good.Validate())
	for name, change := range map[string]func(*Part){
		"short data":   func(p *Part) { p.Data = p.Data[1:] },
		"short scales": func(p *Part) { p.Scales = nil },
		"group":        func(p *Part) { p.Group = 48 },
		"no rows":      func(p *Part) { p.Rows = 0 },
		"rotary head":  func(p *Part) { p.RotaryHead = 4 },
	} {
		bad := good
		change(&bad)
		require.ErrorContains(t, bad.Validate(), `"w"`, name)
	}
	two := WeightDesc{Name: "qkv", Parts: []Part{good, {Name: "k", Rows: 1, Cols: 8, Format: F32, Data: make([]byte, 32)}}}
	require.ErrorContains(t, two.Validate(), "8 columns")
	require.ErrorContains(t, (&WeightDesc{Name: "none"}).Validate(), "no parts")
}

func TestParseFormat(t *testing.T) {
	for f := F32; f <= Int4; f++ {
		got, err := ParseFormat(f.String())
		require.NoError(t, err)
		require.Equal(t, f, got)
	}
	_, err := ParseFormat("q4_k")
	require.ErrorContains(t, err, `"q4_k"`)
}
