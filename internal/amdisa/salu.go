package amdisa

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Scalar ALU. An operation returns its result and the new SCC.

type (
	scalarOp32 func(a, b uint32, scc bool) (uint32, bool)
	scalarOp64 func(a, b uint64, scc bool) (uint64, bool)
)

// define32 registers operations whose operands follow the destination; a missing operand is zero.
func define32(f scalarOp32, names ...string) {
	register(func(_ *Program, in *inst) (func(*wave), error) {
		if err := in.want(1); err != nil {
			return nil, err
		}
		dst, a, b := in.ops[0], in.source(1), in.source(2)
		return func(w *wave) {
			var r uint32
			r, w.scc = f(w.scalar(&a), w.scalar(&b), w.scc)
			w.setScalar(&dst, r)
		}, nil
	}, names...)
}

func define64(f scalarOp64, names ...string) {
	register(func(_ *Program, in *inst) (func(*wave), error) {
		if err := in.want(1); err != nil {
			return nil, err
		}
		dst, a, b := in.ops[0], in.source(1), in.source(2)
		return func(w *wave) {
			var r uint64
			r, w.scc = f(w.scalar64(&a), w.scalar64(&b), w.scc)
			w.setScalar64(&dst, r)
		}, nil
	}, names...)
}

// source is operand i, or none.
func (in *inst) source(i int) operand {
	if i < len(in.ops) {
		return in.ops[i]
	}
	return operand{n: 1}
}

func carry32(v uint64) (uint32, bool)        { return uint32(v), v>>32 != 0 }
func nonzero(v uint32) (uint32, bool)        { return v, v != 0 }
func nonzero64(v uint64) (uint64, bool)      { return v, v != 0 }
func sext16(v uint32) uint32                 { return uint32(int32(int16(v))) }
func overflowAdd(a, b uint32) (uint32, bool) { r := a + b; return r, int32((a^r)&(b^r)) < 0 }

