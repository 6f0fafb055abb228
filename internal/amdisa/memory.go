package amdisa

import (
	"fmt"
	"math/bits"
	"strings"
	"sync/atomic"
	"unsafe"
)

// Global, flat, scratch and buffer memory.

// global returns n bytes of device memory at addr.
func (w *wave) global(l int, addr uint64, n int) []byte {
	if b := w.last; b != nil {
		if off := addr - b.base; off < b.size && uint64(n) <= b.size-off {
			return b.data[off:][:n]
		}
	}
	b, err := find(w.group.blocks, addr, n)
	if err != nil {
		fail(l, "%v", err)
	}
	w.last = b
	return b.data[addr-b.base:][:n]
}

func (w *wave) private(l int, a uint64, n int) []byte {
	if a+uint64(n) > uint64(w.lane0) || a > uint64(w.lane0) {
		fail(l, "scratch fault: %d bytes at %#x of %d", n, a, w.lane0)
	}
	return w.scratch[l*w.lane0+int(a):][:n]
}

// flat returns n bytes at a flat address: LDS, scratch or device memory by its aperture.
func (w *wave) flat(l int, a uint64, n int, kind accessKind) []byte {
	switch a >> 32 {
	case sharedBase >> 32:
		return w.lds(l, a&(1<<32-1), n, kind)
	case privateBase >> 32:
		return w.private(l, a&(1<<32-1), n)
	}
	return w.global(l, a, n)
}

// addressing compiles an instruction's address: a 64-bit vector pair, a scalar pair plus a 32-bit vector offset, or scratch's
// 32-bit sums.
func (in *inst) addressing(va, sa operand) func(w *wave, l int) uint64 {
	off := uint64(in.offset)
	switch {
	case strings.HasPrefix(in.name, "scratch_"):
		return func(w *wave, l int) uint64 {
			a := off
			if va.kind == vectorReg {
				a += uint64(w.v[va.reg][l])
			}
			if sa.kind == scalarReg {
				a += uint64(w.s[sa.reg])
			}
			return a & (1<<32 - 1)
		}
	case sa.kind == scalarReg:
		return func(w *wave, l int) uint64 { return w.s64(sa.reg) + uint64(w.v[va.reg][l]) + off }
	}
	return func(w *wave, l int) uint64 {
		return (uint64(w.v[va.reg][l]) | uint64(w.v[va.reg+1][l])<<32) + off
	}
}

// memoryAt compiles how the instruction's segment turns an address into bytes.
func (in *inst) memoryAt() func(w *wave, l int, a uint64, n int, kind accessKind) []byte {
	switch {
	case strings.HasPrefix(in.name, "scratch_"):
		return func(w *wave, l int, a uint64, n int, _ accessKind) []byte { return w.private(l, a, n) }
	case strings.HasPrefix(in.name, "flat_"):
		return (*wave).flat
	}
	return func(w *wave, l int, a uint64, n int, _ accessKind) []byte { return w.global(l, a, n) }
}

// coherent tells whether an access is meant to see other workgroups' writes.
func (in *inst) coherent() bool {
	return in.mods["glc"] != "" || in.mods["sc0"] != "" || in.mods["sc1"] != "" || in.mods["scope"] != ""
}

func init() {
	for name := range widths {
		for _, d16 := range []string{name, name + "_d16", name + "_d16_hi", "d16_" + name, "d16_hi_" + name} {
			for _, segment := range []string{"global", "flat", "scratch"} {
				register(buildMemory, segment+"_load_"+d16, segment+"_store_"+d16)
			}
			register(buildBuffer, "buffer_load_"+d16, "buffer_store_"+d16)
		}
	}
}

func buildMemory(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(2); err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(in.name, "_")
	verb, suffix, _ := strings.Cut(rest, "_")
	t, ok := parseTransfer(suffix)
	if !ok {
		return nil, fmt.Errorf("unknown instruction %s", in.name)
	}
	at, shared := in.memoryAt(), in.coherent() && t.bytes >= 4
	if verb == "load" {
		dst, addr := in.ops[0].reg, in.addressing(in.ops[1], in.source(2))
		return func(w *wave) {
			for m := w.exec(); m != 0; m &= m - 1 {
				l := bits.TrailingZeros64(m) & 63
				b := at(w, l, addr(w, l), t.bytes, accessRead)
				if shared {
					b = snapshot(b)
				}
				t.load(w, dst, l, b)
			}
		}, nil
	}
	src, addr := in.ops[1].reg, in.addressing(in.ops[0], in.source(2))
	return func(w *wave) {
		for m := w.exec(); m != 0; m &= m - 1 {
			l := bits.TrailingZeros64(m) & 63
			b := at(w, l, addr(w, l), t.bytes, accessWrite)
			if _, ok := word32(b); shared && ok {
				for i := range t.bytes / 4 {
					p, _ := word32(b[4*i:])
					atomic.StoreUint32(p, w.v[src+i][l])
				}
				continue
			}
			t.store(w, src, l, b)
		}
	}, nil
}

// word32 and word64 view the start of b as an aligned word, which other workgroups may change meanwhile.
func word32(b []byte) (*uint32, bool) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	return (*uint32)(p), uintptr(p)%4 == 0 && len(b) >= 4
}

func word64(b []byte) (*uint64, bool) {
	p := unsafe.Pointer(unsafe.SliceData(b))
	return (*uint64)(p), uintptr(p)%8 == 0 && len(b) >= 8
}

// snapshot reads b word by word, each atomically.
func snapshot(b []byte) []byte {
	if _, ok := word32(b); !ok {
		return b
	}
	out := make([]byte, len(b))
	for i := 0; i+4 <= len(b); i += 4 {
		p, _ := word32(b[i:])
		le.PutUint32(out[i:], atomic.LoadUint32(p))
	}
	return out
}

// buildBuffer builds raw buffer accesses: the private segment's, which wave64 code of gfx9 and gfx10 uses for scratch, or a
// descriptor with base and size. Loads beyond the size fault: on hardware they read zero, in our kernels they are mistakes.
func buildBuffer(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(4); err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(in.name, "_")
	verb, suffix, _ := strings.Cut(rest, "_")
	t, ok := parseTransfer(suffix)
	if !ok {
		return nil, fmt.Errorf("unknown instruction %s", in.name)
	}
	o, load := in.ops, verb == "load"
	return func(w *wave) {
		base, size := w.s64(o[2].reg)&(1<<48-1), uint64(w.s[o[2].reg+2])
		w.each(func(l int) {
			a := uint64(w.scalar(&o[3])) + uint64(in.offset)
			if o[1].kind == vectorReg {
				a += uint64(w.v[o[1].reg][l])
			}
			var b []byte
			if base == scratchBase {
				b = w.private(l, a&(1<<32-1), t.bytes)
			} else {
				if a+uint64(t.bytes) > size {
					fail(l, "%d bytes at %d of a buffer of %d", t.bytes, a, size)
				}
				b = w.global(l, base+a, t.bytes)
			}
			if load {
				t.load(w, o[0].reg, l, b)
			} else {
				t.store(w, o[0].reg, l, b)
			}
		})
	}, nil
}
