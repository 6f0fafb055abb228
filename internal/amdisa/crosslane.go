package amdisa

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Lanes reading other lanes: readlane, permlane, the LDS permutes, and counts over a mask.

func init() {
	register(buildReadLane, "v_readlane_b32", "v_readfirstlane_b32")
	register(buildWriteLane, "v_writelane_b32")
	register(buildCount, "v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32")
	register(buildPermlane, "v_permlane16_b32", "v_permlanex16_b32")
	register(buildPermlane64, "v_permlane64_b32")
	register(buildPermlaneSwap, "v_permlane16_swap_b32", "v_permlane32_swap_b32")
	register(buildBPermute, "ds_bpermute_b32", "ds_permute_b32")
	register(buildSwizzle, "ds_swizzle_b32")
}

func buildReadLane(p *Program, in *inst) (func(*wave), error) {
	if err := in.want(2); err != nil {
		return nil, err
	}
	first := in.name == "v_readfirstlane_b32"
	dst, src, sel := in.ops[0], in.ops[1], in.source(2)
	return func(w *wave) {
		l := int(w.scalar(&sel)) & (p.wave - 1)
		if first {
			l = 0
			if e := w.exec(); e != 0 {
				l = bits.TrailingZeros64(e)
			}
		}
		w.setScalar(&dst, w.lane(&src, l, fmtBits))
	}, nil
}

func buildWriteLane(p *Program, in *inst) (func(*wave), error) {
	if err := in.want(3); err != nil {
		return nil, err
	}
	o := in.ops
	return func(w *wave) { w.v[o[0].reg][int(w.scalar(&o[2]))&(p.wave-1)] = w.scalar(&o[1]) }, nil
}

// buildCount builds v_mbcnt: mask bits below the lane, in its low or high word, added to the second source.
func buildCount(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(3); err != nil {
		return nil, err
	}
	o, shift := in.ops, 0
	if in.name == "v_mbcnt_hi_u32_b32" {
		shift = 32
	}
	return func(w *wave) {
		w.each(func(l int) {
			below := uint32((uint64(1)<<l - 1) >> shift)
			w.v[o[0].reg][l] = uint32(bits.OnesCount32(w.lane(&o[1], l, fmtBits)&below)) + w.lane(&o[2], l, fmtBits)
		})
	}, nil
}

func buildPermlane(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(4); err != nil {
		return nil, err
	}
	o, cross := in.ops, 0
	if in.name == "v_permlanex16_b32" {
		cross = 16
	}
	inactive, zero := in.opSel[0] == 1, in.opSel[1] == 1
	return func(w *wave) {
		src, exec := w.v[o[1].reg], w.exec()
		sel := uint64(w.scalar(&o[2])) | uint64(w.scalar(&o[3]))<<32
		w.each(func(l int) {
			s := (l&^15 ^ cross) + int(sel>>(4*(l&15))&15)
			switch {
			case exec>>s&1 == 1 || inactive:
				w.v[o[0].reg][l] = src[s]
			case zero:
				w.v[o[0].reg][l] = 0
			}
		})
	}, nil
}

func buildPermlane64(p *Program, in *inst) (func(*wave), error) {
	if err := in.want(2); err != nil {
		return nil, err
	}
	o := in.ops
	return func(w *wave) {
		src := w.v[o[1].reg]
		w.each(func(l int) { w.v[o[0].reg][l] = src[(l^32)&(p.wave-1)] })
	}, nil
}

// buildPermlaneSwap builds gfx950's swap of the odd rows (or the upper half) of one register with the even rows of the other.
func buildPermlaneSwap(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(2); err != nil {
		return nil, err
	}
	o, n := in.ops, 16
	if in.name == "v_permlane32_swap_b32" {
		n = 32
	}
	return func(w *wave) {
		a, b := &w.v[o[0].reg], &w.v[o[1].reg]
		w.each(func(l int) {
			if l&n == 0 && w.exec()>>(l+n)&1 == 1 {
				a[l+n], b[l] = b[l], a[l+n]
			}
		})
	}, nil
}

// buildBPermute builds the pull (bpermute) and push (permute) permutes; addresses are bytes.
func buildBPermute(p *Program, in *inst) (func(*wave), error) {
	if err := in.want(3); err != nil {
		return nil, err
	}
	o, push := in.ops, in.name == "ds_permute_b32"
	return func(w *wave) {
		src, addr, exec := w.v[o[2].reg], w.v[o[1].reg], w.exec()
		out := &w.tmp[3]
		clear(out[:])
		w.each(func(l int) {
			at := int(addr[l]+uint32(in.offset)) >> 2 & (p.wave - 1)
			switch {
			case push:
				out[at] = src[l]
			case exec>>at&1 == 1:
				out[l] = src[at]
			}
		})
		w.each(func(l int) { w.v[o[0].reg][l] = out[l] })
	}, nil
}

// buildSwizzle builds ds_swizzle from its encoded offset: a quad permutation, or and/or/xor masks within 32 lanes.
func buildSwizzle(p *Program, in *inst) (func(*wave), error) {
	if err := in.want(2); err != nil {
		return nil, err
	}
	off, o := int(in.word&0xffff), in.ops
	if p.gfx >= 0x900 && p.gfx < 0x1000 && off >= 0xc000 {
		return nil, fmt.Errorf("%s: the rotating and FFT modes are not emulated", in.text)
	}
	return func(w *wave) {
		src, exec := w.v[o[1].reg], w.exec()
		w.each(func(l int) {
			s := l&^31 + (l&off&31 | off>>5&31) ^ off>>10&31
			if off&0x8000 != 0 {
				s = l&^3 + off>>(2*(l&3))&3
			}
			w.v[o[0].reg][l] = 0
			if exec>>s&1 == 1 {
				w.v[o[0].reg][l] = src[s]
			}
		})
	}, nil
}

// destinations is the number of leading operands that an instruction writes.
func (in *inst) destinations() int {
	n := in.name
	switch {
	case strings.Contains(n, "store"), strings.Contains(n, "write") && strings.HasPrefix(n, "ds_"), strings.HasPrefix(n, "s_cmp"),
		strings.HasPrefix(n, "s_cbranch"), strings.HasPrefix(n, "s_bitcmp"), n == "s_setpc_b64", n == "s_barrier_signal":
		return 0
	case strings.HasPrefix(n, "v_cmp") && len(in.ops) == 2:
		return 0
	case strings.Contains(n, "_co_"), strings.HasPrefix(n, "v_div_scale"), strings.HasPrefix(n, "v_mad_u64"), strings.HasPrefix(n, "v_mad_i64"):
		return 2
	case strings.Contains(n, "atomic"), strings.HasPrefix(n, "ds_") && atomicDS[n]:
		return len(in.ops) // addresses and data mix with an optional result: not checked
	}
	return 1
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}
