package amdisa

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Matrix units: MFMA (CDNA, wave64, one block) and WMMA (RDNA3 and 4, wave32).

// matrixElement decodes element j of a lane's packed operand registers.
type matrixElement struct {
	bits   int
	float  func(v uint32) float32
	signed bool
}

var matrixElements = map[string]matrixElement{
	"f16": {bits: 16, float: half}, "bf16": {bits: 16, float: func(v uint32) float32 { return bf16(uint16(v)) }},
	"f32": {bits: 32, float: f32}, "i8": {bits: 8, signed: true}, "iu8": {bits: 8}, "iu4": {bits: 4},
}

func (e matrixElement) raw(w *wave, reg, lane, j int) uint32 {
	at := j * e.bits
	return w.v[reg+at/32][lane] >> (at % 32) & uint32(uint64(1)<<e.bits-1)
}

// integer is the element as an integer, signed or not.
func (e matrixElement) integer(v uint32, signed bool) int32 {
	if signed {
		return int32(v<<(32-e.bits)) >> (32 - e.bits)
	}
	return int32(v)
}

// tile is the shape of a matrix instruction and where its elements live.
type tile struct {
	m, n, k int
	a       func(i, k int) (lane, j int) // A's row i (B's column i alike), element k
	d       func(row, col int) (lane, reg int)
	element matrixElement
	ints    bool
	sa, sb  bool // integers are signed
	clamp   bool
}

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
	t := tile{m: n, n: n, k: k, element: e, ints: f[1] == "i32", sa: true, sb: true,
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
	t := tile{m: 16, n: 16, k: k, element: matrixElements[parts[4]], ints: parts[2] == "i32", clamp: in.clamp,
		a: func(i, k int) (int, int) { return i, k },
		d: func(row, col int) (int, int) { return col + 16*(row%2), row / 2 }}
	if t.ints {
		t.sa, t.sb = in.negLo[0] == 1, in.negLo[1] == 1
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
	return func(w *wave) {
		a, b := make([]uint32, t.m*t.k), make([]uint32, t.n*t.k)
		for i := range t.m {
			for k := range t.k {
				lane, j := t.a(i, k)
				a[i*t.k+k] = t.element.raw(w, o[1].reg, lane, j)
				b[i*t.k+k] = t.element.raw(w, o[2].reg, lane, j)
			}
		}
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

func (t *tile) dot(a, b []uint32, c uint32) uint32 {
	e := &t.element
	if !t.ints {
		sum := f32(c)
		for k := range a {
			sum = fma32(e.float(a[k]), e.float(b[k]), sum)
		}
		return b32(sum)
	}
	sum := int64(int32(c))
	for k := range a {
		sum += int64(e.integer(a[k], t.sa)) * int64(e.integer(b[k], t.sb))
	}
	if t.clamp {
		return saturateS32(sum)
	}
	return uint32(sum)
}