func init() {
	type u = uint32
	keep := func(f func(a, b u) u) scalarOp32 {
		return func(a, b u, s bool) (u, bool) { return f(a, b), s }
	}
	logic := func(f func(a, b u) u) scalarOp32 {
		return func(a, b u, _ bool) (u, bool) { return nonzero(f(a, b)) }
	}
	define32(keep(func(a, _ u) u { return a }), "s_mov_b32")
	define32(keep(func(a, _ u) u { return sext16(a) }), "s_movk_i32", "s_sext_i32_i16")
	define32(keep(func(a, _ u) u { return u(int32(int8(a))) }), "s_sext_i32_i8")
	define32(keep(func(a, b u) u { return a * b }), "s_mul_i32")
	define32(keep(func(a, b u) u { return u(uint64(a) * uint64(b) >> 32) }), "s_mul_hi_u32")
	define32(keep(func(a, b u) u { return u(int64(int32(a)) * int64(int32(b)) >> 32) }), "s_mul_hi_i32")
	define32(keep(func(a, b u) u { return (1<<(a&31) - 1) << (b & 31) }), "s_bfm_b32")
	define32(keep(func(a, _ u) u { return bits.Reverse32(a) }), "s_brev_b32")
	define32(keep(func(a, _ u) u { return trailing(a) }), "s_ff1_i32_b32", "s_ctz_i32_b32")
	define32(keep(func(a, _ u) u { return leading(a) }), "s_flbit_i32_b32", "s_clz_i32_u32")
	define32(keep(func(a, _ u) u { return leadingSigned(a) }), "s_flbit_i32", "s_cls_i32")
	define32(keep(func(a, b u) u { return a&0xffff | b<<16 }), "s_pack_ll_b32_b16")
	define32(keep(func(a, b u) u { return a&0xffff | b&0xffff0000 }), "s_pack_lh_b32_b16")
	define32(keep(func(a, b u) u { return a>>16 | b&0xffff0000 }), "s_pack_hh_b32_b16")
	define32(keep(func(a, b u) u { return a>>16 | b<<16 }), "s_pack_hl_b32_b16")
	define32(func(a, b u, s bool) (u, bool) {
		if s {
			return a, s
		}
		return b, s
	}, "s_cselect_b32")
	define32(func(a, b u, _ bool) (u, bool) { return carry32(uint64(a) + uint64(b)) }, "s_add_u32", "s_add_co_u32")
	define32(func(a, b u, s bool) (u, bool) { return carry32(uint64(a) + uint64(b) + bit(s)) }, "s_addc_u32", "s_add_co_ci_u32")
	define32(func(a, b u, _ bool) (u, bool) { return a - b, b > a }, "s_sub_u32", "s_sub_co_u32")
	define32(func(a, b u, s bool) (u, bool) { return carry32(uint64(a) - uint64(b) - bit(s)) }, "s_subb_u32", "s_sub_co_ci_u32")
	define32(func(a, b u, _ bool) (u, bool) { return overflowAdd(a, b) }, "s_add_i32", "s_add_co_i32")
	define32(func(a, b u, _ bool) (u, bool) { r := a - b; return r, int32((a^b)&(a^r)) < 0 }, "s_sub_i32", "s_sub_co_i32")
	define32(logic(func(a, b u) u { return a & b }), "s_and_b32")
	define32(logic(func(a, b u) u { return a | b }), "s_or_b32")
	define32(logic(func(a, b u) u { return a ^ b }), "s_xor_b32")
	define32(logic(func(a, b u) u { return a &^ b }), "s_andn2_b32", "s_and_not1_b32")
	define32(logic(func(a, b u) u { return a | ^b }), "s_orn2_b32", "s_or_not1_b32")
	define32(logic(func(a, b u) u { return ^(a & b) }), "s_nand_b32")
	define32(logic(func(a, b u) u { return ^(a | b) }), "s_nor_b32")
	define32(logic(func(a, b u) u { return ^(a ^ b) }), "s_xnor_b32")
	define32(logic(func(a, _ u) u { return ^a }), "s_not_b32")
	define32(logic(func(a, b u) u { return a << (b & 31) }), "s_lshl_b32")
	define32(logic(func(a, b u) u { return a >> (b & 31) }), "s_lshr_b32")
	define32(logic(func(a, b u) u { return u(int32(a) >> (b & 31)) }), "s_ashr_i32")
	define32(logic(func(a, _ u) u { return u(max(int32(a), -int32(a))) }), "s_abs_i32")
	define32(logic(absDiff), "s_absdiff_i32")
	define32(logic(func(a, _ u) u { return u(bits.OnesCount32(a)) }), "s_bcnt1_i32_b32")
	define32(logic(func(a, _ u) u { return u(32 - bits.OnesCount32(a)) }), "s_bcnt0_i32_b32")
	define32(logic(func(a, b u) u { return u(fieldU(uint64(a), b&31, b>>16&127)) }), "s_bfe_u32")
	define32(logic(func(a, b u) u { return u(fieldS(uint64(a)<<32, b&31+32, b>>16&127)) }), "s_bfe_i32")
	define32(func(a, b u, _ bool) (u, bool) { return u(max(int32(a), int32(b))), int32(a) >= int32(b) }, "s_max_i32")
	define32(func(a, b u, _ bool) (u, bool) { return u(min(int32(a), int32(b))), int32(a) < int32(b) }, "s_min_i32")
	define32(func(a, b u, _ bool) (u, bool) { return max(a, b), a >= b }, "s_max_u32")
	define32(func(a, b u, _ bool) (u, bool) { return min(a, b), a < b }, "s_min_u32")
	for i := 1; i <= 4; i++ {
		define32(func(a, b u, _ bool) (u, bool) { return carry32(uint64(a)<<i + uint64(b)) }, fmt.Sprintf("s_lshl%d_add_u32", i))
	}
	initScalar64()
	initScalarFloat()
	register(buildScalarInPlace, "s_addk_i32", "s_addk_co_i32", "s_mulk_i32", "s_bitset0_b32", "s_bitset1_b32", "s_cmov_b32", "s_cmovk_i32",
		"s_fmac_f32", "s_cmov_b64")
	for _, bits := range []string{"_b32", "_b64"} {
		for name, f := range map[string]func(s, e uint64) uint64{
			"and":      func(s, e uint64) uint64 { return s & e },
			"or":       func(s, e uint64) uint64 { return s | e },
			"xor":      func(s, e uint64) uint64 { return s ^ e },
			"nand":     func(s, e uint64) uint64 { return ^(s & e) },
			"nor":      func(s, e uint64) uint64 { return ^(s | e) },
			"xnor":     func(s, e uint64) uint64 { return ^(s ^ e) },
			"and_not1": func(s, e uint64) uint64 { return s &^ e }, "andn2": func(s, e uint64) uint64 { return s &^ e },
			"or_not1": func(s, e uint64) uint64 { return s | ^e }, "orn2": func(s, e uint64) uint64 { return s | ^e },
			"and_not0": func(s, e uint64) uint64 { return ^s & e }, "andn1": func(s, e uint64) uint64 { return ^s & e },
			"or_not0": func(s, e uint64) uint64 { return ^s | e }, "orn1": func(s, e uint64) uint64 { return ^s | e },
		} {
			register(buildSaveExec(f, true), "s_"+name+"_saveexec"+bits)
			register(buildSaveExec(f, false), "s_"+name+"_wrexec"+bits)
		}
	}
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func absDiff(a, b uint32) uint32 { d := int32(a - b); return uint32(max(d, -d)) }

func fieldU(v uint64, at, n uint32) uint64 {
	return v >> at & (1<<n - 1)
}

func fieldS(v uint64, at, n uint32) uint64 {
	if n == 0 {
		return 0
	}
	if at+n < 64 {
		v <<= 64 - at - n
		return uint64(int64(v) >> (64 - n))
	}
	return uint64(int64(v) >> at)
}

func initScalar64() {
	type u = uint64
	logic := func(f func(a, b u) u) scalarOp64 {
		return func(a, b u, _ bool) (u, bool) { return nonzero64(f(a, b)) }
	}
	keep := func(f func(a, b u) u) scalarOp64 {
		return func(a, b u, s bool) (u, bool) { return f(a, b), s }
	}
	define64(keep(func(a, _ u) u { return a }), "s_mov_b64")
	define64(keep(func(a, b u) u { return a + b }), "s_add_u64", "s_add_nc_u64")
	define64(keep(func(a, b u) u { return a - b }), "s_sub_u64", "s_sub_nc_u64")
	define64(keep(func(a, b u) u { return a * b }), "s_mul_u64")
	define64(keep(func(a, _ u) u { return bits.Reverse64(a) }), "s_brev_b64")
	define64(keep(func(a, b u) u { return (1<<(a&63) - 1) << (b & 63) }), "s_bfm_b64")
	define64(func(a, b u, s bool) (u, bool) {
		if s {
			return a, s
		}
		return b, s
	}, "s_cselect_b64")
	define64(logic(func(a, b u) u { return a & b }), "s_and_b64")
	define64(logic(func(a, b u) u { return a | b }), "s_or_b64")
	define64(logic(func(a, b u) u { return a ^ b }), "s_xor_b64")
	define64(logic(func(a, b u) u { return a &^ b }), "s_andn2_b64", "s_and_not1_b64")
	define64(logic(func(a, b u) u { return a | ^b }), "s_orn2_b64", "s_or_not1_b64")
	define64(logic(func(a, b u) u { return ^(a & b) }), "s_nand_b64")
	define64(logic(func(a, b u) u { return ^(a | b) }), "s_nor_b64")
	define64(logic(func(a, b u) u { return ^(a ^ b) }), "s_xnor_b64")
	define64(logic(func(a, _ u) u { return ^a }), "s_not_b64")
	define64(logic(func(a, b u) u { return a << (b & 63) }), "s_lshl_b64")
	define64(logic(func(a, b u) u { return a >> (b & 63) }), "s_lshr_b64")
	define64(logic(func(a, b u) u { return u(int64(a) >> (b & 63)) }), "s_ashr_i64")
	define64(logic(func(a, b u) u { return fieldU(a, uint32(b)&63, uint32(b)>>16&127) }), "s_bfe_u64")
	define64(logic(func(a, b u) u { return fieldS(a, uint32(b)&63, uint32(b)>>16&127) }), "s_bfe_i64")
	narrow := func(f func(a u) (uint32, bool), setSCC bool, names ...string) {
		register(func(_ *Program, in *inst) (func(*wave), error) {
			if err := in.want(2); err != nil {
				return nil, err
			}
			return func(w *wave) {
				r, scc := f(w.scalar64(&in.ops[1]))
				w.setScalar(&in.ops[0], r)
				if setSCC {
					w.scc = scc
				}
			}, nil
		}, names...)
	}
	narrow(func(a u) (uint32, bool) { return nonzero(uint32(bits.OnesCount64(a))) }, true, "s_bcnt1_i32_b64")
	narrow(func(a u) (uint32, bool) {
		if a == 0 {
			return ^uint32(0), false
		}
		return uint32(bits.TrailingZeros64(a)), false
	}, false, "s_ff1_i32_b64", "s_ctz_i32_b64")
	narrow(func(a u) (uint32, bool) {
		if a == 0 {
			return ^uint32(0), false
		}
		return uint32(bits.LeadingZeros64(a)), false
	}, false, "s_flbit_i32_b64", "s_clz_i32_u64")
}

// initScalarFloat registers the scalar floats of gfx11.5 and gfx12.
func initScalarFloat() {
	type u = uint32
	op := func(f func(a, b float32) float32, names ...string) {
		define32(func(a, b u, s bool) (u, bool) { return b32(f(f32(a), f32(b))), s }, names...)
	}
	op(func(a, b float32) float32 { return a + b }, "s_add_f32")
	op(func(a, b float32) float32 { return a - b }, "s_sub_f32")
	op(func(a, b float32) float32 { return a * b }, "s_mul_f32")
	op(max32, "s_max_f32", "s_max_num_f32")
	op(min32, "s_min_f32", "s_min_num_f32")
	op(maximum32, "s_maximum_f32")
	op(minimum32, "s_minimum_f32")
	op(func(a, _ float32) float32 { return float32(math.Floor(float64(a))) }, "s_floor_f32")
	op(func(a, _ float32) float32 { return float32(math.Ceil(float64(a))) }, "s_ceil_f32")
	op(func(a, _ float32) float32 { return float32(math.Trunc(float64(a))) }, "s_trunc_f32")
	op(func(a, _ float32) float32 { return float32(math.RoundToEven(float64(a))) }, "s_rndne_f32")
	keep := func(f func(a, b u) u, names ...string) {
		define32(func(a, b u, s bool) (u, bool) { return f(a, b), s }, names...)
	}
	keep(func(a, _ u) u { return b32(float32(int32(a))) }, "s_cvt_f32_i32")
	keep(func(a, _ u) u { return b32(float32(a)) }, "s_cvt_f32_u32")
	keep(func(a, _ u) u { return u(int32(toInt(float64(f32(a)), math.MinInt32, math.MaxInt32))) }, "s_cvt_i32_f32")
	keep(func(a, _ u) u { return u(toInt(float64(f32(a)), 0, math.MaxUint32)) }, "s_cvt_u32_f32")
	keep(func(a, _ u) u { return b32(half(a)) }, "s_cvt_f32_f16")
	keep(func(a, _ u) u { return b32(half(a >> 16)) }, "s_cvt_hi_f32_f16")
	keep(func(a, _ u) u { return toHalf(float64(f32(a))) }, "s_cvt_f16_f32")
	keep(packTowardsZero, "s_cvt_pk_rtz_f16_f32")
	register(func(_ *Program, in *inst) (func(*wave), error) {
		if err := in.want(4); err != nil {
			return nil, err
		}
		return func(w *wave) {
			x := func(i int) float32 { return f32(w.scalar(&in.ops[i])) }
			w.setScalar(&in.ops[0], b32(fma32(x(1), x(2), x(3))))
		}, nil
	}, "s_fmaak_f32", "s_fmamk_f32")
}

// buildScalarInPlace builds operations that also read their destination.
func buildScalarInPlace(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(2); err != nil {
		return nil, err
	}
	dst, a, b := in.ops[0], in.ops[1], in.source(2)
	var f func(w *wave, d uint32) uint32
	switch in.name {
	case "s_addk_i32", "s_addk_co_i32":
		f = func(w *wave, d uint32) (r uint32) {
			r, w.scc = overflowAdd(d, sext16(w.scalar(&a)))
			return r
		}
	case "s_mulk_i32":
		f = func(w *wave, d uint32) uint32 { return d * sext16(w.scalar(&a)) }
	case "s_bitset0_b32":
		f = func(w *wave, d uint32) uint32 { return d &^ (1 << (w.scalar(&a) & 31)) }
	case "s_bitset1_b32":
		f = func(w *wave, d uint32) uint32 { return d | 1<<(w.scalar(&a)&31) }
	case "s_fmac_f32":
		f = func(w *wave, d uint32) uint32 { return b32(fma32(f32(w.scalar(&a)), f32(w.scalar(&b)), f32(d))) }
	case "s_cmov_b64":
		return func(w *wave) {
			if w.scc {
				w.setScalar64(&dst, w.scalar64(&a))
			}
		}, nil
	default: // s_cmov_b32, s_cmovk_i32
		f = func(w *wave, d uint32) uint32 {
			if !w.scc {
				return d
			}
			if in.name == "s_cmovk_i32" {
				return sext16(w.scalar(&a))
			}
			return w.scalar(&a)
		}
	}
	return func(w *wave) { w.setScalar(&dst, f(w, w.scalar(&dst))) }, nil
}

// buildSaveExec builds EXEC = f(source, EXEC); the destination takes the old EXEC, or the new where save is false.
func buildSaveExec(f func(s, e uint64) uint64, save bool) builder {
	return func(_ *Program, in *inst) (func(*wave), error) {
		if err := in.want(2); err != nil {
			return nil, err
		}
		wide := strings.HasSuffix(in.name, "64")
		read, write, exec := (*wave).scalar64, (*wave).setScalar64, operand{kind: scalarReg, reg: regExec, n: 2}
		if !wide {
			read = func(w *wave, o *operand) uint64 { return uint64(w.scalar(o)) }
			write = func(w *wave, o *operand, v uint64) { w.setScalar(o, uint32(v)) }
		}
		return func(w *wave) {
			old := read(w, &exec)
			v := f(read(w, &in.ops[1]), old)
			write(w, &exec, v)
			v = read(w, &exec)
			w.scc = v != 0
			if save {
				v = old
			}
			write(w, &in.ops[0], v)
		}, nil
	}
}

// buildScalarCompare builds s_cmp_*, s_cmpk_* and the gfx12 float compares.
func buildScalarCompare(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(2); err != nil {
		return nil, err
	}
	p := strings.Split(in.name, "_")
	if len(p) != 4 {
		return nil, fmt.Errorf("unknown instruction %s", in.name)
	}
	relation, ok := relations[p[2]]
	if !ok {
		return nil, fmt.Errorf("unknown instruction %s", in.name)
	}
	a, b := in.ops[0], in.ops[1]
	if p[1] == "cmpk" && b.kind == integer {
		b.imm &= 0xffff
		if p[3] == "i32" {
			b.imm = uint64(int64(int16(b.imm)))
		}
	}
	var order func(w *wave) (lt, eq, un bool)
	switch p[3] {
	case "i32":
		order = func(w *wave) (bool, bool, bool) {
			x, y := int32(w.scalar(&a)), int32(w.scalar(&b))
			return x < y, x == y, false
		}
	case "u32":
		order = func(w *wave) (bool, bool, bool) {
			x, y := w.scalar(&a), w.scalar(&b)
			return x < y, x == y, false
		}
	case "u64":
		order = func(w *wave) (bool, bool, bool) {
			x, y := w.scalar64(&a), w.scalar64(&b)
			return x < y, x == y, false
		}
	case "f32":
		order = func(w *wave) (bool, bool, bool) {
			x, y := f32(w.scalar(&a)), f32(w.scalar(&b))
			return x < y, x == y, x != x || y != y
		}
	default:
		return nil, fmt.Errorf("unknown instruction %s", in.name)
	}
	return func(w *wave) {
		lt, eq, un := order(w)
		w.scc = relation(bit(lt), bit(eq), bit(un))&1 == 1
	}, nil
}

func init() {
	for set, name := range map[uint32]string{0: "s_bitcmp0_b32", 1: "s_bitcmp1_b32"} {
		register(func(_ *Program, in *inst) (func(*wave), error) {
			if err := in.want(2); err != nil {
				return nil, err
			}
			return func(w *wave) { w.scc = w.scalar(&in.ops[0])>>(w.scalar(&in.ops[1])&31)&1 == set }, nil
		}, name)
	}
}
