package amdisa

import "math/bits"

// Vector ALU: 32-bit and 16-bit integers.

func leading(a uint32) uint32 {
	if a == 0 {
		return ^uint32(0)
	}
	return uint32(bits.LeadingZeros32(a))
}

// leadingSigned counts the bits from the top that equal the sign, the sign itself included; -1 where all do.
func leadingSigned(a uint32) uint32 { return leading(a ^ uint32(int32(a)>>31)) }

func trailing(a uint32) uint32 {
	if a == 0 {
		return ^uint32(0)
	}
	return uint32(bits.TrailingZeros32(a))
}

func u24(a uint32) uint32 { return a & 0xffffff }
func i24(a uint32) int32  { return int32(a<<8) >> 8 }

// permute is v_perm_b32: each selector byte picks a byte of a:b, a sign, or a constant.
func permute(a, b, sel uint32) (r uint32) {
	x := uint64(a)<<32 | uint64(b)
	for i := 0; i < 32; i += 8 {
		s := sel >> i & 255
		var v uint32
		switch {
		case s < 8:
			v = uint32(x>>(8*s)) & 255
		case s < 12:
			v = -(uint32(x>>(16*(s-8)+15)) & 1) & 255
		case s > 12:
			v = 255
		}
		r |= v << i
	}
	return r
}

func sad(width int) laneOp {
	return func(a, b, c uint32) uint32 {
		for i := 0; i < 32; i += width {
			x, y := fieldU(uint64(a), uint32(i), uint32(width)), fieldU(uint64(b), uint32(i), uint32(width))
			c += uint32(max(x, y) - min(x, y))
		}
		return c
	}
}

func saturateS32(v int64) uint32 { return uint32(int32(max(min(v, 1<<31-1), -1<<31))) }
func saturateS16(v int32) uint32 { return uint32(max(min(v, 1<<15-1), -1<<15)) & 0xffff }
func saturateU16(v int32) uint32 { return uint32(max(min(v, 1<<16-1), 0)) }

