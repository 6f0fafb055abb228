package amdisa

import (
	"strconv"
	"strings"
)

type operandKind uint8

const (
	noOperand operandKind = iota
	vectorReg             // accumulation registers are vector registers 256..511
	scalarReg
	sccReg
	integer  // an integer constant or literal
	floating // an inline floating-point constant
)

// Scalar register numbers of the special registers, whatever the encoding of the generation.
const (
	regFlatScratch = 102
	regVCC         = 106
	regTTMP        = 108
	regM0          = 124
	regExec        = 126
	numScalars     = 128
	accBase        = 256
)

// operand is one operand as printed, with its source modifiers.
type operand struct {
	kind           operandKind
	reg, n         int // first register, number of registers
	imm            uint64
	f              float64
	literal        bool
	neg, abs, sext bool
	high           bool // the .h half of a register
	text           string
}

var specialRegs = map[string]operand{
	"vcc": {reg: regVCC, n: 2}, "vcc_lo": {reg: regVCC, n: 1}, "vcc_hi": {reg: regVCC + 1, n: 1},
	"exec": {reg: regExec, n: 2}, "exec_lo": {reg: regExec, n: 1}, "exec_hi": {reg: regExec + 1, n: 1},
	"m0": {reg: regM0, n: 1}, "flat_scratch": {reg: regFlatScratch, n: 2},
	"flat_scratch_lo": {reg: regFlatScratch, n: 1}, "flat_scratch_hi": {reg: regFlatScratch + 1, n: 1},
	"xnack_mask": {reg: 104, n: 2},
}

func parseOperand(s string) operand {
	o := parseBare(s)
	o.text = s
	return o
}

func parseBare(s string) (o operand) {
	switch {
	case strings.HasPrefix(s, "sext(") && strings.HasSuffix(s, ")"):
		o = parseBare(s[5 : len(s)-1])
		o.sext = true
		return o
	case strings.HasPrefix(s, "neg(") && strings.HasSuffix(s, ")"):
		o = parseBare(s[4 : len(s)-1])
		o.neg = true
		return o
	case len(s) > 1 && s[0] == '-' && (s[1] < '0' || s[1] > '9'):
		o = parseBare(s[1:])
		o.neg = true
		return o
	case len(s) > 2 && s[0] == '|' && s[len(s)-1] == '|':
		o = parseBare(s[1 : len(s)-1])
		o.abs = true
		return o
	}
	if r, ok := specialRegs[s]; ok {
		r.kind = scalarReg
		return r
	}
	switch s {
	case "", "off", "null":
		return operand{n: 1}
	case "scc", "src_scc":
		return operand{kind: sccReg, n: 1}
	case "src_shared_base":
		return operand{kind: integer, imm: sharedBase, n: 2}
	case "src_private_base":
		return operand{kind: integer, imm: privateBase, n: 2}
	}
	if o, ok := parseRegister(s); ok {
		return o
	}
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		if v, err := strconv.ParseUint(hex, 16, 64); err == nil {
			return operand{kind: integer, imm: v, literal: true, n: 1}
		}
	}
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return operand{kind: integer, imm: uint64(v), n: 1}
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return operand{kind: floating, f: v, n: 1}
	}
	return operand{n: 1}
}

func parseRegister(s string) (operand, bool) {
	o := operand{n: 1}
	limit := 256
	switch {
	case strings.HasPrefix(s, "ttmp"):
		o.kind, o.reg, s, limit = scalarReg, regTTMP, s[4:], 16
	case strings.HasPrefix(s, "v"):
		o.kind, s = vectorReg, s[1:]
	case strings.HasPrefix(s, "a"):
		o.kind, o.reg, s = vectorReg, accBase, s[1:]
	case strings.HasPrefix(s, "s"):
		o.kind, s, limit = scalarReg, s[1:], regVCC
	default:
		return o, false
	}
	if t, ok := strings.CutSuffix(s, ".h"); ok {
		o.high, s = true, t
	}
	s = strings.TrimSuffix(s, ".l")
	first, last := s, s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		first, last, _ = strings.Cut(s[1:len(s)-1], ":")
		if last == "" {
			last = first
		}
	}
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(last)
	if err1 != nil || err2 != nil || a < 0 || b < a || b >= limit {
		return o, false
	}
	o.reg += a
	o.n = b - a + 1
	return o, true
}

// constant32 is a constant operand's 32 bits where the instruction reads the given format.
func (o *operand) constant32(t format) uint32 {
	if o.kind == floating {
		switch t {
		case fmtHalf:
			return toHalf(o.f)
		case fmtDouble:
			return uint32(b64(o.f) >> 32)
		}
		return b32(float32(o.f))
	}
	return uint32(o.imm)
}

func (o *operand) constant64(t format) uint64 {
	if o.kind == floating {
		return b64(o.f)
	}
	if t == fmtDouble && o.literal {
		return o.imm << 32
	}
	return o.imm
}
