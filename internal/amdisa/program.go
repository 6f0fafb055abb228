package amdisa

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

var le = binary.LittleEndian

// Program is a loaded code object.
type Program struct {
	Arch    string // "gfx942"
	Kernels map[string]*Kernel

	name  string
	image []byte // the loaded segments, by virtual address
	text  uint64 // virtual address of code[0]
	code  []*inst
	gfx   int // the architecture's digits as hexadecimal: 0x90a, 0x942, 0x1100
	wave  int
}

// Kernel is one kernel's entry in the code object: what it needs of the hardware, and its arguments.
type Kernel struct {
	Name                   string
	VGPRs, AccVGPRs, SGPRs int
	LDSBytes, ScratchBytes int // LDS per workgroup without the dynamic part, scratch per lane
	KernargBytes, WaveSize int
	VGPRSpills, SGPRSpills int
	MaxThreads             int // of a workgroup
	Args                   []Arg
	entry                  uint64
	rsrc2                  uint32
	properties, preload    uint16
}

// Arg is one kernel argument; Kind is the metadata's value_kind: by_value, global_buffer, hidden_block_count_x ...
type Arg struct {
	Offset, Size int
	Kind         string
}

// maxImage bounds the address range that a code object's segments may span.
const maxImage = 1 << 28

// Load reads a code object and decodes its instructions with llvm-objdump. name appears in errors.
func Load(name string, codeObject []byte) (*Program, error) {
	p, err := load(name, codeObject)
	if err != nil {
		return nil, fmt.Errorf("amdisa: %s: %w", name, err)
	}
	return p, nil
}

func load(name string, raw []byte) (*Program, error) {
	raw, err := unbundle(raw)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("not a code object: %w", err)
	}
	if f.Machine != 224 { // EM_AMDGPU
		return nil, fmt.Errorf("an ELF file for %v, want an AMD GPU code object", f.Machine)
	}
	p := &Program{name: name, Kernels: map[string]*Kernel{}}
	if err := p.loadImage(f); err != nil {
		return nil, err
	}
	if err := p.loadMetadata(f); err != nil {
		return nil, err
	}
	if err := p.loadDescriptors(f); err != nil {
		return nil, err
	}
	return p, p.disassemble(raw)
}

const bundleMagic = "__CLANG_OFFLOAD_BUNDLE__"

// unbundle takes the only device entry out of a HIP fat binary; an ELF file passes through.
func unbundle(raw []byte) ([]byte, error) {
	b, ok := bytes.CutPrefix(raw, []byte(bundleMagic))
	if !ok {
		return raw, nil
	}
	word := func() uint64 {
		if len(b) < 8 {
			b = nil
			return 0
		}
		v := le.Uint64(b)
		b = b[8:]
		return v
	}
	var ids []string
	var found []byte
	for n := word(); n > 0 && b != nil; n-- {
		off, size, idLen := word(), word(), word()
		if idLen > uint64(len(b)) || off > uint64(len(raw)) || size > uint64(len(raw))-off {
			return nil, errors.New("HIP fat binary: an entry lies outside the file")
		}
		id := string(b[:idLen])
		b = b[idLen:]
		if !strings.HasPrefix(id, "host") {
			ids = append(ids, id)
			found = raw[off : off+size]
		}
	}
	if len(ids) != 1 {
		return nil, fmt.Errorf("HIP fat binary with %d device entries (%s), want one: compile for one architecture", len(ids), strings.Join(ids, ", "))
	}
	return found, nil
}

func (p *Program) loadImage(f *elf.File) error {
	var top uint64
	for _, s := range f.Progs {
		if s.Type == elf.PT_LOAD {
			if s.Memsz > maxImage || s.Vaddr > maxImage || s.Filesz > s.Memsz {
				return fmt.Errorf("segment at %#x of %d bytes, at most %d supported", s.Vaddr, s.Memsz, maxImage)
			}
			top = max(top, s.Vaddr+s.Memsz)
		}
	}
	p.image = make([]byte, top)
	for _, s := range f.Progs {
		if s.Type == elf.PT_LOAD && s.Filesz > 0 {
			if _, err := s.ReadAt(p.image[s.Vaddr:s.Vaddr+s.Filesz], 0); err != nil {
				return fmt.Errorf("segment at %#x: %w", s.Vaddr, err)
			}
		}
	}
	return nil
}

