package amdisa

import "fmt"

// Dot products within a lane.

// dotInt sums the products of 32/width integers per operand onto c.
func dotInt(width uint, signedA, signedB bool) laneOp {
	get := func(v uint32, at uint, signed bool) int64 {
		v <<= 32 - at - width
		if signed {
			return int64(int32(v) >> (32 - width))
		}
		return int64(v >> (32 - width))
	}
	return func(a, b, c uint32) uint32 {
		r := int64(int32(c))
		for at := uint(0); at < 32; at += width {
			r += get(a, at, signedA) * get(b, at, signedB)
		}
		return uint32(r)
	}
}

// dotClamped is dotInt with the sum saturated to 32 bits, signed when either operand is.
func dotClamped(width uint, signedA, signedB bool) laneOp {
	exact := dotInt(width, signedA, signedB)
	return func(a, b, c uint32) uint32 {
		products := int64(int32(exact(a, b, 0)))
		if signedA || signedB {
			return saturateS32(products + int64(int32(c)))
		}
		return uint32(min(uint64(uint32(products))+uint64(c), 1<<32-1))
	}
}

// dotBF16 is the dot product of bf16 pairs onto a float, rounded after each product.
func dotBF16(a, b, c uint32) uint32 {
	r := fma32(bf16(uint16(a)), bf16(uint16(b)), f32(c))
	return b32(fma32(bf16(uint16(a>>16)), bf16(uint16(b>>16)), r))
}

func init() {
	integer := func(width uint, signed bool, suffix, inPlace string) {
		op := vectorOp{n: 3, run: lift(dotInt(width, signed, signed)), saturate: dotClamped(width, signed, signed), integers: true}
		vector(op, "v_dot"+suffix)
		if inPlace != "" {
			op.inPlace = true
			vector(op, "v_dot"+inPlace)
		}
	}
	integer(8, true, "4_i32_i8", "4c_i32_i8")
	integer(8, false, "4_u32_u8", "")
	integer(4, true, "8_i32_i4", "8c_i32_i4")
	integer(4, false, "8_u32_u4", "")
	integer(16, true, "2_i32_i16", "2c_i32_i16")
	integer(16, false, "2_u32_u16", "")
	vector(vectorOp{n: 3, out: fmtFloat, run: hotDot2}, "v_dot2_f32_f16")
	vector(vectorOp{n: 3, out: fmtFloat, inPlace: true, run: hotDot2}, "v_dot2acc_f32_f16", "v_dot2c_f32_f16", "v_dual_dot2acc_f32_f16")
	vector(vectorOp{n: 3, out: fmtFloat, run: lift(dotBF16)}, "v_dot2_f32_bf16")
	vector(vectorOp{n: 3, out: fmtFloat, inPlace: true, run: lift(dotBF16)}, "v_dot2c_f32_bf16", "v_dual_dot2acc_f32_bf16")
	register(buildMixedDot, "v_dot4_i32_iu8", "v_dot8_i32_iu4")
	for _, name := range []string{"v_dot2_f32_f16", "v_dot2_f32_bf16"} {
		builders[name] = buildModifiedDot
	}
}

// buildMixedDot builds the dot products whose neg_lo marks signed operands.
func buildMixedDot(p *Program, in *inst) (func(*wave), error) {
	width := uint(8)
	if in.name == "v_dot8_i32_iu4" {
		width = 4
	}
	sa, sb := in.negLo[0] == 1, in.negLo[1] == 1
	op := vectorOp{n: 3, run: lift(dotInt(width, sa, sb)), saturate: dotClamped(width, true, true), integers: true}
	if in.clamp {
		exact := dotInt(width, sa, sb)
		op.saturate = func(a, b, c uint32) uint32 {
			return saturateS32(int64(int32(exact(a, b, 0))) + int64(int32(c)))
		}
	}
	c, err := op.compile(p, in)
	if err != nil {
		return nil, err
	}
	return finish(p, in, c, fmtBits), nil
}

// buildModifiedDot builds float dot products, whose first two sources take packed modifiers.
func buildModifiedDot(p *Program, in *inst) (func(*wave), error) {
	if in.negLo[2]|in.negHi[2] != 0 {
		return nil, fmt.Errorf("%s: modifiers of the addend are not emulated", in.name)
	}
	if in.adjustPacked(0) == nil && in.adjustPacked(1) == nil {
		return buildVector(p, in)
	}
	if err := in.want(4); err != nil {
		return nil, err
	}
	a, b, c := in.fetcher(p, 0, in.ops[1], fmtPacked), in.fetcher(p, 1, in.ops[2], fmtPacked), bareFetch(in.ops[3], fmtFloat)
	run, size := vectorOps[in.name].run, p.wave
	return finish(p, in, func(w *wave, out *lanes) uint64 {
		run(out[:size], a(w, &w.tmp[0])[:size], b(w, &w.tmp[1])[:size], c(w, &w.tmp[2])[:size])
		return w.exec()
	}, fmtFloat), nil
}
