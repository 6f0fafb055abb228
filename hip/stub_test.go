package hip

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// stub compiles testdata/stub.c into dir/file with the given shape.
func stub(t *testing.T, dir, file string, flags ...string) string {
	t.Helper()
	path := filepath.Join(dir, file)
	args := append([]string{"-std=gnu11", "-g", "-shared", "-fPIC", "-w", "testdata/stub.c", "-o", path}, flags...)
	out, err := exec.Command("gcc", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// machine is a host whose files the test lays out; nothing is denied unless named.
type machine struct {
	root   string
	env    map[string]string
	denied string
}

func newMachine(t *testing.T) *machine { return &machine{root: t.TempDir(), env: map[string]string{}} }

func (m *machine) file(t *testing.T, path, text string) *machine {
	t.Helper()
	full := filepath.Join(m.root, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
	return m
}

// gpu puts a display device on the bus.
func (m *machine) gpu(t *testing.T, vendor string) *machine {
	return m.file(t, "sys/bus/pci/devices/0000:03:00.0/vendor", vendor+"\n").file(t, "sys/bus/pci/devices/0000:03:00.0/class", "0x038000\n")
}

func (m *machine) host() host {
	return host{root: m.root, getenv: func(name string) string { return m.env[name] }, access: func(path string) error {
		if m.denied != "" && path == filepath.Join(m.root, m.denied) {
			return fs.ErrPermission
		}
		return nil
	}}
}

// stubDrivers are a HIP and a CUDA driver over stubs, with their compilers and a cache of their own.
func stubDrivers(t *testing.T) map[string]*native {
	t.Helper()
	dir, m := t.TempDir(), newMachine(t)
	hip, err := loadHIP(m.host(), []string{stub(t, dir, "libamdhip64.so.6", "-DHIP", "-DDRIVER", "-DRTC", "-DCOUNT=2")})
	require.NoError(t, err)
	stub(t, dir, "libnvrtc.so.13", "-DCUDA", "-DRTC")
	cuda, err := loadCUDA(m.host(), []string{stub(t, dir, "libcuda.so.1", "-DCUDA", "-DDRIVER", "-DVERSION=13000", "-DCOUNT=2")}, dir)
	require.NoError(t, err)
	drivers := map[string]*native{"hip": hip, "cuda": cuda}
	for _, d := range drivers {
		require.NotNil(t, d.compiler)
		d.compiler.Cache = &Cache{Dir: t.TempDir(), Limit: 1 << 20}
	}
	return drivers
}
