package amdisa

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Matrix units: MFMA (CDNA, wave64, one block) and WMMA (RDNA3 and 4, wave32).

// matrixElement decodes an element of a lane's packed operand registers, exactly.
type matrixElement struct {
	bits  int
	value func(v uint32) float64
}

func signedElement(bits int) matrixElement {
	return matrixElement{bits, func(v uint32) float64 { return float64(int32(v<<(32-bits)) >> (32 - bits)) }}
}

func unsignedElement(bits int) matrixElement {
	return matrixElement{bits, func(v uint32) float64 { return float64(v) }}
}

// matrixElements are by their names in the mnemonics; iu8 and iu4 are signed by a modifier.
var matrixElements = map[string]matrixElement{
	"f16":  {16, func(v uint32) float64 { return float64(half(v)) }},
	"bf16": {16, func(v uint32) float64 { return float64(bf16(uint16(v))) }},
	"f32":  {32, func(v uint32) float64 { return float64(f32(v)) }},
	"i8":   signedElement(8), "iu8": unsignedElement(8), "iu4": unsignedElement(4),
}

// gather decodes the k elements of each of n rows of A, or columns of B.
func (t *tile) gather(to []float64, e matrixElement, w *wave, reg, n int) {
	mask := uint32(uint64(1)<<e.bits - 1)
	for i := range n {
		for k := range t.k {
			lane, j := t.a(i, k)
			at := j * e.bits
			to[i*t.k+k] = e.value(w.v[reg+at/32][lane] >> (at % 32) & mask)
		}
	}
}

// tile is the shape of a matrix instruction and where its elements live.
type tile struct {
	m, n, k int
	a       func(i, k int) (lane, j int) // A's row i (B's column i alike), element k
	d       func(row, col int) (lane, reg int)
	ea, eb  matrixElement
	ints    bool
	clamp   bool
}

// maxElements is the most that an operand holds.
const maxElements = 1024

var reMFMA = regexp.MustCompile(`^v_mfma_(f32|i32)_(\d+)x(\d+)x(\d+)_?(bf16_1k|bf16|f16|f32|i8)$`)

// buildMFMA builds single-block MFMA. Products are exact, sums are rounded one by one in the order of k.
func buildMFMA(p *Program, in *inst) (func(*wave), error) {
	f := reMFMA.FindStringSubmatch(in.name)
	if f == nil || len(in.ops) != 4 || p.wave != 64 {
		return nil, fmt.Errorf("unknown instruction %s", in.name)
	}
	n, k := atoi(f[2]), atoi(f[4])
	e := matrixElements[strings.TrimSuffix(f[5], "_1k")]
	per := k * n / 64 // elements of k in one lane
	if n != 16 && n != 32 || atoi(f[3]) != n || per*64 != k*n || per*e.bits%32 != 0 || in.ops[1].n*32 != per*e.bits {
		return nil, fmt.Errorf("%s: several blocks are not emulated", in.name)
	}
	t := tile{m: n, n: n, k: k, ea: e, eb: e, ints: f[1] == "i32",
		a: func(i, k int) (int, int) { return i + n*(k/per), k % per },
		d: func(row, col int) (int, int) { return col + row/4*16%64, row % 4 }}
	if n == 32 {
		t.d = func(row, col int) (int, int) { return col + row/4%2*32, row/8*4 + row%4 }
	}
	return t.build(in, n*n/64)
}

func init() {
	for name := range map[string]bool{"f32_16x16x16_f16": true, "f32_16x16x16_bf16": true, "i32_16x16x16_iu8": true, "i32_16x16x16_iu4": true,
		"i32_16x16x32_iu4": true} {
		register(buildWMMA, "v_wmma_"+name)
	}
}

// buildWMMA builds the wave32 products. On gfx11 both halves of the wave hold all of A and B; on gfx12 each holds half of k.
func buildWMMA(p *Program, in *inst) (func(*wave), error) {
	if err := in.want(4); err != nil {
		return nil, err
	}
	if p.wave != 32 {
		return nil, fmt.Errorf("%s: only in waves of 32", in.name)
	}
	parts := strings.Split(in.name, "_")
	k, err := strconv.Atoi(parts[3][strings.LastIndex(parts[3], "x")+1:])
	if err != nil {
		return nil, fmt.Errorf("unknown instruction %s", in.name)
	}
	e := matrixElements[parts[4]]
	t := tile{m: 16, n: 16, k: k, ea: e, eb: e, ints: parts[2] == "i32", clamp: in.clamp,
		a: func(i, k int) (int, int) { return i, k },
		d: func(row, col int) (int, int) { return col + 16*(row%2), row / 2 }}
	if t.ints {
		if in.negLo[0] == 1 {
			t.ea = signedElement(e.bits)
		}
		if in.negLo[1] == 1 {
			t.eb = signedElement(e.bits)
		}
	} else if in.clamp || in.negLo != [4]int{} || in.negHi != [4]int{} {
		return nil, fmt.Errorf("%s: modifiers are not emulated", in.text)
	}
	if p.gfx >= 0x1200 {
		per := k / 2
		t.a = func(i, k int) (int, int) { return i + 16*(k/per), k % per }
		t.d = func(row, col int) (int, int) { return col + 16*(row/8), row % 8 }
	}
	return t.build(in, 8)
}

// build compiles D = A B + C with regs registers of C and D.
func (t tile) build(in *inst, regs int) (func(*wave), error) {
	o := in.ops
	if o[0].kind != vectorReg || o[0].n != regs || o[1].kind != vectorReg || o[2].kind != vectorReg {
		return nil, fmt.Errorf("%s: unexpected operands", in.text)
	}
	if max(t.m, t.n)*t.k > maxElements {
		return nil, fmt.Errorf("%s: more than %d elements", in.text, maxElements)
	}
	return func(w *wave) {
		if e := w.exec(); e != w.born { // which it ignores, but not what made its operands, so that those of some lanes are old
			fail(-1, "a matrix product with lanes %#x of %#x switched on", e, w.born)
		}
		var a, b [maxElements]float64
		t.gather(a[:], t.ea, w, o[1].reg, t.m)
		t.gather(b[:], t.eb, w, o[2].reg, t.n)
		var d [16]lanes
		for row := range t.m {
			for col := range t.n {
				lane, reg := t.d(row, col)
				c := o[3]
				if c.kind == vectorReg {
					c.reg += reg
				}
				v := w.lane(&c, lane, fmtFloat)
				d[reg][lane] = t.dot(a[row*t.k:][:t.k], b[col*t.k:][:t.k], v)
			}
		}
		copy(w.v[o[0].reg:o[0].reg+regs], d[:regs])
	}, nil
}

// dot is c + a·b. Integers add up exactly; floats are rounded after each product, in the order of k.
func (t *tile) dot(a, b []float64, c uint32) uint32 {
	b = b[:len(a)]
	if !t.ints {
		sum := f32(c)
		for k := range a {
			sum = addProduct(sum, a[k]*b[k])
		}
		return b32(sum)
	}
	sum := float64(int32(c))
	for k := range a {
		sum += a[k] * b[k]
	}
	if t.clamp {
		return saturateS32(int64(sum))
	}
	return uint32(int64(sum))
}
