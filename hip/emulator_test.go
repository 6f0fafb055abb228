package hip

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/hip/kernels"
	"voxtral/internal/amdisa"
)

// emulated runs AMD machine code on the CPU.
type emulated struct {
	arch    string
	machine *amdisa.Machine
	program *amdisa.Program
}

func (e *emulated) wave() int {
	if strings.HasPrefix(e.arch, "gfx9") {
		return 64
	}
	return 32
}

// load compiles with Debian's clang, which needs no run time.
func (e *emulated) load(t *testing.T, m kernels.Module) {
	t.Helper()
	if _, err := exec.LookPath(clangTool); err != nil {
		skip(t, "no %s: install clang-19, lld-19 and llvm-19", clangTool)
	}
	out, err := clang(t.TempDir(), Source{Name: m.Name, Text: m.Text(), Arch: e.arch, Options: m.Options(e.wave())})
	require.NoError(t, err)
	e.program, err = amdisa.Load(m.Name, out.Code)
	require.NoError(t, err)
}

func (e *emulated) alloc(t *testing.T, data []byte) uint64 {
	at := e.machine.Alloc(t.Name(), len(data))
	require.NoError(t, e.machine.Write(at, data))
	return at
}

func (e *emulated) read(t *testing.T, at uint64, data []byte) {
	require.NoError(t, e.machine.Read(at, data))
}

func (e *emulated) launch(t *testing.T, kernel string, grid [3]int, block, lds int, args []byte) {
	t.Helper()
	_, err := e.machine.Launch(e.program, kernel, grid, [3]int{block, 1, 1}, lds, args)
	require.NoError(t, err)
}

var withoutProducts = map[string]bool{"argmax": true, "attention": true, "rows": true, "conv": true, "embed": true, "read": true}

// Every kernel's machine code, for both wave sizes and every kind of matrix unit, does what the oracle says, and no two
// waves of a block race for the same place in LDS.
func TestKernelsEmulated(t *testing.T) {
	for _, arch := range []string{"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"} {
		t.Run(arch, func(t *testing.T) {
			for name, test := range gpuTests {
				if arch == "gfx1030" && !withoutProducts[name] {
					continue // its two-element dot products take the emulator minutes
				}
				t.Run(name, func(t *testing.T) {
					m := amdisa.NewMachine()
					m.CheckRaces = true
					test(t, &emulated{arch: arch, machine: m})
				})
			}
		})
	}
}
