package amdisa

import "strings"

// Scalar memory: loads through the constant cache, and buffer loads with their bounds.

func init() {
	for suffix, words := range map[string]int{"dword": 1, "b32": 1, "dwordx2": 2, "b64": 2, "b96": 3, "dwordx4": 4, "b128": 4,
		"dwordx8": 8, "b256": 8, "dwordx16": 16, "b512": 16} {
		register(buildScalarLoad(4*words, false), "s_load_"+suffix, "s_buffer_load_"+suffix)
	}
	register(buildScalarLoad(1, false), "s_load_u8")
	register(buildScalarLoad(1, true), "s_load_i8")
	register(buildScalarLoad(2, false), "s_load_u16")
	register(buildScalarLoad(2, true), "s_load_i16")
}

func buildScalarLoad(size int, signed bool) builder {
	return func(_ *Program, in *inst) (func(*wave), error) {
		if err := in.want(2); err != nil {
			return nil, err
		}
		dst, base, offset := in.ops[0], in.ops[1], in.source(2)
		buffer := strings.HasPrefix(in.name, "s_buffer")
		return func(w *wave) {
			off := uint64(in.offset) + uint64(int64(int32(w.scalar(&offset))))
			if offset.kind == scalarReg {
				off = uint64(in.offset) + uint64(w.scalar(&offset))
			}
			addr := w.scalar64(&base) + off
			if buffer {
				addr = w.scalar64(&base)&(1<<48-1) + off
				if off+uint64(size) > uint64(w.s[base.reg+2]) {
					fail(-1, "%d bytes at %d of a buffer of %d", size, off, w.s[base.reg+2])
				}
			}
			if addr%uint64(min(size, 4)) != 0 {
				fail(-1, "scalar load of %d bytes at unaligned %#x", size, addr)
			}
			b := w.global(-1, addr, size)
			switch {
			case size == 1 && signed:
				w.setScalar(&dst, uint32(int32(int8(b[0]))))
			case size == 1:
				w.setScalar(&dst, uint32(b[0]))
			case size == 2 && signed:
				w.setScalar(&dst, sext16(uint32(le.Uint16(b))))
			case size == 2:
				w.setScalar(&dst, uint32(le.Uint16(b)))
			default:
				for i := range size / 4 {
					w.s[dst.reg+i] = le.Uint32(b[4*i:])
				}
			}
		}, nil
	}
}
