package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/hip"
)

// library compiles C code to a shared library and has the loader find it; compiled kernels stay out of the user's cache.
func library(t *testing.T, name, source string, flags ...string) {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{"-std=gnu11", "-shared", "-fPIC", "-w", source, "-o", filepath.Join(dir, name)}, flags...)
	out, err := exec.Command("gcc", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Setenv("LD_LIBRARY_PATH", dir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

// stub is a HIP library without a GPU: it lists some, and fails the self-test of each.
func stub(t *testing.T, flags ...string) {
	library(t, "libamdhip64.so.6", "../../hip/testdata/stub.c", append([]string{"-DHIP", "-DDRIVER", "-DRTC"}, flags...)...)
}

// failing is a HIP library that does what the body says when it is loaded.
func failing(t *testing.T, body string) {
	source := filepath.Join(t.TempDir(), "failing.c")
	text := "#include <stdlib.h>\n__attribute__((constructor)) static void begin(void) { " + body + " }\n"
	require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
	library(t, "libamdhip64.so.6", source)
}

func deviceList(t *testing.T) map[string]deviceJSON {
	t.Helper()
	r := voxtral(t, "devices", "--json")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Empty(t, r.stderr)
	var list []deviceJSON
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &list))
	byName := map[string]deviceJSON{}
	for _, d := range list {
		byName[d.Name] = d
		require.Equal(t, d.Usable, d.Reason == "", d.Name)
	}
	require.Len(t, byName, len(list))
	require.True(t, byName["cpu"].Usable)
	require.Positive(t, byName["cpu"].Threads)
	return byName
}

// The CPU is always there. A driver that nothing can be done about is mentioned on demand.
func TestDevices(t *testing.T) {
	deviceList(t)
	brief, all := voxtral(t, "devices"), voxtral(t, "devices", "-v")
	for _, r := range []result{brief, all} {
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Regexp(t, `^cpu +\S.*threads: \d+\n`, r.stdout)
	}
	for _, driver := range []string{"hip", "cuda"} {
		require.Contains(t, all.stdout, driver)
	}
}

// GPUs are listed with what there is to know of them, and unusable ones with the reason and the fix.
func TestDevicesOfStub(t *testing.T) {
	stub(t, "-DCOUNT=2")
	gpu := deviceList(t)["hip:1"]
	require.Equal(t, deviceJSON{
		Name: "hip:1", Detail: "Stub GPU 1", Usable: true, Arch: "gfx942:sramecc+:xnack-", WaveSize: 64, Units: 304, MemoryBytes: 1<<20 + 1, Libraries: gpu.Libraries,
	}, gpu)
	require.Equal(t, []string{"HIP 6.4.43484", "hiprtc"}, []string{gpu.Libraries[0].Name + " " + gpu.Libraries[0].Version, gpu.Libraries[1].Name})
	text := voxtral(t, "devices").stdout
	require.Regexp(t, `hip:0 +Stub GPU 0, gfx942:sramecc\+:xnack-, waves of 64, 304 units, 0\.0 GiB; HIP 6\.4\.43484, hiprtc \S+\n`, text)
	require.Contains(t, voxtral(t, "devices", "-v").stdout, "libamdhip64.so.6")

	stub(t, `-DARCH="gfx906"`)
	gpu = deviceList(t)["hip:0"]
	require.Contains(t, gpu.Reason, "no kernels for its architecture gfx906")
	require.Contains(t, gpu.Fix, "use the CPU, or one of gfx90a")
	text = voxtral(t, "devices").stdout
	require.Contains(t, text, "not usable: there are no kernels for its architecture gfx906\n")
	require.Contains(t, text, "fix: use the CPU, or one of gfx90a")
}

// A library that is damaged, crashes or ends the process is a reason; text comes from the CPU all the same.
func TestBrokenLibraries(t *testing.T) {
	want := voxtral(t, "transcribe", "-q", "--device", "cpu", hello).stdout
	for body, reason := range map[string]string{"": "lacks hip", "abort();": "signal: aborted", "*(volatile int *)8 = 1;": "signal: segmentation fault", "_Exit(0);": "gave no reply"} {
		failing(t, body)
		require.Contains(t, deviceList(t)["hip"].Reason, reason)
		require.Contains(t, voxtral(t, "devices").stdout, "fix: install")
		r := voxtral(t, "transcribe", "--device", "hip", hello)
		require.Equal(t, exitFailed, r.code)
		require.Empty(t, r.stdout)
		require.Contains(t, r.stderr, "--device hip: there is no such GPU: HIP: ")
		require.Contains(t, r.stderr, reason)
		r = voxtral(t, "transcribe", "-q", hello)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Equal(t, want, r.stdout)
	}
}