func init() {
	type u = uint32
	bitsOp(1, func(a, _, _ u) u { return ^a }, "v_not_b32")
	bitsOp(1, func(a, _, _ u) u { return bits.Reverse32(a) }, "v_bfrev_b32")
	bitsOp(1, func(a, _, _ u) u { return leading(a) }, "v_ffbh_u32", "v_clz_i32_u32")
	bitsOp(1, func(a, _, _ u) u { return leadingSigned(a) }, "v_ffbh_i32", "v_cls_i32")
	bitsOp(1, func(a, _, _ u) u { return trailing(a) }, "v_ffbl_b32", "v_ctz_i32_b32")
	bitsOp(2, func(a, b, _ u) u { return ^(a ^ b) }, "v_xnor_b32")
	bitsOp(2, func(a, b, _ u) u { return u(uint64(a) * uint64(b) >> 32) }, "v_mul_hi_u32")
	bitsOp(2, func(a, b, _ u) u { return u(int64(int32(a)) * int64(int32(b)) >> 32) }, "v_mul_hi_i32")
	bitsOp(2, func(a, b, _ u) u { return u(uint64(u24(a)) * uint64(u24(b)) >> 32) }, "v_mul_hi_u32_u24")
	bitsOp(2, func(a, b, _ u) u { return u(i24(a) * i24(b)) }, "v_mul_i32_i24")
	bitsOp(3, func(a, b, c u) u { return u(i24(a)*i24(b)) + c }, "v_mad_i32_i24")
	bitsOp(2, func(a, b, _ u) u { return u(max(int32(a), int32(b))) }, "v_max_i32", "v_dual_max_i32")
	bitsOp(2, func(a, b, _ u) u { return u(min(int32(a), int32(b))) }, "v_min_i32", "v_dual_min_i32")
	bitsOp(2, func(a, b, _ u) u { return max(a, b) }, "v_max_u32")
	bitsOp(2, func(a, b, _ u) u { return min(a, b) }, "v_min_u32")
	bitsOp(3, func(a, b, c u) u { return max(a, b, c) }, "v_max3_u32")
	bitsOp(3, func(a, b, c u) u { return min(a, b, c) }, "v_min3_u32")
	bitsOp(3, func(a, b, c u) u { return max(min(a, b), min(max(a, b), c)) }, "v_med3_u32")
	bitsOp(3, func(a, b, c u) u { return u(max(int32(a), int32(b), int32(c))) }, "v_max3_i32")
	bitsOp(3, func(a, b, c u) u { return u(min(int32(a), int32(b), int32(c))) }, "v_min3_i32")
	bitsOp(3, func(a, b, c u) u {
		x, y, z := int32(a), int32(b), int32(c)
		return u(max(min(x, y), min(max(x, y), z)))
	}, "v_med3_i32")
	bitsOp(3, func(a, b, c u) u { return u(min(max(int32(a), int32(b)), int32(c))) }, "v_maxmin_i32")
	bitsOp(3, func(a, b, c u) u { return u(max(min(int32(a), int32(b)), int32(c))) }, "v_minmax_i32")
	bitsOp(3, func(a, b, c u) u { return min(max(a, b), c) }, "v_maxmin_u32")
	bitsOp(3, func(a, b, c u) u { return max(min(a, b), c) }, "v_minmax_u32")
	bitsOp(3, func(a, b, c u) u { return (a + b) << (c & 31) }, "v_add_lshl_u32")
	bitsOp(3, func(a, b, c u) u { return a | b | c }, "v_or3_b32")
	bitsOp(3, func(a, b, c u) u { return a ^ b ^ c }, "v_xor3_b32")
	bitsOp(3, func(a, b, c u) u { return (a ^ b) + c }, "v_xad_u32")
	bitsOp(3, func(a, b, c u) u {
		return u(fieldS(uint64(a)<<32, b&31+32, c&31))
	}, "v_bfe_i32")
	bitsOp(3, func(a, b, c u) u { return a&b | ^a&c }, "v_bfi_b32")
	bitsOp(2, func(a, b, _ u) u { return (1<<(a&31) - 1) << (b & 31) }, "v_bfm_b32")
	bitsOp(2, func(a, b, _ u) u { return u(bits.OnesCount32(a)) + b }, "v_bcnt_u32_b32")
	bitsOp(3, func(a, b, c u) u { return u((uint64(a)<<32 | uint64(b)) >> (c & 31)) }, "v_alignbit_b32")
	bitsOp(3, func(a, b, c u) u { return u((uint64(a)<<32 | uint64(b)) >> (8 * (c & 3))) }, "v_alignbyte_b32")
	bitsOp(3, permute, "v_perm_b32")
	bitsOp(3, sad(8), "v_sad_u8")
	bitsOp(3, sad(16), "v_sad_u16")
	bitsOp(3, sad(32), "v_sad_u32")
	saturating := func(exact vecOp, f laneOp, names ...string) {
		vector(vectorOp{n: 2, run: exact, saturate: f, integers: true}, names...)
	}
	saturating(hotAdd, func(a, b, _ u) u { return u(min(uint64(a)+uint64(b), 1<<32-1)) }, "v_add_u32", "v_add_nc_u32", "v_dual_add_nc_u32")
	saturating(hotSub, func(a, b, _ u) u { return a - min(a, b) }, "v_sub_u32", "v_sub_nc_u32", "v_dual_sub_nc_u32")
	saturating(lift(func(a, b, _ u) u { return b - a }), func(a, b, _ u) u { return b - min(a, b) }, "v_subrev_u32", "v_subrev_nc_u32")
	saturating(hotAdd, func(a, b, _ u) u { return saturateS32(int64(int32(a)) + int64(int32(b))) }, "v_add_i32", "v_add_nc_i32")
	saturating(hotSub, func(a, b, _ u) u { return saturateS32(int64(int32(a)) - int64(int32(b))) }, "v_sub_i32", "v_sub_nc_i32")
	initShort()
}

