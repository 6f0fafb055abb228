package amdisa

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// archs are the targets that clang-19 knows; gfx950 comes with LLVM 20.
var archs = []string{"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201"}

// missing skips a test without its tools, except in CI, where they are installed.
func missing(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("VOXTRAL_CI") == "1" {
		t.Fatalf("%v: %s", err, InstallHint)
	}
	t.Skipf("%v: %s", err, InstallHint)
}

func tool(t *testing.T, names ...string) string {
	t.Helper()
	var err error
	for _, n := range names {
		var path string
		if path, err = exec.LookPath(n); err == nil {
			return path
		}
	}
	missing(t, err)
	return ""
}

var programs sync.Map

// compile builds testdata/<source>.hip for an architecture, once per test binary.
func compile(t *testing.T, source, arch string) *Program {
	t.Helper()
	if p, ok := programs.Load(source + arch); ok {
		return p.(*Program)
	}
	clang := tool(t, "clang-19", "clang-20", "clang-21")
	if _, err := objdump(); err != nil {
		missing(t, err)
	}
	out := filepath.Join(t.TempDir(), "kernel.co")
	cmd := exec.Command(clang, "-x", "hip", "-nogpuinc", "-nogpulib", "--offload-device-only", "--no-gpu-bundle-output", "-O3",
		"-ffp-contract=off", "--offload-arch="+arch, filepath.Join("testdata", source+".hip"), "-o", out)
	msg, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", msg)
	raw, err := os.ReadFile(out)
	require.NoError(t, err)
	p, err := Load(source+"."+arch, raw)
	require.NoError(t, err)
	programs.Store(source+arch, p)
	return p
}

// assemble builds one kernel of hand-written instructions with the argument pointer in s[0:1]; the metadata is the least
// that a code object has.
func assemble(t *testing.T, arch string, wave int, body string) *Program {
	t.Helper()
	p, err := Load(arch, assembleRaw(t, arch, wave, body))
	require.NoError(t, err)
	return p
}

func assembleRaw(t *testing.T, arch string, wave int, body string) []byte {
	t.Helper()
	mc, ld := tool(t, "llvm-mc-19", "llvm-mc"), tool(t, "ld.lld-19", "ld.lld")
	if _, err := objdump(); err != nil {
		missing(t, err)
	}
	accum, wave32 := "", ""
	if arch == "gfx90a" || arch == "gfx942" {
		accum = ".amdhsa_accum_offset 64\n"
	} else {
		wave32 = ".amdhsa_wavefront_size32 1\n"
	}
	n := map[int]string{32: "32", 64: "64"}[wave]
	src := ".amdgcn_target \"amdgcn-amd-amdhsa--" + arch + "\"\n.text\n.globl k\n.p2align 8\n.type k,@function\nk:\n" + body + "\ns_endpgm\n" +
		".rodata\n.p2align 6\n.amdhsa_kernel k\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n.amdhsa_next_free_vgpr 64\n.amdhsa_next_free_sgpr 32\n" +
		".amdhsa_group_segment_fixed_size 1024\n.amdhsa_float_denorm_mode_32 3\n" + accum + wave32 + ".end_amdhsa_kernel\n" +
		".amdgpu_metadata\namdhsa.version: [1, 2]\namdhsa.target: amdgcn-amd-amdhsa--" + arch + "\namdhsa.kernels:\n  - .name: k\n    .symbol: k.kd\n" +
		"    .kernarg_segment_size: 8\n    .kernarg_segment_align: 8\n    .group_segment_fixed_size: 1024\n    .private_segment_fixed_size: 0\n" +
		"    .wavefront_size: " + n + "\n    .sgpr_count: 32\n    .vgpr_count: 64\n    .max_flat_workgroup_size: 256\n" +
		"    .args: [{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}]\n.end_amdgpu_metadata\n"
	dir := t.TempDir()
	obj, out := filepath.Join(dir, "k.o"), filepath.Join(dir, "k.co")
	cmd := exec.Command(mc, "-triple=amdgcn-amd-amdhsa", "-mcpu="+arch, "-filetype=obj", "-o", obj)
	cmd.Stdin = bytes.NewBufferString(src)
	msg, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", msg)
	msg, err = exec.Command(ld, "-shared", obj, "-o", out).CombinedOutput()
	require.NoError(t, err, "%s", msg)
	raw, err := os.ReadFile(out)
	require.NoError(t, err)
	return raw
}

// buffer is device memory holding words.
func buffer(t *testing.T, m *Machine, name string, words []uint32) uint64 {
	t.Helper()
	addr := m.Alloc(name, 4*len(words))
	b := make([]byte, 4*len(words))
	for i, v := range words {
		le.PutUint32(b[4*i:], v)
	}
	require.NoError(t, m.Write(addr, b))
	return addr
}

func words(t *testing.T, m *Machine, addr uint64, n int) []uint32 {
	t.Helper()
	b := make([]byte, 4*n)
	require.NoError(t, m.Read(addr, b))
	out := make([]uint32, n)
	for i := range out {
		out[i] = le.Uint32(b[4*i:])
	}
	return out
}

// kernarg packs arguments: uint64 pointers and 32-bit integers, each at its natural alignment.
func kernarg(args ...any) []byte {
	var b []byte
	for _, a := range args {
		switch v := a.(type) {
		case uint64:
			for len(b)%8 != 0 {
				b = append(b, 0)
			}
			b = le.AppendUint64(b, v)
		case int:
			b = le.AppendUint32(b, uint32(v))
		}
	}
	return b
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

var coverage = struct {
	sync.Mutex
	by map[string]map[string]uint64 // architecture, mnemonic
}{by: map[string]map[string]uint64{}}

// launch runs a kernel and notes the instructions it executed.
func launch(m *Machine, p *Program, kernel string, groups, threads, lds int, args []byte) error {
	st, err := m.Launch(p, kernel, [3]int{groups, 1, 1}, [3]int{threads, 1, 1}, lds, args)
	coverage.Lock()
	defer coverage.Unlock()
	if coverage.by[p.Arch] == nil {
		coverage.by[p.Arch] = map[string]uint64{}
	}
	for name, n := range st.Mnemonics {
		coverage.by[p.Arch][name] += n
	}
	return err
}