// loadMetadata reads the AMDGPU note: the architecture and every kernel's resources and arguments.
func (p *Program) loadMetadata(f *elf.File) error {
	var note []byte
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOTE {
			b, err := s.Data()
			if err != nil {
				return fmt.Errorf("metadata: %w", err)
			}
			if len(b) >= 20 && string(b[12:18]) == "AMDGPU" && le.Uint32(b[8:]) == 32 {
				if n := int64(le.Uint32(b[4:])); n <= int64(len(b)-20) {
					note = b[20 : 20+n]
				}
			}
		}
	}
	if note == nil {
		return errors.New("no AMDGPU metadata note: compile with code object version 4 or later")
	}
	v, err := (&msgpack{b: note}).value()
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	root, _ := v.(map[string]any)
	target, _ := root["amdhsa.target"].(string)
	_, arch, _ := strings.Cut(target, "--")
	p.Arch, _, _ = strings.Cut(arch, ":")
	gfx, err := strconv.ParseUint(strings.TrimPrefix(p.Arch, "gfx"), 16, 16)
	if err != nil {
		return fmt.Errorf("metadata: target %q, want amdgcn-amd-amdhsa--gfx and a number", target)
	}
	p.gfx = int(gfx)
	kernels, _ := root["amdhsa.kernels"].([]any)
	for _, v := range kernels {
		m, _ := v.(map[string]any)
		num := func(key string) int { n, _ := m[key].(int64); return int(n) }
		k := &Kernel{VGPRs: num(".vgpr_count"), AccVGPRs: num(".agpr_count"), SGPRs: num(".sgpr_count"),
			LDSBytes: num(".group_segment_fixed_size"), ScratchBytes: num(".private_segment_fixed_size"),
			KernargBytes: num(".kernarg_segment_size"), WaveSize: num(".wavefront_size"),
			VGPRSpills: num(".vgpr_spill_count"), SGPRSpills: num(".sgpr_spill_count"), MaxThreads: num(".max_flat_workgroup_size")}
		k.Name, _ = m[".name"].(string)
		if k.WaveSize != 32 && k.WaveSize != 64 {
			return fmt.Errorf("kernel %s: wave size %d", k.Name, k.WaveSize)
		}
		if p.wave != 0 && p.wave != k.WaveSize {
			return fmt.Errorf("kernel %s: wave size %d beside one of %d: one size per code object", k.Name, k.WaveSize, p.wave)
		}
		p.wave = k.WaveSize
		if k.LDSBytes < 0 || k.LDSBytes > maxLDS || k.ScratchBytes < 0 || k.ScratchBytes > maxScratch || k.KernargBytes < 0 || k.KernargBytes > maxKernarg {
			return fmt.Errorf("kernel %s: LDS %d, scratch %d, arguments %d bytes: beyond any hardware", k.Name, k.LDSBytes, k.ScratchBytes, k.KernargBytes)
		}
		args, _ := m[".args"].([]any)
		for _, v := range args {
			m, _ := v.(map[string]any)
			off, _ := m[".offset"].(int64)
			size, _ := m[".size"].(int64)
			kind, _ := m[".value_kind"].(string)
			if off < 0 || size < 0 || off > maxKernarg || size > maxKernarg || int(off+size) > k.KernargBytes {
				return fmt.Errorf("kernel %s: argument at %d of %d bytes lies outside its %d", k.Name, off, size, k.KernargBytes)
			}
			k.Args = append(k.Args, Arg{int(off), int(size), kind})
		}
		p.Kernels[k.Name] = k
	}
	if len(p.Kernels) == 0 {
		return errors.New("no kernel in the metadata")
	}
	return nil
}

// loadDescriptors reads each kernel's 64-byte descriptor: its entry and which registers the dispatcher fills.
func (p *Program) loadDescriptors(f *elf.File) error {
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return fmt.Errorf("symbols: %w", err)
	}
	for _, s := range symbols {
		name, ok := strings.CutSuffix(s.Name, ".kd")
		k := p.Kernels[name]
		if !ok || k == nil {
			continue
		}
		if s.Value+64 > uint64(len(p.image)) {
			return fmt.Errorf("kernel %s: descriptor at %#x lies outside the image", name, s.Value)
		}
		d := p.image[s.Value:]
		k.entry = s.Value + le.Uint64(d[16:])
		rsrc1 := le.Uint32(d[48:])
		k.rsrc2 = le.Uint32(d[52:])
		k.properties, k.preload = le.Uint16(d[56:]), le.Uint16(d[58:])
		if mode := rsrc1 >> 12 & 255; mode&15 != 0 || mode>>4&3 != 3 || mode>>6 != 3 {
			return fmt.Errorf("kernel %s: floating-point mode %#x: only rounding to nearest with denormals kept is emulated", name, mode)
		}
	}
	for name, k := range p.Kernels {
		if k.entry == 0 {
			return fmt.Errorf("kernel %s: no descriptor %s.kd", name, name)
		}
	}
	return nil
}

// Unsupported lists the instructions of the program that would fault when reached, without executing anything.
func (p *Program) Unsupported() []string {
	seen := map[string]bool{}
	for _, in := range p.code {
		if in != nil && in.err != nil {
			seen[in.text+": "+in.err.Error()] = true
		}
	}
	out := make([]string, 0, len(seen))
	for s := range seen {
		out = append(out, s)
	}
	sort.Strings(out)
	return slices.Clip(out)
}
