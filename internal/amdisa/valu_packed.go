package amdisa

import (
	"fmt"
	"strings"
)

// Vector ALU: two halves, two 16-bit integers or two floats at a time, and the mixed-precision multiply-adds.

func packed(n int, integers bool, f laneOp, names ...string) {
	vector(vectorOp{n: n, in: fmtPacked, out: fmtPacked, integers: integers, run: lift(func(a, b, c uint32) uint32 {
		return f(a&0xffff, b&0xffff, c&0xffff)&0xffff | f(a>>16, b>>16, c>>16)<<16
	})}, names...)
}

func init() {
	type u = uint32
	type d = float64
	h := func(n int, f func(a, b, c d) d, names ...string) { packed(n, false, of16(f), names...) }
	h(2, func(a, b, _ d) d { return a + b }, "v_pk_add_f16")
	h(2, func(a, b, _ d) d { return a * b }, "v_pk_mul_f16")
	h(3, func(a, b, c d) d { return a*b + c }, "v_pk_fma_f16")
	h(2, func(a, b, _ d) d { return d(max32(float32(a), float32(b))) }, "v_pk_max_f16", "v_pk_max_num_f16")
	h(2, func(a, b, _ d) d { return d(min32(float32(a), float32(b))) }, "v_pk_min_f16", "v_pk_min_num_f16")
	h(2, func(a, b, _ d) d { return d(maximum32(float32(a), float32(b))) }, "v_pk_maximum_f16")
	h(2, func(a, b, _ d) d { return d(minimum32(float32(a), float32(b))) }, "v_pk_minimum_f16")
	s := func(v u) int32 { return int32(int16(v)) }
	packed(2, true, func(a, b, _ u) u { return a + b }, "v_pk_add_u16", "v_pk_add_i16")
	packed(2, true, func(a, b, _ u) u { return a - b }, "v_pk_sub_u16", "v_pk_sub_i16")
	packed(2, true, func(a, b, _ u) u { return a * b }, "v_pk_mul_lo_u16")
	packed(3, true, func(a, b, c u) u { return a*b + c }, "v_pk_mad_u16", "v_pk_mad_i16")
	packed(2, true, func(a, b, _ u) u { return b << (a & 15) }, "v_pk_lshlrev_b16")
	packed(2, true, func(a, b, _ u) u { return b >> (a & 15) }, "v_pk_lshrrev_b16")
	packed(2, true, func(a, b, _ u) u { return u(s(b) >> (a & 15)) }, "v_pk_ashrrev_i16")
	packed(2, true, func(a, b, _ u) u { return max(a, b) }, "v_pk_max_u16")
	packed(2, true, func(a, b, _ u) u { return min(a, b) }, "v_pk_min_u16")
	packed(2, true, func(a, b, _ u) u { return u(max(s(a), s(b))) }, "v_pk_max_i16")
	packed(2, true, func(a, b, _ u) u { return u(min(s(a), s(b))) }, "v_pk_min_i16")
	register(buildPackedFloat, "v_pk_fma_f32", "v_pk_mul_f32", "v_pk_add_f32", "v_pk_mov_b32")
	register(buildMix, "v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16", "v_mad_mix_f32", "v_mad_mixlo_f16", "v_mad_mixhi_f16")
}

// buildPackedFloat builds operations on pairs of registers; op_sel and op_sel_hi pick the register of the pair that the
// low and the high result read.
func buildPackedFloat(p *Program, in *inst) (func(*wave), error) {
	n := len(in.ops) - 1
	if n < 2 || n > 3 || in.clamp {
		return nil, fmt.Errorf("%s: unknown form", in.name)
	}
	if in.name == "v_pk_mov_b32" { // the low result from the first source, the high from the second
		in.opSelHi[1] = in.opSel[1]
	}
	var src [2][3]fetch
	for hi := range 2 {
		for i := range n {
			o, sel, neg := in.ops[1+i], in.opSel[i], in.negLo[i]
			if hi == 1 {
				sel, neg = in.opSelHi[i], in.negHi[i]
			}
			if o.kind == vectorReg || o.kind == scalarReg {
				o.reg += sel
			}
			f := bareFetch(o, fmtFloat)
			if neg == 1 {
				inner := f
				f = func(w *wave, buf *lanes) *lanes {
					from := inner(w, buf)
					for l := range buf {
						buf[l] = from[l] ^ 1<<31
					}
					return buf
				}
			}
			src[hi][i] = f
		}
		if n == 2 {
			src[hi][2] = src[hi][1]
		}
	}
	run := map[string]vecOp{"v_pk_fma_f32": hotFMA, "v_pk_mul_f32": hotMulF, "v_pk_add_f32": hotAddF, "v_pk_mov_b32": hotMov}[in.name]
	second := func(d, a, b, c []uint32) { run(d, a, b, c) }
	if in.name == "v_pk_mov_b32" {
		second = func(d, _, b, _ []uint32) { copy(d, b) }
	}
	low := in.commit(p, fmtBits)
	upper := *in
	upper.ops = append([]operand(nil), in.ops...)
	upper.ops[0].reg++
	high := upper.commit(p, fmtBits)
	size := p.wave
	return func(w *wave) {
		for hi, f := range []vecOp{run, second} {
			s := &src[hi]
			f(w.tmp[3+hi][:size], s[0](w, &w.tmp[0])[:size], s[1](w, &w.tmp[1])[:size], s[2](w, &w.tmp[2])[:size])
		}
		low(w, &w.tmp[3], w.exec())
		high(w, &w.tmp[4], w.exec())
	}, nil
}

// buildMix builds the multiply-add whose sources are single or half precision each: op_sel_hi marks a half, op_sel which.
func buildMix(p *Program, in *inst) (func(*wave), error) {
	if err := in.want(4); err != nil {
		return nil, err
	}
	var src [3]fetch
	for i := range src {
		o := in.ops[1+i]
		o.abs, o.neg = o.abs || in.negHi[i] == 1, o.neg || in.negLo[i] == 1
		isHalf, shift := in.opSelHi[i] == 1, uint(16*in.opSel[i])
		t := fmtFloat
		if isHalf {
			t = fmtHalf
		}
		base := bareFetch(o, t)
		if !isHalf && !o.neg && !o.abs {
			src[i] = base
			continue
		}
		src[i] = func(w *wave, buf *lanes) *lanes {
			from := base(w, buf)
			for l := range buf {
				v := from[l]
				if isHalf {
					v = b32(half(v >> shift))
				}
				if o.abs {
					v &= 1<<31 - 1
				}
				if o.neg {
					v ^= 1 << 31
				}
				buf[l] = v
			}
			return buf
		}
	}
	size, clamp := p.wave, in.clamp
	return finish(p, in, func(w *wave, out *lanes) uint64 {
		r := &w.tmp[4]
		hotFMA(r[:size], src[0](w, &w.tmp[0])[:size], src[1](w, &w.tmp[1])[:size], src[2](w, &w.tmp[2])[:size])
		if clamp {
			for l := range r {
				r[l] = b32(clampUnit(f32(r[l])))
			}
		}
		old := &w.v[in.ops[0].reg]
		for l := range size {
			switch {
			case strings.HasSuffix(in.name, "lo_f16"):
				out[l] = old[l]&^0xffff | toHalf(float64(f32(r[l])))
			case strings.HasSuffix(in.name, "hi_f16"):
				out[l] = old[l]&0xffff | toHalf(float64(f32(r[l])))<<16
			default:
				out[l] = r[l]
			}
		}
		return w.exec()
	}, fmtBits), nil
}
