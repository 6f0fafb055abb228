package amdisa

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// InstallHint says how to get the tools that Load and the package's tests need.
const InstallHint = "apt-get install clang-19 lld-19 llvm-19, or name the disassembler in LLVM_OBJDUMP"

// objdump finds llvm-objdump: LLVM_OBJDUMP, then the newest in PATH.
func objdump() (string, error) {
	if path := os.Getenv("LLVM_OBJDUMP"); path != "" {
		return path, nil
	}
	for _, name := range []string{"llvm-objdump-22", "llvm-objdump-21", "llvm-objdump-20", "llvm-objdump-19", "llvm-objdump"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("llvm-objdump not found: " + InstallHint)
}

var reInst = regexp.MustCompile(`^\t(\S+)(.*?)\s*// ([0-9A-F]+): ([0-9A-F ]+)`)

// line is one instruction as llvm-objdump prints it.
type line struct {
	mnemonic, rest string
	pc             uint64
	encoding       string // its words in hexadecimal
}

func dump(tool, file string, options ...string) (lines []line, err error) {
	out, err := exec.Command(tool, append(options, "-d", file)...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("%s: %w: %s", tool, err, exit.Stderr)
		}
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	for text := range strings.Lines(string(out)) {
		m := reInst.FindStringSubmatch(text)
		if m == nil || m[1] == "s_code_end" {
			continue
		}
		pc, err := strconv.ParseUint(m[3], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("disassembly: address in %q", strings.TrimSpace(text))
		}
		lines = append(lines, line{m[1], m[2], pc, m[4]})
	}
	return lines, nil
}

// disassemble fills p.code, indexed by the instruction's word from p.text.
func (p *Program) disassemble(raw []byte) error {
	tool, err := objdump()
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "amdisa-*.co")
	if err != nil {
		return fmt.Errorf("disassembly: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // the system cleans its temporary folder anyway
	if err = file.Close(); err != nil {
		return fmt.Errorf("disassembly: %w", err)
	}
	lines, err := p.listing(tool, file.Name(), raw)
	if err != nil {
		return err
	}
	known := map[string]*inst{} // by encoding: operands do not depend on the place, but for pc-relative ones
	var list []*inst
	for _, l := range lines {
		words := strings.Fields(l.encoding)
		first, err := strconv.ParseUint(words[0], 16, 64)
		if err != nil || l.pc >= uint64(len(p.image)) {
			return fmt.Errorf("disassembly: %q at %#x", l.encoding, l.pc)
		}
		in := known[l.encoding]
		if in == nil {
			in = parse(l.mnemonic, l.rest)
			in.word = uint32(first)
			in.text = strings.TrimSpace(l.mnemonic + l.rest)
			in.words = len(words)
			known[l.encoding] = in
		}
		placed := *in
		placed.pc = l.pc
		list = append(list, &placed)
	}
	if len(list) == 0 {
		return fmt.Errorf("%s printed no instructions", tool)
	}
	p.text = list[0].pc
	for _, in := range list {
		p.text = min(p.text, in.pc)
	}
	p.code = make([]*inst, (uint64(len(p.image))-p.text+3)/4)
	for _, in := range list {
		at := int(in.pc-p.text) / 4
		in.index, in.next = at, at+in.words
		p.code[at] = in
		p.bind(in)
	}
	return nil
}
