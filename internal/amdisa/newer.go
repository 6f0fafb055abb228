package amdisa

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// Compilers are newer than llvm-19, whose disassembler does not know gfx950 nor, on gfx11, the high halves of registers. An
// instruction that it does not know is put into a copy of the code as another one with the same operands, and takes its own
// name again in what is printed; halves are read from the encoding.

// substitute is what stands in for the instruction that begins with these words, and how the line that is printed becomes the
// instruction's own.
func (p *Program) substitute(words [2]uint32) (stand [2]uint32, restore func(*line), ok bool) {
	switch {
	case p.gfx == 0x950 && words[0]>>16 == 0xd234: // v_bfi_b32; the truth table lies where other instructions have modifiers
		table := words[1]>>29 | words[0]>>8&7<<3 | words[1]>>27&3<<6
		return [2]uint32{0xd1ca<<16 | words[0]&0xff, words[1] & 0x07ffffff}, func(l *line) {
			l.mnemonic, l.rest = "v_bitop3_b32", fmt.Sprintf("%s bitop3:%#x", l.rest, table)
		}, true
	case p.gfx == 0x950 && words[0]>>16 == 0xd267: // v_cvt_pkrtz_f16_f32
		return [2]uint32{0xd296<<16 | words[0]&0xffff, words[1]}, func(l *line) { l.mnemonic = "v_cvt_pk_f16_f32" }, true
	case p.gfx >= 0x1100 && words[0]>>31 == 0 && words[0]>>24&1 == 1: // a destination of VOP1 or VOP2 from 128 on: the high half
		return [2]uint32{words[0] &^ (1 << 24), words[1]}, func(l *line) {
			dst, rest, _ := strings.Cut(l.rest, ",")
			l.rest = dst + ".h," + rest
		}, true
	}
	return words, nil, false
}

// invalid is how a source from 128 on is printed: the high half.
var invalid = regexp.MustCompile(`v(\d+)/\*Invalid register, operand has '\w+_Lo128' register class\*/`)

func highHalves(rest string) string {
	return invalid.ReplaceAllStringFunc(rest, func(s string) string {
		n, err := strconv.Atoi(invalid.FindStringSubmatch(s)[1])
		if err != nil || n < 128 {
			return s // which no parser takes
		}
		return fmt.Sprintf("v%d.h", n-128)
	})
}

var (
	shortInst = regexp.MustCompile(`_[fiub]16(_|$)`)
	opSel     = regexp.MustCompile(` op_sel:\[[01,]*\]`)
)

// longHalves gives an instruction of 16 bits in VOP3's encoding its four op_sel bits, sources first, the destination last.
func (l *line) longHalves() {
	word, err := strconv.ParseUint(l.encoding[:8], 16, 32)
	if bits := word >> 11 & 15; err == nil && word>>26 == 0x35 && shortInst.MatchString(l.mnemonic) {
		l.rest = fmt.Sprintf("%s op_sel:[%d,%d,%d,%d]", opSel.ReplaceAllString(l.rest, ""), bits&1, bits>>1&1, bits>>2&1, bits>>3)
	}
}

// listing is the instructions of raw, for which file is the disassembler's. Behind an instruction that it does not know, it may
// lose its step, so putting others in goes on until it knows all.
func (p *Program) listing(tool, file string, raw []byte) ([]line, error) {
	var options []string
	if p.gfx == 0x950 && exec.Command(tool, "-d", "--mcpu=gfx950", "/dev/null").Run() != nil {
		options = []string{"--mcpu=gfx942"}
	}
	f, err := elf.NewFile(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("disassembly: %w", err)
	}
	text := f.Section(".text")
	if text == nil || text.Offset > uint64(len(raw)) || text.Size > uint64(len(raw))-text.Offset {
		return nil, errors.New("disassembly: no .text in the code object")
	}
	raw = append(bytes.Clone(raw), 0, 0, 0, 0)
	code := raw[text.Offset:][:text.Size+4] // a second word behind the last one
	restored := map[uint64]func(*line){}
	for {
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			return nil, fmt.Errorf("disassembly: %w", err)
		}
		lines, err := dump(tool, file, options...)
		if err != nil {
			return nil, err
		}
		before, inStep := len(restored), uint64(0)
		for _, l := range lines {
			at := l.pc - text.Addr
			if l.mnemonic != ".long" || l.pc < inStep || at >= text.Size {
				continue
			}
			words := [2]uint32{le.Uint32(code[at:]), le.Uint32(code[at+4:])}
			stand, restore, ok := p.substitute(words)
			if !ok {
				continue
			}
			encoding := fmt.Sprintf("%08X %08X", words[0], words[1])
			restored[l.pc] = func(l *line) {
				restore(l)
				l.encoding = encoding[:len(l.encoding)] // as many words as the other one has
			}
			le.PutUint32(code[at:], stand[0])
			le.PutUint32(code[at+4:], stand[1])
			inStep = l.pc + 8
		}
		if len(restored) > before {
			continue
		}
		for i := range lines {
			if restore := restored[lines[i].pc]; restore != nil {
				restore(&lines[i])
			}
			if p.gfx >= 0x1100 {
				lines[i].rest = highHalves(lines[i].rest)
				lines[i].longHalves()
			}
		}
		return lines, nil
	}
}

func init() { register(buildBitOp3, "v_bitop3_b32") }

// buildBitOp3 builds the bitwise function of three operands that a truth table gives: bit 4a + 2b + c of it.
func buildBitOp3(p *Program, in *inst) (func(*wave), error) {
	table, err := strconv.ParseUint(in.mods["bitop3"], 0, 8)
	if err != nil && in.mods["bitop3"] != "" {
		return nil, fmt.Errorf("%s: %w", in.text, err)
	}
	op := vectorOp{n: 3, run: lift(func(a, b, c uint32) (r uint32) {
		for i := range 8 {
			if table>>i&1 == 1 {
				r |= (a ^ (uint32(i>>2&1) - 1)) & (b ^ (uint32(i>>1&1) - 1)) & (c ^ (uint32(i&1) - 1))
			}
		}
		return r
	})}
	c, err := op.compile(p, in)
	if err != nil {
		return nil, err
	}
	return finish(p, in, c, fmtBits), nil
}