// initShort registers 16-bit integers; sources arrive in the low half, whatever lies above.
func initShort() {
	type u = uint32
	short := func(n int, f laneOp, names ...string) {
		halfOp(n, func(a, b, c u) u { return f(a&0xffff, b&0xffff, c&0xffff) & 0xffff }, names...)
	}
	s := func(v u) int32 { return int32(int16(v)) }
	short(2, func(a, b, _ u) u { return a + b }, "v_add_u16", "v_add_nc_u16", "v_add_i16", "v_add_nc_i16")
	short(2, func(a, b, _ u) u { return a - b }, "v_sub_u16", "v_sub_nc_u16", "v_sub_i16", "v_sub_nc_i16")
	for name, f := range map[string]laneOp{
		"v_add_u16": func(a, b, _ u) u { return saturateU16(int32(a&0xffff) + int32(b&0xffff)) },
		"v_sub_u16": func(a, b, _ u) u { return saturateU16(int32(a&0xffff) - int32(b&0xffff)) },
		"v_add_i16": func(a, b, _ u) u { return saturateS16(s(a) + s(b)) },
		"v_sub_i16": func(a, b, _ u) u { return saturateS16(s(a) - s(b)) },
	} {
		vectorOps[name].saturate = f
		vectorOps[name[:6]+"nc_"+name[6:]].saturate = f
	}
	short(2, func(a, b, _ u) u { return b - a }, "v_subrev_u16")
	short(2, func(a, b, _ u) u { return a * b }, "v_mul_lo_u16")
	short(3, func(a, b, c u) u { return a*b + c }, "v_mad_u16", "v_mad_legacy_u16", "v_mad_i16")
	short(2, func(a, b, _ u) u { return b >> (a & 15) }, "v_lshrrev_b16")
	short(2, func(a, b, _ u) u { return b << (a & 15) }, "v_lshlrev_b16")
	short(2, func(a, b, _ u) u { return u(s(b) >> (a & 15)) }, "v_ashrrev_i16")
	short(2, func(a, b, _ u) u { return max(a, b) }, "v_max_u16")
	short(2, func(a, b, _ u) u { return min(a, b) }, "v_min_u16")
	short(2, func(a, b, _ u) u { return u(max(s(a), s(b))) }, "v_max_i16")
	short(2, func(a, b, _ u) u { return u(min(s(a), s(b))) }, "v_min_i16")
	short(2, func(a, b, _ u) u { return a & b }, "v_and_b16")
	short(2, func(a, b, _ u) u { return a | b }, "v_or_b16")
	short(2, func(a, b, _ u) u { return a ^ b }, "v_xor_b16")
	short(1, func(a, _, _ u) u { return ^a }, "v_not_b16")
	short(1, func(a, _, _ u) u { return a }, "v_mov_b16")
	vector(vectorOp{n: 2, in: fmtHalf, out: fmtBits, run: lift(func(a, b, _ u) u { return a&0xffff | b<<16 })}, "v_pack_b32_f16")
	vector(vectorOp{n: 1, in: fmtHalf, out: fmtBits, run: lift(func(a, _, _ u) u { return sext16(a) })}, "v_cvt_i32_i16")
	vector(vectorOp{n: 1, in: fmtHalf, out: fmtBits, run: lift(func(a, _, _ u) u { return a & 0xffff })}, "v_cvt_u32_u16")
	register(buildMad16, "v_mad_i32_i16", "v_mad_u32_u16")
}

// buildMad16 builds the 16-bit multiply with a 32-bit addend: op_sel concerns the factors only.
func buildMad16(p *Program, in *inst) (func(*wave), error) {
	if err := in.want(4); err != nil {
		return nil, err
	}
	a, b, c := in.fetcher(p, 0, in.ops[1], fmtHalf), in.fetcher(p, 1, in.ops[2], fmtHalf), bareFetch(in.ops[3], fmtBits)
	signed, size := in.name == "v_mad_i32_i16", p.wave
	return finish(p, in, func(w *wave, out *lanes) uint64 {
		x, y, z := a(w, &w.tmp[0]), b(w, &w.tmp[1]), c(w, &w.tmp[2])
		for l := range size {
			if signed {
				out[l] = uint32(int32(int16(x[l]))*int32(int16(y[l]))) + z[l]
			} else {
				out[l] = x[l]&0xffff*(y[l]&0xffff) + z[l]
			}
		}
		return w.exec()
	}, fmtBits), nil
}
