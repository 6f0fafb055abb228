package amdisa

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// Atomics on global, flat and LDS memory.

// atomicOp is the new value from the old, the data and, for compare-and-swap, the expected value.
type atomicOp func(old, v, expect uint64) uint64

type atomicSpec struct {
	bytes   int
	compare bool
	f       atomicOp
}

// atomics are keyed by the suffix of gfx11 and later, with the width.
var atomics = map[string]atomicSpec{}

// atomicAliases are the older names' suffixes.
var atomicAliases = map[string]string{"add": "add_u32", "sub": "sub_u32", "umax": "max_u32", "umin": "min_u32", "smax": "max_i32",
	"smin": "min_i32", "and": "and_b32", "or": "or_b32", "xor": "xor_b32", "swap": "swap_b32", "cmpswap": "cmpswap_b32", "inc": "inc_u32",
	"dec": "dec_u32", "fmax": "max_f32", "fmin": "min_f32", "add_x2": "add_u64", "sub_x2": "sub_u64", "umax_x2": "max_u64", "umin_x2": "min_u64",
	"smax_x2": "max_i64", "smin_x2": "min_i64", "and_x2": "and_b64", "or_x2": "or_b64", "xor_x2": "xor_b64", "swap_x2": "swap_b64",
	"cmpswap_x2": "cmpswap_b64", "max_num_f32": "max_f32", "min_num_f32": "min_f32"}

func init() {
	type u = uint64
	for _, width := range []int{32, 64} {
		add := func(name string, f func(old, v u) u) {
			atomics[fmt.Sprintf("%s%d", name, width)] = atomicSpec{bytes: width / 8, f: func(old, v, _ u) u { return f(old, v) }}
		}
		signed := func(v u) int64 { return int64(v<<(64-width)) >> (64 - width) }
		add("add_u", func(old, v u) u { return old + v })
		add("sub_u", func(old, v u) u { return old - v })
		add("max_u", func(old, v u) u { return max(old, v) })
		add("min_u", func(old, v u) u { return min(old, v) })
		add("max_i", func(old, v u) u { return u(max(signed(old), signed(v))) })
		add("min_i", func(old, v u) u { return u(min(signed(old), signed(v))) })
		add("and_b", func(old, v u) u { return old & v })
		add("or_b", func(old, v u) u { return old | v })
		add("xor_b", func(old, v u) u { return old ^ v })
		add("swap_b", func(_, v u) u { return v })
		add("inc_u", func(old, v u) u {
			if old >= v {
				return 0
			}
			return old + 1
		})
		add("dec_u", func(old, v u) u {
			if old == 0 || old > v {
				return v
			}
			return old - 1
		})
		atomics[fmt.Sprintf("cmpswap_b%d", width)] = atomicSpec{bytes: width / 8, compare: true, f: func(old, v, expect u) u {
			if old == expect {
				return v
			}
			return old
		}}
	}
	float := func(name string, f func(old, v float32) float32) {
		atomics[name] = atomicSpec{bytes: 4, f: func(old, v, _ u) u { return u(b32(f(f32(uint32(old)), f32(uint32(v))))) }}
	}
	float("add_f32", func(old, v float32) float32 { return old + v })
	float("max_f32", max32)
	float("min_f32", min32)
	atomics["add_f64"] = atomicSpec{bytes: 8, f: func(old, v, _ u) u { return b64(f64(old) + f64(v)) }}
	atomics["pk_add_f16"] = atomicSpec{bytes: 4, f: func(old, v, _ u) u {
		add := of16(func(a, b, _ float64) float64 { return a + b })
		return u(add(uint32(old), uint32(v), 0) | add(uint32(old>>16), uint32(v>>16), 0)<<16)
	}}
	atomics["pk_add_bf16"] = atomicSpec{bytes: 4, f: func(old, v, _ u) u {
		add := func(a, b u) u { return u(toBF16(bf16(uint16(a)) + bf16(uint16(b)))) }
		return add(old, v) | add(old>>16, v>>16)<<16
	}}
	for name, spec := range atomics {
		registerAtomic(name, spec)
	}
	for alias, name := range atomicAliases {
		registerAtomic(alias, atomics[name])
	}
}

