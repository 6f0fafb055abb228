package hip

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// broken compiles a HIP library whose loading does what the body says.
func broken(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "broken.c")
	text := "#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static void begin(void) { " + body + " }\n"
	require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
	out, err := exec.Command("gcc", "-shared", "-fPIC", source, "-o", filepath.Join(dir, "libamdhip64.so.6")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// A library that crashes, hangs or lacks everything is a reason, not the end of the program.
func TestReportOfBrokenLibraries(t *testing.T) {
	for body, c := range map[string]struct {
		timeout     time.Duration
		reason, fix string
	}{
		"abort();":                {time.Minute, "fail as they start: its process ended: signal: aborted", "install kernel driver and run time"},
		"*(volatile int *)8 = 1;": {time.Minute, "signal: segmentation fault", "install kernel driver and run time"},
		"for (;;) pause();":       {time.Second, "was stopped after 1s", "install kernel driver and run time"},
		"_exit(0);":               {time.Minute, "gave no reply", "install kernel driver and run time"},
		"":                        {time.Minute, "lacks hip", "install the run time again"},
	} {
		t.Setenv("LD_LIBRARY_PATH", broken(t, body))
		b := reportOf("hip", amdVendor, c.timeout)
		require.Empty(t, b.GPUs)
		require.Contains(t, b.Reason, c.reason, body)
		require.Contains(t, b.Fix, c.fix, body)
		require.NotContains(t, b.Reason, "goroutine")
	}
}

// What a library has to say comes out of the child as it went in.
func TestReportThroughChild(t *testing.T) {
	dir := t.TempDir()
	stub(t, dir, "libamdhip64.so.6", "-DHIP", "-DDRIVER", "-DRTC", "-DCOUNT=2")
	t.Setenv("LD_LIBRARY_PATH", dir)
	b := reportOf("hip", amdVendor, time.Minute)
	require.Empty(t, b.Reason)
	require.True(t, b.Present)
	require.Len(t, b.GPUs, 2)
	require.Equal(t, "Stub GPU 1", b.GPUs[1].Name)
	require.True(t, b.GPUs[1].Usable, b.GPUs[1].Reason)
	require.Len(t, b.Libraries, 2)
	_, err := Load("opencl")
	require.ErrorContains(t, err, "use hip or cuda")
}

// The variable alone makes no child of a program: one has no arguments and a pipe to reply on.
func TestNoChildByAccident(t *testing.T) {
	t.Setenv(childVariable, "1")
	require.False(t, RunChild(), "this test has arguments")
	self, err := os.Executable()
	require.NoError(t, err)
	out, err := exec.Command(self, "-test.run=^$").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "child")
}
