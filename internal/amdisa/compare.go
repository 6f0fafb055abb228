package amdisa

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Vector compares.

// relation combines lanes that are less, equal and unordered into the lanes where the relation holds.
type relation func(lt, eq, un uint64) uint64

var relations = map[string]relation{
	"f":   func(_, _, _ uint64) uint64 { return 0 },
	"lt":  func(lt, _, _ uint64) uint64 { return lt },
	"eq":  func(_, eq, _ uint64) uint64 { return eq },
	"le":  func(lt, eq, _ uint64) uint64 { return lt | eq },
	"gt":  func(lt, eq, un uint64) uint64 { return ^(lt | eq | un) },
	"lg":  func(_, eq, un uint64) uint64 { return ^(eq | un) },
	"ge":  func(lt, _, un uint64) uint64 { return ^(lt | un) },
	"o":   func(_, _, un uint64) uint64 { return ^un },
	"u":   func(_, _, un uint64) uint64 { return un },
	"ne":  func(_, eq, _ uint64) uint64 { return ^eq },
	"neq": func(_, eq, _ uint64) uint64 { return ^eq },
	"nge": func(lt, _, un uint64) uint64 { return lt | un },
	"nlg": func(_, eq, un uint64) uint64 { return eq | un },
	"ngt": func(lt, eq, un uint64) uint64 { return lt | eq | un },
	"nle": func(lt, eq, _ uint64) uint64 { return ^(lt | eq) },
	"nlt": func(lt, _, _ uint64) uint64 { return ^lt },
	"t":   func(_, _, _ uint64) uint64 { return ^uint64(0) },
	"tru": func(_, _, _ uint64) uint64 { return ^uint64(0) },
}

// order is the comparison of two 32-bit sources: lanes less, equal, unordered.
type order func(a, b []uint32) (lt, eq, un uint64)

func orderOf[T int32 | uint32 | int16 | uint16 | float32](get func(uint32) T) order {
	return func(a, b []uint32) (lt, eq, un uint64) {
		b = b[:len(a)]
		for l := range a {
			x, y := get(a[l]), get(b[l])
			switch {
			case x < y:
				lt |= 1 << l
			case x == y:
				eq |= 1 << l
			case x > y:
			default:
				un |= 1 << l
			}
		}
		return lt, eq, un
	}
}

var orders = map[string]order{
	"i32": orderOf(func(v uint32) int32 { return int32(v) }),
	"u32": orderOf(func(v uint32) uint32 { return v }),
	"i16": orderOf(func(v uint32) int16 { return int16(v) }),
	"u16": orderOf(func(v uint32) uint16 { return uint16(v) }),
	"f32": orderOf(f32),
	"f16": orderOf(half),
}

// buildCompare builds v_cmp_* and v_cmpx_*: lanes that are switched off give 0; cmpx narrows EXEC as well.
func buildCompare(p *Program, in *inst) (func(*wave), error) {
	parts := strings.Split(in.name, "_")
	if len(parts) != 4 || in.clamp {
		return nil, fmt.Errorf("unknown instruction %s", in.name)
	}
	ops, dst := in.ops, vcc
	exec := operand{kind: scalarReg, reg: regExec, n: 2}
	narrow := parts[1] == "cmpx"
	if len(ops) == 3 {
		dst, ops = ops[0], ops[1:]
	} else if narrow {
		dst = exec
	}
	if len(ops) != 2 {
		return nil, fmt.Errorf("%s: %d operands", in.name, len(in.ops))
	}
	evaluate, err := compileCompare(p, in, parts[2], parts[3], ops)
	if err != nil {
		return nil, err
	}
	return func(w *wave) {
		m := evaluate(w) & w.exec()
		w.setMask(&dst, m)
		if narrow {
			w.setMask(&exec, m)
		}
	}, nil
}

func compileCompare(p *Program, in *inst, rel, kind string, ops []operand) (func(w *wave) uint64, error) {
	size := p.wave
	format := map[string]format{"f32": fmtFloat, "f16": fmtHalf, "i16": fmtHalf, "u16": fmtHalf}[kind]
	a, b := in.fetcher(p, 0, ops[0], format), in.fetcher(p, 1, ops[1], format)
	if rel == "class" {
		if kind != "f32" && kind != "f16" {
			return nil, fmt.Errorf("unknown instruction %s", in.name)
		}
		b = bareFetch(ops[1], fmtBits)
		return func(w *wave) (m uint64) {
			x, y := a(w, &w.tmp[0]), b(w, &w.tmp[1])
			for l := range size {
				v, tiny := x[l], float32(0x1p-126)
				if kind == "f16" {
					v, tiny = b32(half(v)), 0x1p-14
				}
				m |= uint64(y[l]>>classOf(f32(v), tiny)&1) << l
			}
			return m
		}, nil
	}
	r, ok := relations[rel]
	if !ok {
		return nil, fmt.Errorf("unknown instruction %s", in.name)
	}
	if o := orders[kind]; o != nil {
		return func(w *wave) uint64 {
			return r(o(a(w, &w.tmp[0])[:size], b(w, &w.tmp[1])[:size]))
		}, nil
	}
	var less, equal func(x, y uint64) bool
	t := fmtLong
	equal = func(x, y uint64) bool { return x == y }
	switch kind {
	case "u64":
		less = func(x, y uint64) bool { return x < y }
	case "i64":
		less = func(x, y uint64) bool { return int64(x) < int64(y) }
	case "f64":
		t = fmtDouble
		less = func(x, y uint64) bool { return f64(x) < f64(y) }
		equal = func(x, y uint64) bool { return f64(x) == f64(y) }
	default:
		return nil, fmt.Errorf("unknown instruction %s", in.name)
	}
	return func(w *wave) uint64 {
		var lt, eq, un uint64
		for m := w.exec(); m != 0; m &= m - 1 {
			l := bits.TrailingZeros64(m)
			x, y := w.wide(&ops[0], l, t), w.wide(&ops[1], l, t)
			lt |= bit(less(x, y)) << l
			eq |= bit(equal(x, y)) << l
			un |= bit(t == fmtDouble && (f64(x) != f64(x) || f64(y) != f64(y))) << l
		}
		return r(lt, eq, un)
	}, nil
}

// classOf is the bit number of a float's class in v_cmp_class; below tiny it is subnormal.
func classOf(f, tiny float32) uint {
	if f != f {
		if b32(f)>>22&1 == 0 {
			return 0
		}
		return 1
	}
	var k uint // distance from zero: 0 zero, 1 subnormal, 2 normal, 3 infinite
	switch a := math.Abs(float64(f)); {
	case math.IsInf(a, 0):
		k = 3
	case a >= float64(tiny):
		k = 2
	case a > 0:
		k = 1
	}
	if b32(f)>>31 == 1 {
		return 5 - k
	}
	return 6 + k
}
