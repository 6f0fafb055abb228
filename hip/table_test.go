package hip

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/hip/kernels"
	"voxtral/internal/device"
	"voxtral/sdpa"
)

// tableTargets are the architectures of kernels/TABLE.md; older compilers know only some.
var tableTargets = []string{"gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201"}

// compiledFor says for which targets a release compiles the kernels in the test: all with one, and one of each kind of
// compiler's novelties with the others, for it takes minutes.
var compiledFor = map[string][]string{
	"5.7": {"gfx1100"},
	"6.4": tableTargets,
	"7.2": {"gfx950", "gfx1201"},
}

// tableModules are the modules that the 4B model needs, by what they are called in the table.
func tableModules(t *testing.T) (names []string, modules map[string]kernels.Module) {
	t.Helper()
	modules = map[string]kernels.Module{}
	add := func(name string, m kernels.Module, err error) {
		require.NoError(t, err)
		names = append(names, name)
		modules[name] = m
	}
	for _, f := range []formatCase{{device.Int4, 32}, {device.Int8, 64}, {device.BF16, 0}} {
		for _, name := range []string{"matvec", "head", "matmul", "embed"} {
			m, err := kernels.Weights(name, f.format, f.group)
			add(fmt.Sprintf("%s %s", name, f.format), m, err)
		}
	}
	m, err := kernels.Attention(sdpa.Spec{QHeads: 32, KVHeads: 8, HeadDim: 128, Window: 8192}, true)
	add("attention 4×128 f16", m, err)
	m, err = kernels.Attention(sdpa.Spec{QHeads: 32, KVHeads: 32, HeadDim: 64, Window: 750}, true)
	add("attention 1×64 f16", m, err)
	m, err = kernels.Step(device.Int4, 32, sdpa.Spec{QHeads: 32, KVHeads: 8, HeadDim: 128, Window: 8192}, true)
	add("step 4×128 int4", m, err)
	m, err = kernels.Step(device.Int4, 32, sdpa.Spec{QHeads: 32, KVHeads: 32, HeadDim: 64, Window: 750}, true)
	add("step 1×64 int4", m, err)
	m, err = kernels.Step(device.Int8, 64, sdpa.Spec{QHeads: 32, KVHeads: 8, HeadDim: 128, Window: 8192}, true)
	add("step 4×128 int8", m, err)
	add("rows", kernels.Rows(), nil)
	add("argmax", kernels.Argmax(), nil)
	return names, modules
}

// usage is what a kernel takes of the hardware.
type usage struct{ vgpr, lds, scratch, spills int }

// waves is how many waves of the kernel's registers fit a SIMD.
func (u usage) waves(arch string) int {
	regs, step, most := 1536, 24, 16 // RDNA3 and 4, wave32
	switch {
	case strings.HasPrefix(arch, "gfx9"):
		regs, step, most = 512, 8, 8
	case strings.HasPrefix(arch, "gfx10"):
		regs, step = 1024, 8
	}
	return min(most, regs/((max(u.vgpr, 1)+step-1)/step*step))
}

var usageField = regexp.MustCompile(`\.(name|vgpr_count|agpr_count|group_segment_fixed_size|private_segment_fixed_size|vgpr_spill_count):\s+(\S+)`)

// usages reads the metadata of a code object.
func usages(t *testing.T, code []byte) map[string]usage {
	t.Helper()
	file := filepath.Join(t.TempDir(), "code")
	require.NoError(t, os.WriteFile(file, code, 0o644))
	tool, err := exec.LookPath("llvm-readelf-19")
	if err != nil {
		skip(t, "no llvm-readelf-19: install llvm-19")
	}
	text, err := exec.Command(tool, "--notes", file).Output()
	require.NoError(t, err)
	_, list, found := strings.Cut(string(text), "amdhsa.kernels:")
	require.True(t, found, "no kernels in the metadata")
	all := map[string]usage{}
	for _, block := range strings.Split(list, "\n  - ")[1:] {
		name, v := "", map[string]int{}
		for _, f := range usageField.FindAllStringSubmatch(block, -1) {
			if n, err := strconv.Atoi(f[2]); err == nil {
				v[f[1]] = n
			} else if f[1] == "name" {
				name = f[2]
			}
		}
		if name != "" {
			all[name] = usage{v["vgpr_count"], v["group_segment_fixed_size"], v["private_segment_fixed_size"], v["vgpr_spill_count"]}
		}
	}
	return all
}

// Every kernel compiles without a warning for every target and release, none needs scratch memory, and kernels/TABLE.md says
// what they take. VOXTRAL_UPDATE=1 writes the table anew.
func TestKernelTable(t *testing.T) {
	names, modules := tableModules(t)
	for _, root := range sysroots(t) {
		release := filepath.Base(root)
		targets := compiledFor[release]
		require.NotNil(t, targets, "no targets are listed for release %s", release)
		c, err := OpenCompiler(compilerOf(t, root), within(root)...)
		require.NoError(t, err)
		table := map[string]map[string]usage{}
		var mu sync.Mutex
		t.Run(release, func(t *testing.T) {
			for _, arch := range targets {
				for _, name := range names {
					t.Run(arch+" "+name, func(t *testing.T) {
						t.Parallel()
						wave := 32
						if strings.HasPrefix(arch, "gfx9") {
							wave = 64
						}
						out, err := c.Compile(Source{Name: name, Text: modules[name].Text(), Arch: arch, Options: append(modules[name].Options(wave), "-O3", "-Wall", "-Wextra")})
						require.NoError(t, err)
						require.Empty(t, out.Log)
						for kernel, u := range usages(t, out.Code) {
							require.Zero(t, u.scratch, "%s uses scratch memory: %d registers spilled", kernel, u.spills)
							mu.Lock()
							key := name + " | " + kernel
							if table[key] == nil {
								table[key] = map[string]usage{}
							}
							table[key][arch] = u
							mu.Unlock()
						}
					})
				}
			}
		})
		if release == "6.4" {
			checkTable(t, table)
		}
	}
}

func checkTable(t *testing.T, table map[string]map[string]usage) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Registers and LDS of every kernel\n\nVector registers / waves of them that fit a SIMD, and static LDS in bytes, as HIP 6.4 compiles them (`go test ./hip -run KernelTable`).\nNo kernel uses scratch memory.\n\n| module | kernel | LDS |")
	for _, arch := range tableTargets {
		b.WriteString(" " + arch + " |")
	}
	b.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(tableTargets)) + "\n")
	var keys []string
	for k := range table {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(&b, "| %s | %d |", k, table[k]["gfx942"].lds)
		for _, arch := range tableTargets {
			u := table[k][arch]
			fmt.Fprintf(&b, " %d / %d |", u.vgpr, u.waves(arch))
		}
		b.WriteString("\n")
	}
	file := filepath.Join("kernels", "TABLE.md")
	if os.Getenv("VOXTRAL_UPDATE") == "1" {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	old, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(old), b.String(), "%s is stale: run with VOXTRAL_UPDATE=1", file)
}
