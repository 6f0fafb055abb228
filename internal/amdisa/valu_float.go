package amdisa

import (
	"math"
	"strings"
)

// Vector ALU: single and half precision.

func of32(f func(a, b, c float32) float32) laneOp {
	return func(a, b, c uint32) uint32 { return b32(f(f32(a), f32(b), f32(c))) }
}

func of16(f func(a, b, c float64) float64) laneOp {
	return func(a, b, c uint32) uint32 {
		return toHalf(f(float64(half(a)), float64(half(b)), float64(half(c))))
	}
}

func med3(a, b, c float32) float32 {
	if a != a || b != b || c != c {
		return min32(min32(a, b), c)
	}
	return max32(min32(a, b), min32(max32(a, b), c))
}

// unary are functions of one float, computed in double precision and rounded once; they exist for both widths.
var unary = map[string]func(float64) float64{
	"exp": math.Exp2, "log": math.Log2, "sqrt": math.Sqrt, "floor": math.Floor, "ceil": math.Ceil, "trunc": math.Trunc,
	"rndne": math.RoundToEven,
	"rcp":   func(a float64) float64 { return 1 / a },
	"rsq":   func(a float64) float64 { return 1 / math.Sqrt(a) },
	"sin":   func(a float64) float64 { return math.Sin(2 * math.Pi * math.Mod(a, 1)) },
	"cos":   func(a float64) float64 { return math.Cos(2 * math.Pi * math.Mod(a, 1)) },
	"fract": func(a float64) float64 { return math.Min(a-math.Floor(a), 1-1.0/(1<<24)) },
}

func init() {
	for name, f := range unary {
		one := func(a, _, _ uint32) uint32 { return b32(float32(f(float64(f32(a))))) }
		floatOp(1, one, "v_"+name+"_f32")
		halfOp(1, of16(func(a, _, _ float64) float64 { return f(a) }), "v_"+name+"_f16")
		if name == "rcp" {
			floatOp(1, one, "v_rcp_iflag_f32")
		}
		switch name {
		case "exp", "log", "rcp", "rsq", "sqrt":
			register(buildPseudoScalar(one), "v_s_"+name+"_f32")
			register(buildPseudoScalar(of16(func(a, _, _ float64) float64 { return f(a) })), "v_s_"+name+"_f16")
		}
	}
	f := func(n int, g func(a, b, c float32) float32, names ...string) { floatOp(n, of32(g), names...) }
	f(2, func(a, b, _ float32) float32 { return b - a }, "v_subrev_f32", "v_dual_subrev_f32")
	f(2, func(a, b, _ float32) float32 {
		if a == 0 || b == 0 {
			return 0
		}
		return a * b
	}, "v_mul_legacy_f32", "v_mul_dx9_zero_f32", "v_dual_mul_dx9_zero_f32")
	f(2, func(a, b, _ float32) float32 { return max32(a, b) }, "v_max_f32", "v_max_num_f32", "v_dual_max_f32", "v_dual_max_num_f32")
	f(2, func(a, b, _ float32) float32 { return min32(a, b) }, "v_min_f32", "v_min_num_f32", "v_dual_min_f32", "v_dual_min_num_f32")
	f(2, func(a, b, _ float32) float32 { return maximum32(a, b) }, "v_maximum_f32")
	f(2, func(a, b, _ float32) float32 { return minimum32(a, b) }, "v_minimum_f32")
	f(3, func(a, b, c float32) float32 { return maximum32(maximum32(a, b), c) }, "v_maximum3_f32")
	f(3, func(a, b, c float32) float32 { return minimum32(minimum32(a, b), c) }, "v_minimum3_f32")
	f(3, func(a, b, c float32) float32 { return max32(max32(a, b), c) }, "v_max3_f32", "v_max3_num_f32")
	f(3, func(a, b, c float32) float32 { return min32(min32(a, b), c) }, "v_min3_f32", "v_min3_num_f32")
	f(3, med3, "v_med3_f32", "v_med3_num_f32")
	f(3, func(a, b, c float32) float32 { return min32(max32(a, b), c) }, "v_maxmin_f32", "v_maxmin_num_f32")
	f(3, func(a, b, c float32) float32 { return max32(min32(a, b), c) }, "v_minmax_f32", "v_minmax_num_f32")
	f(1, func(a, _, _ float32) float32 { return fraction(a) }, "v_frexp_mant_f32")
	floatOp(2, func(a, b, _ uint32) uint32 {
		return b32(float32(math.Ldexp(float64(f32(a)), int(int32(b)))))
	}, "v_ldexp_f32")
	floatOp(3, divFixup, "v_div_fixup_f32")
	initHalf()
}

