package device

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Format is how the elements of a weight matrix are stored.
type Format uint8

// Stored formats. All multi-byte elements are little-endian.
const (
	F32  Format = iota // 4 bytes an element
	BF16               // 2 bytes: the upper half of an F32
	F16                // 2 bytes, IEEE half precision
	Int8               // 1 byte, signed code × the group's scale
	Int4               // half a byte, (nibble − 8) × the group's scale
)

// int4Block is how many elements share 16 bytes of an Int4 row: byte j holds element j in its low nibble and element
// j+16 in its high nibble, so that a mask and a shift each give sixteen neighbours.
const int4Block = 32

var formatNames = [...]string{F32: "f32", BF16: "bf16", F16: "f16", Int8: "int8", Int4: "int4"}

func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("format(%d)", uint8(f))
}

// ParseFormat reads a name as String prints it.
func ParseFormat(s string) (Format, error) {
	for f, name := range formatNames {
		if name == s {
			return Format(f), nil
		}
	}
	return 0, fmt.Errorf("format %q is unknown: use f32, bf16, f16, int8 or int4", s)
}

// Grouped says whether rows carry one F16 scale per group of elements.
func (f Format) Grouped() bool { return f == Int8 || f == Int4 }

// RowBytes is the size of the codes of one row of cols elements. Grouped formats pad the row to whole groups.
func (f Format) RowBytes(cols, group int) int {
	switch f {
	case F32:
		return 4 * cols
	case BF16, F16:
		return 2 * cols
	case Int8:
		return Groups(cols, group) * group
	default:
		return Groups(cols, group) * group / 2
	}
}

// Groups is the number of scales of one row: ⌈cols / group⌉.
func Groups(cols, group int) int { return (cols + group - 1) / group }

// ValidGroup says whether a grouped format accepts this group size.
func ValidGroup(group int) bool { return group == 32 || group == 64 || group == 128 }

// Int4Index locates element i of a row: its byte, and how far to shift it right.
func Int4Index(i int) (byteIndex, shift int) {
	block, in := i/int4Block, i%int4Block
	return block*int4Block/2 + in%16, in / 16 * 4
}

// Dequantize writes row r of the part as stored (before any rotary reordering) to dst[0:Cols].
func (p *Part) Dequantize(dst []float32, r int) {
	stride := p.Format.RowBytes(p.Cols, p.Group)
	row := p.Data[r*stride : (r+1)*stride]
	dst = dst[:p.Cols]
	var scales []byte
	if p.Format.Grouped() {
		n := Groups(p.Cols, p.Group)
		scales = p.Scales[2*r*n : 2*(r+1)*n]
	}
	for i := range dst {
		switch p.Format {
		case F32:
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:]))
		case BF16:
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(row[2*i:])) << 16)
		case F16:
			dst[i] = HalfToFloat(binary.LittleEndian.Uint16(row[2*i:]))
		case Int8:
			dst[i] = float32(int8(row[i])) * HalfToFloat(binary.LittleEndian.Uint16(scales[i/p.Group*2:]))
		case Int4:
			at, shift := Int4Index(i)
			code := int(row[at]>>shift&15) - 8
			dst[i] = float32(code) * HalfToFloat(binary.LittleEndian.Uint16(scales[i/p.Group*2:]))
		}
	}
}

// HalfToFloat widens an IEEE half; every value is exact.
func HalfToFloat(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exp {
	case 0: // zero or subnormal: frac × 2⁻²⁴
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(v))
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// FloatToHalf rounds to the nearest IEEE half, ties to even; what is too large becomes infinity.
func FloatToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x477ff000: // rounds to 65536 or above
		return sign | 0x7c00
	case b < 0x38800000: // below 2⁻¹⁴: a multiple of 2⁻²⁴
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(b))*(1<<24)))
	}
	b += 0xfff + b>>13&1
	return sign | uint16((b-0x38000000)>>13)
}