func registerAtomic(name string, spec atomicSpec) {
	b := func(_ *Program, in *inst) (func(*wave), error) { return buildAtomic(in, spec) }
	register(b, "global_atomic_"+name, "flat_atomic_"+name)
	op, width, _ := strings.Cut(name, "_")
	names := []string{name}
	switch {
	case strings.HasPrefix(name, "pk_"):
		names = []string{name}
	case op == "swap" && width != "":
		names = []string{"wrxchg_rtn_" + width, "storexchg_rtn_" + width}
	case op == "cmpswap" && width != "":
		names = []string{"cmpst_" + width, "cmpst_rtn_" + width, "cmpstore_" + width, "cmpstore_rtn_" + width}
	}
	if op != "swap" && op != "cmpswap" {
		names = append(names, op+"_rtn_"+width)
		if strings.HasPrefix(name, "pk_") {
			names[1] = strings.Replace(name, "pk_add_", "pk_add_rtn_", 1)
		}
	}
	for _, n := range names {
		atomicDS["ds_"+n] = true
		register(func(_ *Program, in *inst) (func(*wave), error) { return buildLDSAtomic(in, spec) }, "ds_"+n)
	}
}

func (w *wave) data(o *operand, l, bytes int) uint64 {
	if bytes == 4 {
		return uint64(w.v[o.reg][l])
	}
	return w.lane64(o, l, fmtLong)
}

func (w *wave) result(o *operand, l, bytes int, v uint64) {
	w.v[o.reg][l] = uint32(v)
	if bytes == 8 {
		w.v[o.reg+1][l] = uint32(v >> 32)
	}
}

// exchange applies f to the aligned word b holds and returns the old value.
func exchange(b []byte, f func(old uint64) uint64) (uint64, bool) {
	if len(b) == 4 {
		p, ok := word32(b)
		for ok {
			old := atomic.LoadUint32(p)
			if atomic.CompareAndSwapUint32(p, old, uint32(f(uint64(old)))) {
				return uint64(old), true
			}
		}
		return 0, false
	}
	p, ok := word64(b)
	for ok {
		old := atomic.LoadUint64(p)
		if atomic.CompareAndSwapUint64(p, old, f(old)) {
			return old, true
		}
	}
	return 0, false
}

func buildAtomic(in *inst, spec atomicSpec) (func(*wave), error) {
	isFlat := strings.HasPrefix(in.name, "flat_")
	operands := 3 // address, data, scalar base or off
	if isFlat {
		operands = 2
	}
	returns := len(in.ops) == operands+1
	if !returns && len(in.ops) != operands {
		return nil, fmt.Errorf("%s: %d operands", in.name, len(in.ops))
	}
	o := in.ops
	if returns {
		o = o[1:]
	}
	base := operand{n: 1}
	if !isFlat {
		base = o[2]
	}
	addr, at := in.addressing(o[0], base), in.memoryAt()
	value, expect := o[1], o[1]
	expect.reg += spec.bytes / 4
	return func(w *wave) {
		w.each(func(l int) {
			a := addr(w, l)
			b := at(w, l, a, spec.bytes, accessAtomic)
			v, e := w.data(&value, l, spec.bytes), uint64(0)
			if spec.compare {
				e = w.data(&expect, l, spec.bytes)
			}
			old, ok := exchange(b, func(old uint64) uint64 { return spec.f(old, v, e) })
			if !ok {
				fail(l, "atomic of %d bytes at unaligned %#x", spec.bytes, a)
			}
			if returns {
				w.result(&in.ops[0], l, spec.bytes, old)
			}
		})
	}, nil
}

func buildLDSAtomic(in *inst, spec atomicSpec) (func(*wave), error) {
	returns := strings.Contains(in.name, "_rtn_")
	o := in.ops
	if returns && len(o) > 0 {
		o = o[1:]
	}
	need := 2
	if spec.compare {
		need = 3
	}
	if len(o) < need {
		return nil, fmt.Errorf("%s: %d operands", in.name, len(in.ops))
	}
	valueAt, expectAt := 1, 2
	if strings.HasPrefix(in.name, "ds_cmpst_") { // before gfx11 the expected value comes first
		valueAt, expectAt = 2, 1
	}
	if !spec.compare {
		valueAt, expectAt = 1, 1
	}
	return func(w *wave) {
		w.each(func(l int) {
			b := w.lds(l, uint64(w.v[o[0].reg][l])+uint64(in.offset), spec.bytes, accessAtomic)
			v, e := w.data(&o[valueAt], l, spec.bytes), w.data(&o[expectAt], l, spec.bytes)
			var old uint64
			if spec.bytes == 4 {
				old = uint64(le.Uint32(b))
				le.PutUint32(b, uint32(spec.f(old, v, e)))
			} else {
				old = le.Uint64(b)
				le.PutUint64(b, spec.f(old, v, e))
			}
			if returns {
				w.result(&in.ops[0], l, spec.bytes, old)
			}
		})
	}, nil
}
