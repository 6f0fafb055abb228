package amdisa

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Vector ALU: 64-bit sources or results, carries, and the division helpers.

// wide reads one lane of a 64-bit operand with its modifiers.
func (w *wave) wide(o *operand, l int, t format) uint64 {
	v := w.lane64(o, l, t)
	if t == fmtDouble {
		if o.abs {
			v &= 1<<63 - 1
		}
		if o.neg {
			v ^= 1 << 63
		}
	}
	return v
}

// narrow reads one lane of a 32-bit operand with its floating-point modifiers.
func (w *wave) narrow(o *operand, l int) uint32 {
	v := w.lane(o, l, fmtFloat)
	if o.abs {
		v &= 1<<31 - 1
	}
	if o.neg {
		v ^= 1 << 31
	}
	return v
}

// wideOp registers an operation with one format a source in src: b 32 bits, f float, q 64 bits, d double; dst likewise.
func wideOp(src, dst string, f func(a, b, c uint64) uint64, names ...string) {
	register(func(_ *Program, in *inst) (func(*wave), error) {
		if err := in.want(len(src) + 1); err != nil {
			return nil, err
		}
		if in.dpp != nil || in.sdwa != nil || in.clamp || in.scale != 1 {
			return nil, fmt.Errorf("%s: this form is not emulated", in.text)
		}
		o := in.ops
		return func(w *wave) {
			for m := w.exec(); m != 0; m &= m - 1 {
				l := bits.TrailingZeros64(m)
				var x [3]uint64
				for i, t := range src {
					switch t {
					case 'b', 'f':
						x[i] = uint64(w.narrow(&o[1+i], l))
					case 'q':
						x[i] = w.wide(&o[1+i], l, fmtLong)
					default:
						x[i] = w.wide(&o[1+i], l, fmtDouble)
					}
				}
				r := f(x[0], x[1], x[2])
				if dst == "b" {
					w.v[o[0].reg][l] = uint32(r)
				} else {
					w.setLane64(&o[0], l, r)
				}
			}
		}, nil
	}, names...)
}

func init() {
	type u = uint64
	wideOp("bq", "q", func(a, b, _ u) u { return b << (a & 63) }, "v_lshlrev_b64")
	wideOp("bq", "q", func(a, b, _ u) u { return b >> (a & 63) }, "v_lshrrev_b64")
	wideOp("bq", "q", func(a, b, _ u) u { return u(int64(b) >> (a & 63)) }, "v_ashrrev_i64")
	wideOp("qbq", "q", func(a, b, c u) u { return a<<(b&7) + c }, "v_lshl_add_u64")
	wideOp("q", "q", func(a, _, _ u) u { return a }, "v_mov_b64")
	wideOp("f", "d", func(a, _, _ u) u { return b64(float64(f32(uint32(a)))) }, "v_cvt_f64_f32")
	wideOp("b", "d", func(a, _, _ u) u { return b64(float64(int32(a))) }, "v_cvt_f64_i32")
	wideOp("b", "d", func(a, _, _ u) u { return b64(float64(uint32(a))) }, "v_cvt_f64_u32")
	wideOp("d", "b", func(a, _, _ u) u { return u(b32(float32(f64(a)))) }, "v_cvt_f32_f64")
	wideOp("d", "b", func(a, _, _ u) u { return u(uint32(int32(toInt(f64(a), math.MinInt32, math.MaxInt32)))) }, "v_cvt_i32_f64")
	wideOp("d", "b", func(a, _, _ u) u { return u(toInt(f64(a), 0, math.MaxUint32)) }, "v_cvt_u32_f64")
	wideOp("ddd", "d", func(a, b, c u) u { return b64(math.FMA(f64(a), f64(b), f64(c))) }, "v_fma_f64")
	wideOp("dd", "d", func(a, b, _ u) u { return b64(f64(a) + f64(b)) }, "v_add_f64")
	wideOp("dd", "d", func(a, b, _ u) u { return b64(f64(a) * f64(b)) }, "v_mul_f64")
	wideOp("db", "d", func(a, b, _ u) u { return b64(math.Ldexp(f64(a), int(int32(b)))) }, "v_ldexp_f64")
	wideOp("d", "d", func(a, _, _ u) u { return b64(math.Floor(f64(a))) }, "v_floor_f64")
	wideOp("d", "d", func(a, _, _ u) u { return b64(math.Trunc(f64(a))) }, "v_trunc_f64")
	wideOp("d", "d", func(a, _, _ u) u { return b64(math.RoundToEven(f64(a))) }, "v_rndne_f64")
	register(buildFMAC64, "v_fmac_f64")
	register(buildMad64, "v_mad_u64_u32", "v_mad_co_u64_u32", "v_mad_i64_i32", "v_mad_co_i64_i32")
	for name, k := range map[string]struct{ subtract, reverse, carry bool }{
		"v_add_co_u32": {}, "v_addc_co_u32": {carry: true}, "v_add_co_ci_u32": {carry: true},
		"v_sub_co_u32": {subtract: true}, "v_subb_co_u32": {subtract: true, carry: true}, "v_sub_co_ci_u32": {subtract: true, carry: true},
		"v_subrev_co_u32": {true, true, false}, "v_subbrev_co_u32": {true, true, true}, "v_subrev_co_ci_u32": {true, true, true},
	} {
		register(func(p *Program, in *inst) (func(*wave), error) {
			return buildCarry(p, in, k.subtract, k.reverse, k.carry)
		}, name)
	}
	register(buildDivScale, "v_div_scale_f32")
	register(buildDivFMAS, "v_div_fmas_f32")
}

