package amdisa

import (
	"fmt"
	"math"
)

// Conversions between formats of 32 bits and fewer.

func packTowardsZero(a, b uint32) uint32 {
	return uint32(roundHalf(float64(f32(a)), true)) | uint32(roundHalf(float64(f32(b)), true))<<16
}

func init() {
	type u = uint32
	from := func(in, out format, f func(a u) u, names ...string) {
		vector(vectorOp{n: 1, in: in, out: out, run: lift(func(a, _, _ u) u { return f(a) })}, names...)
	}
	from(fmtBits, fmtFloat, func(a u) u { return b32(float32(a)) }, "v_cvt_f32_u32")
	for i := range 4 {
		from(fmtBits, fmtFloat, func(a u) u { return b32(float32(a >> (8 * i) & 255)) }, fmt.Sprintf("v_cvt_f32_ubyte%d", i))
	}
	from(fmtBits, fmtFloat, func(a u) u { return b32(float32(int32(a<<28)>>28) / 16) }, "v_cvt_off_f32_i4")
	signed := func(round func(float64) float64) func(u) u {
		return func(a u) u { return u(int32(toInt(round(float64(f32(a))), math.MinInt32, math.MaxInt32))) }
	}
	from(fmtFloat, fmtBits, signed(math.Trunc), "v_cvt_i32_f32")
	from(fmtFloat, fmtBits, signed(math.Floor), "v_cvt_flr_i32_f32", "v_cvt_floor_i32_f32")
	from(fmtFloat, fmtBits, signed(func(a float64) float64 { return math.Floor(a + 0.5) }), "v_cvt_rpi_i32_f32", "v_cvt_nearest_i32_f32")
	from(fmtFloat, fmtBits, func(a u) u { return u(toInt(float64(f32(a)), 0, math.MaxUint32)) }, "v_cvt_u32_f32")
	from(fmtFloat, fmtHalf, func(a u) u { return toHalf(float64(f32(a))) }, "v_cvt_f16_f32")
	from(fmtHalf, fmtHalf, func(a u) u { return toHalf(float64(int16(a))) }, "v_cvt_f16_i16")
	from(fmtHalf, fmtHalf, func(a u) u { return toHalf(float64(uint16(a))) }, "v_cvt_f16_u16")
	from(fmtHalf, fmtHalf, func(a u) u { return u(int32(toInt(float64(half(a)), math.MinInt16, math.MaxInt16))) & 0xffff }, "v_cvt_i16_f16")
	from(fmtHalf, fmtHalf, func(a u) u { return u(toInt(float64(half(a)), 0, math.MaxUint16)) }, "v_cvt_u16_f16")
	from(fmtFloat, fmtBits, func(a u) u {
		f := float64(f32(a))
		if f == 0 || math.IsInf(f, 0) || f != f {
			return 0
		}
		_, e := math.Frexp(f)
		return u(e)
	}, "v_frexp_exp_i32_f32")
	two := func(in format, f func(a, b u) u, names ...string) {
		vector(vectorOp{n: 2, in: in, out: fmtPacked, integers: true, run: lift(func(a, b, _ u) u { return f(a, b) })}, names...)
	}
	two(fmtFloat, packTowardsZero, "v_cvt_pkrtz_f16_f32", "v_cvt_pk_rtz_f16_f32")
	two(fmtFloat, func(a, b u) u { return toHalf(float64(f32(a))) | toHalf(float64(f32(b)))<<16 }, "v_cvt_pk_f16_f32")
	two(fmtFloat, func(a, b u) u { return toBF16(f32(a)) | toBF16(f32(b))<<16 }, "v_cvt_pk_bf16_f32")
	two(fmtBits, func(a, b u) u { return saturateS16(clip16(a)) | saturateS16(clip16(b))<<16 }, "v_cvt_pk_i16_i32")
	two(fmtBits, func(a, b u) u { return min(a, 0xffff) | min(b, 0xffff)<<16 }, "v_cvt_pk_u16_u32")
	vector(vectorOp{n: 3, in: fmtFloat, out: fmtBits, run: lift(func(a, b, c u) u {
		sh := 8 * (b & 3)
		return c&^(255<<sh) | u(toInt(math.RoundToEven(float64(f32(a))), 0, 255))<<sh
	})}, "v_cvt_pk_u8_f32")
}

func clip16(a uint32) int32 { return max(min(int32(a), 1<<15-1), -1<<15) }