func fraction(a float32) float32 {
	m, _ := math.Frexp(float64(a))
	return float32(m)
}

// divFixup replaces the quotient by what the division's special cases ask for: q is the quotient, d the denominator, n the
// numerator.
func divFixup(q, d, n uint32) uint32 {
	y, z := f32(d), f32(n)
	sign := (d ^ n) & (1 << 31)
	infD, infN := math.IsInf(float64(y), 0), math.IsInf(float64(z), 0)
	switch {
	case z != z:
		return n | 1<<22
	case y != y:
		return d | 1<<22
	case y == 0 && z == 0, infD && infN:
		return 0xffc00000
	case y == 0 || infN:
		return sign | 0x7f800000
	case infD || z == 0:
		return sign
	}
	return sign | q&(1<<31-1)
}

func initHalf() {
	type d = float64
	h := func(n int, g func(a, b, c d) d, names ...string) { halfOp(n, of16(g), names...) }
	h(2, func(a, b, _ d) d { return a + b }, "v_add_f16")
	h(2, func(a, b, _ d) d { return a - b }, "v_sub_f16")
	h(2, func(a, b, _ d) d { return b - a }, "v_subrev_f16")
	h(2, func(a, b, _ d) d { return a * b }, "v_mul_f16")
	fma := func(a, b, c d) d { return a*b + c }
	h(3, fma, "v_fma_f16", "v_fmaak_f16", "v_fmamk_f16", "v_mad_f16")
	vector(vectorOp{n: 3, in: fmtHalf, out: fmtHalf, inPlace: true, run: lift(of16(fma))}, "v_fmac_f16", "v_mac_f16")
	h(2, func(a, b, _ d) d { return d(max32(float32(a), float32(b))) }, "v_max_f16", "v_max_num_f16")
	h(2, func(a, b, _ d) d { return d(min32(float32(a), float32(b))) }, "v_min_f16", "v_min_num_f16")
	h(3, func(a, b, c d) d { return d(med3(float32(a), float32(b), float32(c))) }, "v_med3_f16", "v_med3_num_f16")
	h(3, func(a, b, c d) d { return d(max32(max32(float32(a), float32(b)), float32(c))) }, "v_max3_f16", "v_max3_num_f16")
	h(3, func(a, b, c d) d { return d(min32(min32(float32(a), float32(b)), float32(c))) }, "v_min3_f16", "v_min3_num_f16")
	halfOp(2, func(a, b, _ uint32) uint32 { return toHalf(math.Ldexp(d(half(a)), int(int16(b)))) }, "v_ldexp_f16")
	halfOp(3, divFixup16, "v_div_fixup_f16")
}

func divFixup16(q, d, n uint32) uint32 {
	r := f32(divFixup(b32(half(q)), b32(half(d)), b32(half(n))))
	return toHalf(float64(r))
}

// buildPseudoScalar builds gfx12's transcendentals on scalar registers.
func buildPseudoScalar(f laneOp) builder {
	return func(_ *Program, in *inst) (func(*wave), error) {
		if err := in.want(2); err != nil {
			return nil, err
		}
		t := fmtFloat
		if strings.HasSuffix(in.name, "f16") {
			t = fmtHalf
		}
		src := in.ops[1]
		adjust := in.adjust(0, &src, t)
		return func(w *wave) {
			v := w.lane(&src, 0, t)
			if adjust != nil {
				v = adjust(v)
			}
			w.setScalar(&in.ops[0], f(v, 0, 0))
		}, nil
	}
}