func buildFMAC64(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(3); err != nil {
		return nil, err
	}
	o := in.ops
	return func(w *wave) {
		w.each(func(l int) {
			a, b, c := w.wide(&o[1], l, fmtDouble), w.wide(&o[2], l, fmtDouble), w.lane64(&o[0], l, fmtDouble)
			w.setLane64(&o[0], l, b64(math.FMA(f64(a), f64(b), f64(c))))
		})
	}, nil
}

func buildMad64(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(5); err != nil {
		return nil, err
	}
	o, signed := in.ops, strings.Contains(in.name, "i64")
	return func(w *wave) {
		var overflow uint64
		w.each(func(l int) {
			a, b := w.lane(&o[2], l, fmtBits), w.lane(&o[3], l, fmtBits)
			product := uint64(a) * uint64(b)
			if signed {
				product = uint64(int64(int32(a)) * int64(int32(b)))
			}
			sum, carry := bits.Add64(product, w.lane64(&o[4], l, fmtLong), 0)
			w.setLane64(&o[0], l, sum)
			overflow |= carry << l
		})
		w.setMask(&o[1], overflow)
	}, nil
}

func buildCarry(p *Program, in *inst, subtract, reverse, useCarry bool) (func(*wave), error) {
	if err := in.want(4); err != nil {
		return nil, err
	}
	if in.clamp {
		return nil, fmt.Errorf("%s: clamp is not emulated", in.name)
	}
	out, carryIn := in.ops[1], vcc
	if len(in.ops) > 4 {
		carryIn = in.ops[4]
	}
	fa, fb := in.fetcher(p, 0, in.ops[2], fmtBits), in.fetcher(p, 1, in.ops[3], fmtBits)
	commit, dpp, size := in.commit(p, fmtBits), in.dpp, p.wave
	return func(w *wave) {
		a, b := fa(w, &w.tmp[0]), fb(w, &w.tmp[1])
		if reverse {
			a, b = b, a
		}
		var carries, ci uint64
		if useCarry {
			ci = w.mask(&carryIn)
		}
		r := &w.tmp[3]
		for l := range size {
			x, y := uint64(a[l]), uint64(b[l])
			v := x + y + ci>>l&1
			if subtract {
				v = x - y - ci>>l&1
			}
			r[l] = uint32(v)
			carries |= v >> 32 & 1 << l
		}
		m := w.exec()
		if dpp != nil {
			m = dpp.writes(m)
		}
		commit(w, r, m)
		w.setMask(&out, carries&w.exec())
	}, nil
}

// buildDivScale builds the first step of an exact division: it scales denominator or numerator away from the exponent's
// limits, and marks in the mask the lanes whose quotient v_div_fmas must scale back.
func buildDivScale(p *Program, in *inst) (func(*wave), error) {
	if err := in.want(5); err != nil {
		return nil, err
	}
	o, commit := in.ops, in.commit(p, fmtBits)
	return func(w *wave) {
		var scaled uint64
		w.each(func(l int) {
			v, back := divScale(f32(w.narrow(&o[2], l)), f32(w.narrow(&o[3], l)), f32(w.narrow(&o[4], l)))
			w.tmp[3][l] = b32(v)
			scaled |= bit(back) << l
		})
		commit(w, &w.tmp[3], w.exec())
		w.setMask(&o[1], scaled)
	}, nil
}

// divScale scales v, which is the denominator d or the numerator n.
func divScale(v, d, n float32) (r float32, back bool) {
	up := func(e int) float32 { return float32(math.Ldexp(float64(v), e)) }
	pick := func(of float32) float32 {
		if v == of {
			return up(64)
		}
		return v
	}
	switch {
	case n == 0 || d == 0:
		return float32(math.NaN()), false
	case exponent(n)-exponent(d) >= 96:
		return pick(d), true
	case isDenormal(d):
		return up(64), false
	case isDenormal(1/d) && isDenormal(n/d):
		return pick(d), true
	case isDenormal(1 / d):
		return up(-64), false
	case isDenormal(n / d):
		return pick(n), true
	case exponent(n) <= 23:
		return up(64), false
	}
	return v, false
}

func buildDivFMAS(p *Program, in *inst) (func(*wave), error) {
	if err := in.want(4); err != nil {
		return nil, err
	}
	o, commit := in.ops, in.commit(p, fmtBits)
	return func(w *wave) {
		scaled := w.mask(&vcc)
		w.each(func(l int) {
			a, b, c := f32(w.narrow(&o[1], l)), f32(w.narrow(&o[2], l)), f32(w.narrow(&o[3], l))
			r := fma32(a, b, c)
			if scaled>>l&1 == 1 {
				e := -64
				if exponent(c) > 127 {
					e = 64
				}
				r = float32(math.Ldexp(float64(r), e))
			}
			w.tmp[3][l] = b32(r)
		})
		commit(w, &w.tmp[3], w.exec())
	}, nil
}
