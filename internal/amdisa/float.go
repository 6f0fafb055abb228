package amdisa

import "math"

func f32(b uint32) float32      { return math.Float32frombits(b) }
func b32(f float32) uint32      { return math.Float32bits(f) }
func f64(b uint64) float64      { return math.Float64frombits(b) }
func b64(f float64) uint64      { return math.Float64bits(f) }
func bf16(h uint16) float32     { return f32(uint32(h) << 16) }
func half(h uint32) float32     { return halves[uint16(h)] }
func toHalf(f float64) uint32   { return uint32(roundHalf(f, false)) }
func toBF16(f float32) uint32   { return roundBF16(f) }
func isDenormal(f float32) bool { return f != 0 && exponent(f) == 0 }
func exponent(f float32) int    { return int(b32(f)>>23) & 255 }

// halves holds every IEEE half as a float: the widest use of an emulated kernel is reading weights in halves.
var halves = func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for i := range t {
		t[i] = widenHalf(uint16(i))
	}
	return t
}()

func widenHalf(h uint16) float32 {
	s, e, m := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch {
	case e == 31:
		return f32(s | 0x7f800000 | m<<13)
	case e != 0:
		return f32(s | (e+112)<<23 | m<<13)
	}
	return f32(s | b32(float32(m)/(1<<24)))
}

// roundHalf rounds f to a half: to nearest even, or towards zero.
func roundHalf(f float64, towardsZero bool) uint16 {
	b := b64(f)
	sign := uint16(b>>48) & 0x8000
	e := int(b>>52)&0x7ff - 1023
	switch {
	case e == 1024 && b<<12 != 0:
		return sign | 0x7e00
	case e == 1024:
		return sign | 0x7c00
	case e < -25:
		return sign
	}
	drop := uint(42) // bits of a float64's fraction beyond a half's
	if e < -14 {
		drop += uint(-14 - e)
	}
	m := b&(1<<52-1) | 1<<52
	q := m >> drop
	if rest, tie := m&(1<<drop-1), uint64(1)<<(drop-1); !towardsZero && (rest > tie || rest == tie && q&1 == 1) {
		q++
	}
	v := q // a subnormal: the exponent field is zero, and rounding up into the smallest normal carries by itself
	if e >= -14 {
		v = q + uint64(e+14)<<10
	}
	if v >= 0x7c00 {
		if towardsZero {
			return sign | 0x7bff
		}
		return sign | 0x7c00
	}
	return sign | uint16(v)
}

func roundBF16(f float32) uint32 {
	b := b32(f)
	if f != f {
		return b>>16 | 0x40
	}
	return (b + 0x7fff + b>>16&1) >> 16
}

// fma32 is the fused multiply-add of single precision: the product is exact in double precision.
func fma32(a, b, c float32) float32 { return addProduct(c, float64(a)*float64(b)) }

// addProduct is c + p rounded once to single precision: where rounding the sum twice could differ from that (a tie of the
// second rounding, or a subnormal result) the first rounds to odd.
func addProduct(c float32, p float64) float32 {
	s := p + float64(c)
	u := b64(s)
	if u&0x1fffffff != 0x10000000 && u>>52&0x7ff > 1023-126 {
		return float32(s)
	}
	if math.IsInf(s, 0) || s != s {
		return float32(s)
	}
	t := s - p
	e := (p - (s - t)) + (float64(c) - t)
	if e != 0 && u&1 == 0 {
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
		s = f64(u)
	}
	return float32(s)
}

// max32 and min32 follow IEEE maxNum: a NaN loses to a number, and -0 is below +0.
func max32(a, b float32) float32 {
	switch {
	case a != a:
		return b
	case b != b || a > b:
		return a
	case a == b:
		return f32(b32(a) & b32(b))
	}
	return b
}

func min32(a, b float32) float32 {
	switch {
	case a != a:
		return b
	case b != b || a < b:
		return a
	case a == b:
		return f32(b32(a) | b32(b))
	}
	return b
}

// maximum32 and minimum32 follow IEEE 754-2019: a NaN wins.
func maximum32(a, b float32) float32 {
	if a != a || b != b {
		return float32(math.NaN())
	}
	return max32(a, b)
}

func minimum32(a, b float32) float32 {
	if a != a || b != b {
		return float32(math.NaN())
	}
	return min32(a, b)
}

func clampUnit(f float32) float32 { return max32(0, min32(1, f)) }

// toInt truncates f into [lo, hi]; a NaN becomes 0.
func toInt(f, lo, hi float64) float64 {
	if f != f {
		return 0
	}
	return math.Max(lo, math.Min(hi, math.Trunc(f)))
}
