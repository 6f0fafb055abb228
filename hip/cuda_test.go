package hip

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// cudaInclude names folders with cuda.h and nvrtc.h, where they are not at their usual place.
const cudaInclude = "VOXTRAL_CUDA_INCLUDE"

// nvrtcVariable names a libnvrtc file, where it is not at its usual place.
const nvrtcVariable = "VOXTRAL_NVRTC"

// Our prototypes and constants are those of CUDA's headers. They are not free to install, so the gate does without them.
func TestBindingCUDA(t *testing.T) {
	include := filepath.SplitList(os.Getenv(cudaInclude))
	if len(include) == 0 {
		include = []string{"/usr/local/cuda/include"}
		if _, err := os.Stat(filepath.Join(include[0], "cuda.h")); err != nil {
			t.Skipf("no CUDA headers here; %s names their folders", cudaInclude)
		}
	}
	out, err := bind(".", "CUDA", include...)
	require.NoError(t, err, "%s", out)
	out, err = bind(altered(t, "CUDA_ARGUMENTS_END = 0", "CUDA_ARGUMENTS_END = 3"), "CUDA", include...)
	require.Error(t, err)
	require.Contains(t, out, "CUDA_ARGUMENTS_END is not")
}

// NVIDIA's own compiler makes code for the architectures that the kernels are written for, and an unknown one is an error.
func TestRealNVRTC(t *testing.T) {
	files := []string{os.Getenv(nvrtcVariable)}
	if files[0] == "" {
		files = candidates(nvrtcNames("20.0"), nvidiaFolders(thisHost()))
	}
	c, err := findCompiler("NVRTC", "", files)
	var missing *LoadError
	if errors.As(err, &missing) && os.Getenv(nvrtcVariable) == "" {
		t.Skipf("no NVRTC here; %s names its file", nvrtcVariable)
	}
	require.NoError(t, err)
	c.Cache = nil
	t.Logf("%s %s", c.Name, c.Version)
	for _, arch := range []string{"sm_80", "sm_86", "sm_89", "sm_90"} {
		out, err := c.Compile(Source{Name: "scale.hip", Text: scaleSource, Arch: arch, Options: []string{"-std=c++17"}})
		require.NoError(t, err)
		require.Equal(t, "\x7fELF", string(out.Code[:4]), "machine code, not PTX")
		require.Contains(t, string(out.Code), ".text.scale")
	}
	for _, s := range []Source{{Name: "scale.hip", Text: scaleSource, Arch: "sm_4242"}, {Name: "broken.hip", Text: "int main(", Arch: "sm_90"}} {
		_, err = c.Compile(s)
		var failed *CompileError
		require.ErrorAs(t, err, &failed)
		t.Log(err)
	}
}

// gpus opens every usable GPU of this machine in turn. The gate's machine has none.
func gpus(t *testing.T, test func(t *testing.T, x Context)) {
	var reasons []string
	tested := false
	for name, load := range map[string]func() (Driver, error){"hip": LoadHIP, "cuda": LoadCUDA} {
		d, err := load()
		if err != nil {
			reasons = append(reasons, err.Error())
			continue
		}
		list, err := d.Devices()
		if err != nil {
			reasons = append(reasons, err.Error())
			continue
		}
		for _, gpu := range list {
			if !gpu.Usable {
				reasons = append(reasons, gpu.Name+": "+gpu.Reason)
				continue
			}
			tested = true
			t.Run(name, func(t *testing.T) {
				t.Logf("%+v %+v", gpu, d.Versions())
				x, err := d.Open(gpu.Index)
				require.NoError(t, err)
				test(t, x)
			})
		}
	}
	if !tested {
		t.Skip(reasons)
	}
}

// A real GPU keeps a context's contract, the one that the stubs keep too.
func TestGPU(t *testing.T) {
	gpus(t, func(t *testing.T, x Context) {
		exercise(t, x)
		require.NoError(t, x.Close())
	})
}

// What is wrong with a kernel is an error with the compiler's words.
func TestGPUCompileError(t *testing.T) {
	gpus(t, func(t *testing.T, x Context) {
		_, _, err := x.Compile("broken.hip", "int main(", nil)
		var failed *CompileError
		require.ErrorAs(t, err, &failed)
		require.ErrorContains(t, err, "broken.hip")
		_, err = x.Load([]byte("no code at all, but long enough to be read as a header of some kind, sixty-four bytes"))
		require.Error(t, err)
		require.NoError(t, x.Close())
	})
}
