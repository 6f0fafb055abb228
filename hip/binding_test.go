package hip

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	sysrootsVariable = "VOXTRAL_ROCM_SYSROOTS"
	insideVariable   = "VOXTRAL_INSIDE_SYSROOT"
	loader           = "usr/lib64/ld-linux-x86-64.so.2"
	libraries        = "usr/lib/x86_64-linux-gnu"
)

// sysroots are unpacked releases of HIP, by their directories' names.
func sysroots(t *testing.T) []string {
	t.Helper()
	dirs := filepath.SplitList(os.Getenv(sysrootsVariable))
	if len(dirs) < 3 {
		skip(t, "%s names %d directories, want 3 made by scripts/rocm/sysroot.sh, one for each of 5.7, 6.4 and 7.2", sysrootsVariable, len(dirs))
	}
	for _, dir := range dirs {
		require.FileExists(t, filepath.Join(dir, ".complete"), "make it with scripts/rocm/sysroot.sh")
	}
	return dirs
}

// within starts a command with a sysroot's C library and everything above it.
func within(sysroot string) []string {
	return []string{filepath.Join(sysroot, loader), "--library-path", filepath.Join(sysroot, libraries)}
}

// bind compiles our header, as it lies in dir, against real ones.
func bind(dir, library string, include ...string) (string, error) {
	args := []string{"-std=gnu11", "-fsyntax-only", "-w", "-DBIND_" + library, filepath.Join(dir, "testdata/binding.c")}
	for _, folder := range include {
		args = append(args, "-isystem", folder)
	}
	out, err := exec.Command("gcc", args...).CombinedOutput()
	return string(out), err
}

// Our prototypes and constants are those of each release's headers, and each release's library has all symbols.
func TestBinding(t *testing.T) {
	for _, sysroot := range sysroots(t) {
		t.Run(filepath.Base(sysroot), func(t *testing.T) {
			include := filepath.Join(sysroot, "usr/include")
			out, err := bind(".", "HIP", include)
			require.NoError(t, err, "%s", out)
			for wrong, want := range map[[2]string]string{
				{"HIP_UNITS = 63", "HIP_UNITS = 64"}:                                                "HIP_UNITS is not hipDeviceAttributeMultiprocessorCount",
				{"HIP_ARCH_OFFSET = 396", "HIP_ARCH_OFFSET = 400"}:                                  "HIP_ARCH_OFFSET is not",
				{"gpu_address to, unsigned char value", "gpu_address to, int value"}:                "hipMemsetD8Async has another prototype",
				{"(*log_size)(rtc_program program, size_t", "(*log_size)(rtc_program program, int"}: "hiprtcGetProgramLogSize has another prototype",
			} {
				out, err := bind(altered(t, wrong[0], wrong[1]), "HIP", include)
				require.Error(t, err, "the check finds nothing wrong with %s", wrong[1])
				require.Contains(t, out, want)
			}
			exported := exports(t, filepath.Join(sysroot, libraries, "libamdhip64.so"))
			if compiler := compilerOf(t, sysroot); !strings.HasSuffix(compiler, "libamdhip64.so") {
				exported = append(exported, exports(t, compiler)...)
			}
			table, err := os.ReadFile("symbols.h")
			require.NoError(t, err)
			rows := regexp.MustCompile(`SYMBOL\(\S+, (hip\w+),`).FindAllStringSubmatch(string(table), -1)
			require.Greater(t, len(rows), 40)
			for _, row := range rows {
				require.Contains(t, exported, row[1])
			}
		})
	}
}

// altered is a copy of what bind compiles, with one text replaced.
func altered(t *testing.T, old, changed string) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "testdata"), 0o755))
	for _, file := range []string{"gpu.h", "symbols.h", "testdata/binding.c"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if file == "gpu.h" {
			require.Contains(t, string(text), old)
			text = bytes.Replace(text, []byte(old), []byte(changed), 1)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o644))
	}
	return dir
}

// compilerOf is the library with a release's compiler: the run time up to release 6.
func compilerOf(t *testing.T, sysroot string) string {
	runtime := filepath.Join(sysroot, libraries, "libamdhip64.so")
	if slices.Contains(exports(t, runtime), "hiprtcCompileProgram") {
		return runtime
	}
	return filepath.Join(sysroot, libraries, "libhiprtc.so")
}

func exports(t *testing.T, library string) []string {
	file, err := elf.Open(library)
	require.NoError(t, err)
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	require.NoError(t, err)
	var names []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	return names
}