// A GPU that fails its self-test is refused: by name that is an error, with auto the CPU takes over and says why.
func TestRefusedGPU(t *testing.T) {
	if usableGPU(t) != "" {
		t.Skip("this machine has a usable GPU, which auto takes before it falls back to the CPU")
	}
	want := voxtral(t, "transcribe", "-q", "--device", "cpu", hello).stdout
	stub(t)
	for _, name := range []string{"gpu", "gpu:0", "hip", "hip:0"} {
		for _, command := range []string{"transcribe", "bench"} {
			r := voxtral(t, command, "--device", name, hello)
			require.Equal(t, exitFailed, r.code)
			require.Empty(t, r.stdout, "never text")
			require.Contains(t, r.stderr, "voxtral: --device "+name+": Stub GPU 0 fails its self-test and is not used: ")
		}
	}
	r := voxtral(t, "transcribe", "-v", hello)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, want, r.stdout)
	require.Equal(t, 1, strings.Count(r.stderr, "is not used"))
	require.Contains(t, r.stderr, "voxtral: warning: the CPU is used: hip:0: Stub GPU 0 fails its self-test and is not used: ")
	require.Contains(t, r.stderr, "voxtral: device cpu: ")
	require.Contains(t, r.stderr, "voxtral: attention auto: standard\n")
	r = voxtral(t, "transcribe", "--sdpa", "splitk", hello)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "fails its self-test")
	r = voxtral(t, "transcribe", "--device", "hip:1", hello)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "--device hip:1: there is no such GPU: there are hip:0\n")

	stub(t, `-DARCH="gfx906"`)
	r = voxtral(t, "transcribe", "--device", "hip", hello)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "--device hip: hip:0 (Stub GPU 0, gfx906) cannot be used: there are no kernels for its architecture gfx906: use the CPU, or one of")
	r = voxtral(t, "transcribe", hello)
	require.Equal(t, want, r.stdout)
	require.Contains(t, r.stderr, "warning: the CPU is used: hip:0 (Stub GPU 0, gfx906) cannot be used")

	t.Setenv("LD_LIBRARY_PATH", "")
	r = voxtral(t, "transcribe", hello)
	require.Equal(t, want, r.stdout)
	require.NotContains(t, r.stderr, "the CPU is used", "there is no GPU to speak of")
}

// The child's variable alone, left in a shell, changes nothing.
func TestNoChildByAccident(t *testing.T) {
	t.Setenv("VOXTRAL_HIP_CHILD", "1")
	r := voxtral(t, "version")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.stdout, "voxtral ")
	require.Contains(t, voxtral(t).stdout, "Usage:", "without arguments too")
	deviceList(t)
}

// A name is one GPU, or the first usable one of a kind.
func TestNamed(t *testing.T) {
	backends := []hip.Backend{
		{Driver: "hip", GPUs: []hip.GPU{{Index: 0, Name: "old", Arch: "gfx906", Reason: "no kernels", Fix: "use another"}, {Index: 1, Name: "new", Usable: true}}},
		{Driver: "cuda", GPUs: []hip.GPU{{Index: 0, Name: "third", Usable: true}}},
	}
	for name, want := range map[string]string{"gpu": "new", "gpu:1": "new", "gpu:2": "third", "hip": "new", "hip:1": "new", "cuda": "third", "cuda:0": "third"} {
		g, err := named(name, backends)
		require.NoError(t, err)
		require.Equal(t, want, g.gpu.Name, name)
	}
	for name, want := range map[string]string{
		"gpu:0": "hip:0 (old, gfx906) cannot be used: no kernels: use another", "hip:0": "no kernels",
		"hip:2": "there are hip:0, hip:1", "cuda:1": "there are cuda:0", "gpu:3": "there are hip:0, hip:1, cuda:0",
	} {
		_, err := named(name, backends)
		require.ErrorContains(t, err, want, name)
	}
	_, err := named("cuda", []hip.Backend{{Driver: "hip"}, {Driver: "cuda", Reason: "no driver", Fix: "install it"}})
	require.EqualError(t, err, "there is no such GPU: CUDA: no driver: install it")
}
