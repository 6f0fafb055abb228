package amdisa

// The instructions that kernels spend their time in, with the operation inside the loop instead of behind a call per lane.

func hotMov(d, a, _, _ []uint32) { copy(d, a) }

func hotAdd(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func hotSub(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func hotMul(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func hotAnd(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func hotOr(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func hotXor(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func hotShl(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = b[i] << (a[i] & 31)
	}
}

func hotShr(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = b[i] >> (a[i] & 31)
	}
}

func hotSar(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = uint32(int32(b[i]) >> (a[i] & 31))
	}
}

func hotMul24(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] & 0xffffff * (b[i] & 0xffffff)
	}
}

func hotMad24(d, a, b, c []uint32) {
	a, b, c = a[:len(d)], b[:len(d)], c[:len(d)]
	for i := range d {
		d[i] = a[i]&0xffffff*(b[i]&0xffffff) + c[i]
	}
}

func hotAdd3(d, a, b, c []uint32) {
	a, b, c = a[:len(d)], b[:len(d)], c[:len(d)]
	for i := range d {
		d[i] = a[i] + b[i] + c[i]
	}
}

func hotShlAdd(d, a, b, c []uint32) {
	a, b, c = a[:len(d)], b[:len(d)], c[:len(d)]
	for i := range d {
		d[i] = a[i]<<(b[i]&31) + c[i]
	}
}

func hotShlOr(d, a, b, c []uint32) {
	a, b, c = a[:len(d)], b[:len(d)], c[:len(d)]
	for i := range d {
		d[i] = a[i]<<(b[i]&31) | c[i]
	}
}

func hotAndOr(d, a, b, c []uint32) {
	a, b, c = a[:len(d)], b[:len(d)], c[:len(d)]
	for i := range d {
		d[i] = a[i]&b[i] | c[i]
	}
}

func hotField(d, a, b, c []uint32) {
	a, b, c = a[:len(d)], b[:len(d)], c[:len(d)]
	for i := range d {
		d[i] = a[i] >> (b[i] & 31) & (1<<(c[i]&31) - 1)
	}
}

func hotAddF(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = b32(f32(a[i]) + f32(b[i]))
	}
}

func hotSubF(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = b32(f32(a[i]) - f32(b[i]))
	}
}

func hotMulF(d, a, b, _ []uint32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = b32(f32(a[i]) * f32(b[i]))
	}
}

func hotFMA(d, a, b, c []uint32) {
	a, b, c = a[:len(d)], b[:len(d)], c[:len(d)]
	for i := range d {
		d[i] = b32(fma32(f32(a[i]), f32(b[i]), f32(c[i])))
	}
}

func hotFromInt(d, a, _, _ []uint32) {
	a = a[:len(d)]
	for i := range d {
		d[i] = b32(float32(int32(a[i])))
	}
}

func hotFromHalf(d, a, _, _ []uint32) {
	a = a[:len(d)]
	for i := range d {
		d[i] = b32(half(a[i]))
	}
}

func hotDot2(d, a, b, c []uint32) {
	a, b, c = a[:len(d)], b[:len(d)], c[:len(d)]
	for i := range d {
		r := fma32(half(a[i]), half(b[i]), f32(c[i]))
		d[i] = b32(fma32(half(a[i]>>16), half(b[i]>>16), r))
	}
}

func init() {
	plain := func(n int, run vecOp, names ...string) { vector(vectorOp{n: n, run: run}, names...) }
	plain(1, hotMov, "v_mov_b32", "v_dual_mov_b32", "v_accvgpr_write_b32", "v_accvgpr_read_b32", "v_accvgpr_mov_b32")
	plain(2, hotMul, "v_mul_lo_u32")
	plain(2, hotAnd, "v_and_b32", "v_dual_and_b32")
	plain(2, hotOr, "v_or_b32")
	plain(2, hotXor, "v_xor_b32")
	plain(2, hotShl, "v_lshlrev_b32", "v_dual_lshlrev_b32")
	plain(2, hotShr, "v_lshrrev_b32", "v_dual_lshrrev_b32")
	plain(2, hotSar, "v_ashrrev_i32", "v_dual_ashrrev_i32")
	plain(2, hotMul24, "v_mul_u32_u24")
	plain(3, hotMad24, "v_mad_u32_u24")
	plain(3, hotAdd3, "v_add3_u32")
	plain(3, hotShlAdd, "v_lshl_add_u32")
	plain(3, hotShlOr, "v_lshl_or_b32")
	plain(3, hotAndOr, "v_and_or_b32")
	plain(3, hotField, "v_bfe_u32")
	float := func(n int, run vecOp, names ...string) {
		vector(vectorOp{n: n, in: fmtFloat, out: fmtFloat, run: run}, names...)
	}
	float(2, hotAddF, "v_add_f32", "v_dual_add_f32")
	float(2, hotSubF, "v_sub_f32", "v_dual_sub_f32")
	float(2, hotMulF, "v_mul_f32", "v_dual_mul_f32")
	float(3, hotFMA, "v_fma_f32", "v_fmaak_f32", "v_fmamk_f32", "v_dual_fmaak_f32", "v_dual_fmamk_f32")
	vector(vectorOp{n: 3, in: fmtFloat, out: fmtFloat, inPlace: true, run: hotFMA}, "v_fmac_f32", "v_dual_fmac_f32")
	vector(vectorOp{n: 1, out: fmtFloat, run: hotFromInt}, "v_cvt_f32_i32")
	vector(vectorOp{n: 1, in: fmtHalf, out: fmtFloat, run: hotFromHalf}, "v_cvt_f32_f16")
}