// The real run time loads on a machine without a GPU, with its compiler, and tells why there is none.
func TestRealRuntime(t *testing.T) {
	if os.Getenv(insideVariable) != "" {
		insideSysroot(t)
		return
	}
	for _, sysroot := range sysroots(t) {
		t.Run(filepath.Base(sysroot), func(t *testing.T) {
			self, err := os.Executable()
			require.NoError(t, err)
			args := append(within(sysroot), self, "-test.run=^TestRealRuntime$", "-test.v")
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), insideVariable+"="+sysroot)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "PASS: TestRealRuntime")
		})
	}
}

func insideSysroot(t *testing.T) {
	folder := filepath.Join(os.Getenv(insideVariable), libraries)
	d, err := loadHIP(newMachine(t).gpu(t, amdVendor).host(), []string{"libamdhip64.so"})
	require.NoError(t, err)
	versions := d.Versions()
	require.Len(t, versions, 2, "%v", d.noRTC)
	for _, v := range versions {
		require.Equal(t, folder, filepath.Dir(v.Path), v.Name)
		require.Empty(t, v.Missing)
		t.Logf("%s %s in %s", v.Name, v.Version, filepath.Base(v.Path))
	}
	release := strings.Join(strings.SplitN(versions[0].Version, ".", 3)[:2], ".")
	header, err := os.ReadFile(filepath.Join(folder, "../../include/hip/hip_version.h"))
	require.NoError(t, err)
	major, minor, _ := strings.Cut(release, ".")
	require.Regexp(t, `HIP_VERSION_MAJOR +`+major+`\n`, string(header))
	require.Regexp(t, `HIP_VERSION_MINOR +`+minor+`\n`, string(header))

	_, err = d.Devices()
	var problem *Problem
	if !errors.As(err, &problem) {
		t.Skip("this machine has an AMD GPU")
	}
	require.Contains(t, problem.Reason, "there is no /dev/kfd")
	var status *Error
	require.ErrorAs(t, err, &status)
	require.Contains(t, []int{100, 101}, status.Code)
	require.NotEmpty(t, status.Text)
	t.Log(problem)
}

// AMD's own compilers, of each release, make code for every architecture that the release knows; one that it does not know
// and an instruction that the architecture lacks are errors, whatever the compiler does then.
func TestRealCompilers(t *testing.T) {
	targets := []string{"gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201"}
	for _, sysroot := range sysroots(t) {
		t.Run(filepath.Base(sysroot), func(t *testing.T) {
			c, err := OpenCompiler(compilerOf(t, sysroot), within(sysroot)...)
			require.NoError(t, err)
			require.Equal(t, "hiprtc", c.Name)
			known := targets
			if strings.HasPrefix(c.Version, "5.") {
				known = []string{"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151"}
			}
			started := time.Now()
			_, err = OpenCompiler(compilerOf(t, sysroot), within(sysroot)...)
			require.NoError(t, err)
			t.Logf("%s %s: a child that only loads it takes %v", c.Name, c.Version, time.Since(started))
			for _, arch := range append(targets, "gfx942:sramecc+:xnack-", "gfx4242") {
				base, _, _ := strings.Cut(arch, ":")
				out, err := c.Compile(Source{Name: "scale.hip", Text: scaleSource, Arch: arch, Options: []string{"-O3", "-std=c++17"}})
				if !slices.Contains(known, base) {
					var failed *CompileError
					require.ErrorAs(t, err, &failed, arch)
					require.Equal(t, arch, failed.Arch)
					continue
				}
				require.NoError(t, err)
				file, err := elf.NewFile(bytes.NewReader(out.Code))
				require.NoError(t, err)
				const amdgpu = 224
				require.EqualValues(t, amdgpu, file.Machine)
				require.Contains(t, string(out.Code), "amdgcn-amd-amdhsa--"+arch, "the metadata's target")
				require.Contains(t, string(out.Code), "scale.kd")
			}
			_, err = c.Compile(Source{Name: "broken.hip", Text: "int main(", Arch: "gfx90a"})
			require.ErrorContains(t, err, "broken.hip:1:")
			// Matrix instructions of RDNA 3, on RDNA 2.
			_, err = c.Compile(Source{Name: "wmma.hip", Arch: "gfx1030", Options: []string{"-O3"}, Text: `
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef float float8 __attribute__((ext_vector_type(8)));
extern "C" __device__ float8 intrinsic(half16, half16, float8) __asm("llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v16f16");
extern "C" __global__ void wmma(half16 *a, float8 *c) { c[0] = intrinsic(a[0], a[1], c[0]); }
`})
			var failed *CompileError
			require.ErrorAs(t, err, &failed)
			t.Log(failed.Reason, strings.SplitN(failed.Log, "\n", 2)[0])
		})
	}
}
