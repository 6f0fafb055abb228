package amdisa

import (
	"fmt"
	"strconv"
	"strings"
)

// format is how an instruction reads a source or writes its result.
type format uint8

const (
	fmtBits   format = iota // 32 bits, no floating-point modifiers
	fmtFloat                // single precision
	fmtHalf                 // half precision or 16-bit integer in the low half
	fmtPacked               // two halves or 16-bit integers
	fmtDouble               // double precision
	fmtLong                 // 64 bits
)

// inst is one decoded instruction.
type inst struct {
	name  string // mnemonic without the encoding's suffix
	text  string
	ops   []operand
	mods  map[string]string
	pc    uint64
	word  uint32 // the first encoded word
	words int
	index int // in Program.code
	next  int

	opSel, opSelHi, negLo, negHi [4]int
	clamp                        bool
	scale                        float32 // output modifier, 1 by default
	offset                       int64
	dpp                          *dppControl
	sdwa                         *sdwaControl
	second                       *inst // the other half of a dual-issue instruction

	run func(*wave)
	err error // why run faults
}

// builder compiles an instruction of one program into what executes it.
type builder func(p *Program, in *inst) (func(*wave), error)

// builders holds every mnemonic, filled by the families' init functions.
var builders = map[string]builder{}

func register(b builder, names ...string) {
	for _, n := range names {
		builders[n] = b
	}
}

func splitTop(s string, sep byte) []string {
	var out []string
	depth, start := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '[', '(':
			depth++
		case ']', ')':
			depth--
		case sep:
			if depth == 0 {
				out = append(out, s[start:i])
				start = i + 1
			}
		}
	}
	return append(out, s[start:])
}

func parseInts(s string) (r [8]int) {
	for i, p := range strings.Split(strings.Trim(s, "[]"), ",") {
		if i < len(r) {
			r[i], _ = strconv.Atoi(strings.TrimSpace(p)) // what is no number is refused by the modifier check
		}
	}
	return r
}

var encodings = []string{"_e64_dpp", "_e32", "_e64", "_dpp8", "_dpp", "_sdwa"}

// flags are modifiers that select cache behaviour or an already known variant: no effect on values.
var flags = map[string]bool{"glc": true, "slc": true, "dlc": true, "sc0": true, "sc1": true, "nt": true, "scc": true, "off": true}

// parse splits one printed instruction. What it cannot understand becomes in.err.
func parse(mnemonic, rest string) *inst {
	if x, y, dual := strings.Cut(rest, " :: "); dual {
		in := parse(mnemonic, x)
		name, ops, _ := strings.Cut(strings.TrimSpace(y), " ")
		in.second = parse(name, ops)
		return in
	}
	in := &inst{name: mnemonic, mods: map[string]string{}, scale: 1, opSelHi: [4]int{1, 1, 1, 1}, words: 1}
	enc := ""
	for _, e := range encodings {
		if n, ok := strings.CutSuffix(mnemonic, e); ok {
			in.name, enc = n, e
			break
		}
	}
	if i := strings.Index(rest, "<"); i >= 0 { // the branch target's symbol
		rest = rest[:i]
	}
	for _, part := range splitTop(strings.TrimSpace(rest), ',') {
		for j, tok := range splitTop(strings.TrimSpace(part), ' ') {
			if tok == "" {
				continue
			}
			key, value, isMod := strings.Cut(tok, ":")
			if isMod && strings.ContainsAny(key, "[|(") {
				isMod = false // a register range
			}
			switch {
			case isMod:
				in.mods[key] = value
			case j > 0 || flags[tok] && tok != "off" && tok != "scc":
				in.mods[tok] = "1"
			default:
				in.ops = append(in.ops, parseOperand(tok))
			}
		}
	}
	in.readModifiers(enc)
	return in
}

// readModifiers moves the modifiers it understands out of in.mods; memory families read the rest, bind refuses leftovers.
func (in *inst) readModifiers(enc string) {
	take := func(key string) (string, bool) {
		v, ok := in.mods[key]
		delete(in.mods, key)
		return v, ok
	}
	quad := func(key string, dst *[4]int) {
		if v, ok := take(key); ok {
			r := parseInts(v)
			copy(dst[:], r[:4])
		}
	}
	if strings.Contains(in.name, "_mix") {
		in.opSelHi = [4]int{}
	}
	quad("op_sel", &in.opSel)
	quad("op_sel_hi", &in.opSelHi)
	quad("neg_lo", &in.negLo)
	quad("neg_hi", &in.negHi)
	if _, ok := take("clamp"); ok {
		in.clamp = true
	}
	if v, ok := take("mul"); ok {
		in.scale = map[string]float32{"2": 2, "4": 4}[v]
	}
	if v, ok := take("div"); ok && v == "2" {
		in.scale = 0.5
	}
	if v, ok := take("offset"); ok && !strings.HasPrefix(v, "swizzle") {
		n, err := strconv.ParseInt(v, 0, 64)
		if err != nil {
			in.err = fmt.Errorf("offset %q", v)
		}
		in.offset = n
	}
	in.dpp = readDPP(take)
	if enc == "_sdwa" {
		in.sdwa = readSDWA(take)
	}
	for i := range in.ops {
		if in.ops[i].high { // a true16 register half is op_sel by another name; the last slot is the destination's
			in.opSel[(i+3)%4] = 1
		}
	}
	for key := range flags {
		if v, ok := in.mods[key]; ok && v == "1" && key != "sc0" && key != "glc" && key != "sc1" {
			delete(in.mods, key)
		}
	}
}

// bind compiles an instruction, or leaves one that faults with the reason.
func (p *Program) bind(in *inst) {
	if in.err == nil {
		b := builders[in.name]
		if b == nil && strings.HasPrefix(in.name, "v_cmp") {
			b = buildCompare
		}
		if b == nil && strings.HasPrefix(in.name, "v_mfma_") {
			b = buildMFMA
		}
		if b == nil && strings.HasPrefix(in.name, "s_cmp") {
			b = buildScalarCompare
		}
		switch {
		case b == nil:
			in.err = fmt.Errorf("unknown instruction %s", in.name)
		case in.second != nil:
			in.run, in.err = buildDual(p, in)
		default:
			in.run, in.err = b(p, in)
		}
		if in.err == nil {
			in.err = in.leftover()
		}
	}
	if in.err != nil {
		reason := in.err.Error()
		in.run = func(*wave) { fail(-1, "%s", reason) }
	}
}

// leftover refuses modifiers that no family consumed.
func (in *inst) leftover() error {
	for key, v := range in.mods {
		switch key {
		case "glc", "sc0", "sc1", "th", "scope": // coherence, read by the memory families
		case "bitop3":
			if in.name != "v_bitop3_b32" {
				return fmt.Errorf("%s: modifier %s is not emulated", in.name, key)
			}
		case "offset0", "offset1", "offen", "offset":
			if !strings.HasPrefix(in.name, "ds_") && !strings.HasPrefix(in.name, "buffer_") {
				return fmt.Errorf("%s: modifier %s is not emulated", in.name, key)
			}
		default:
			return fmt.Errorf("%s: modifier %s:%s is not emulated", in.name, key, v)
		}
	}
	return nil
}

// want checks the number of operands that a builder is about to index.
func (in *inst) want(n int) error {
	if len(in.ops) < n {
		return fmt.Errorf("%s: %d operands, want %d", in.name, len(in.ops), n)
	}
	return nil
}
