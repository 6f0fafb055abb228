package hip

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func stubCompiler(t *testing.T, shape string) *Compiler {
	t.Helper()
	c, err := OpenCompiler(stub(t, t.TempDir(), "librtc.so", shape, "-DRTC"))
	require.NoError(t, err)
	return c
}

// Nothing that a compiler does takes this process along: a crash, a hang, a quiet exit and an ordinary error are errors
// that tell which program, which architecture and what was printed.
func TestCompilerMisbehaves(t *testing.T) {
	for _, shape := range []string{"-DHIP", "-DCUDA"} {
		c := stubCompiler(t, shape)
		require.Equal(t, "9.0", c.Version)
		for arch, want := range map[string]string{
			"abort": "the compiler ended: signal: aborted",
			"hang":  "the compiler was stopped after 1s",
			"exit":  "the compiler gave no reply: EOF",
			"gfx1":  "CompileProgram: STUB_ERROR_COMPILATION (6)\nstub.hip:1:2: error: told so",
		} {
			c.timeout = compileTime
			if arch == "hang" {
				c.timeout = time.Second
			}
			_, err := c.Compile(Source{Name: "norm.hip", Text: "#error", Arch: arch})
			var failed *CompileError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, "norm.hip", failed.Program)
			require.Equal(t, arch, failed.Arch)
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "compiling norm.hip for "+arch+" with "+c.Name+" 9.0: ")
			if arch == "abort" {
				require.Contains(t, failed.Log, "LLVM ERROR: Cannot select: intrinsic")
			}
		}
	}
}

// Code comes from a process of its own, with the log; the library may print what it wants.
func TestCompile(t *testing.T) {
	c := stubCompiler(t, "-DHIP")
	out, err := c.Compile(Source{Name: "a.hip", Text: "#warning", Arch: "gfx942", Options: []string{"-O3", "-DN=1"}})
	require.NoError(t, err)
	require.Contains(t, string(out.Code), "for gfx942, 3 options: #warning")
	require.Equal(t, "stub.hip:1:2: warning: told so", out.Log)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			again, err := c.Compile(Source{Name: "a.hip", Text: "x", Arch: "gfx942"})
			if err != nil || bytes.Equal(again.Code, out.Code) {
				t.Error("not compiled in a process of its own", err)
			}
		})
	}
	wait.Wait()

	_, err = OpenCompiler(filepath.Join(t.TempDir(), "absent.so"))
	require.ErrorContains(t, err, "absent.so")
	_, err = OpenCompiler(stub(t, t.TempDir(), "libdriver.so", "-DHIP", "-DDRIVER"))
	require.ErrorContains(t, err, "lacks hiprtcVersion")
	_, err = OpenCompiler(c.Path, "/absent/ld.so")
	require.ErrorContains(t, err, "/absent/ld.so")
}

// A program that would not know its own child starts none.
func TestUnhooked(t *testing.T) {
	c := stubCompiler(t, "-DHIP")
	hooked.Store(false)
	defer hooked.Store(true)
	_, err := c.Compile(Source{Name: "a.hip", Arch: "gfx942"})
	require.ErrorContains(t, err, "does not call hip.RunChild")
}

// The cache returns what was compiled, for exactly that input, and never anything damaged.
func TestCache(t *testing.T) {
	c := stubCompiler(t, "-DHIP")
	c.Cache = &Cache{Dir: filepath.Join(t.TempDir(), "new"), Limit: 1 << 20}
	s := Source{Name: "a.hip", Text: "#warning", Arch: "gfx942", Options: []string{"-O3"}}
	first, err := c.Compile(s)
	require.NoError(t, err)
	require.False(t, first.Cached)
	second, err := c.Compile(s)
	require.NoError(t, err)
	require.Equal(t, Output{Code: first.Code, Log: first.Log, Cached: true}, second)

	for name, change := range map[string]func(s *Source){
		"text": func(s *Source) { s.Text += " " }, "name": func(s *Source) { s.Name = "b.hip" },
		"arch": func(s *Source) { s.Arch = "gfx950" }, "option": func(s *Source) { s.Options = []string{"-O2"} },
		"options": func(s *Source) { s.Options = []string{"-O", "3"} },
	} {
		other := s
		change(&other)
		out, err := c.Compile(other)
		require.NoError(t, err)
		require.False(t, out.Cached, name)
	}
	updated := *c
	updated.identity += "+"
	out, err := updated.Compile(s)
	require.NoError(t, err)
	require.False(t, out.Cached, "another compiler")

	file := c.Cache.file(cacheKey(c.identity, s))
	entry, err := os.ReadFile(file)
	require.NoError(t, err)
	for i := range entry {
		damaged := bytes.Clone(entry)
		damaged[i] ^= 0x10
		_, ok := parseEntry(damaged)
		require.False(t, ok, "byte %d", i)
		_, ok = parseEntry(entry[:i])
		require.False(t, ok, "%d bytes", i)
	}
	require.NoError(t, os.WriteFile(file, entry[:len(entry)-1], 0o600))
	out, err = c.Compile(s)
	require.NoError(t, err)
	require.False(t, out.Cached)
	require.NotEqual(t, first.Code, out.Code, "made again")
	out, err = c.Compile(s)
	require.NoError(t, err)
	require.True(t, out.Cached)
}

// The cache keeps within its limit, drops what was used longest ago, and never the newest.
func TestCacheLimit(t *testing.T) {
	c := &Cache{Dir: t.TempDir(), Limit: 3500}
	put := func(key string, bytes int) {
		require.NoError(t, c.put(key, Output{Code: make([]byte, bytes)}))
		past := time.Now().Add(-time.Hour) // all that is there is older than what comes
		listed, err := os.ReadDir(c.Dir)
		require.NoError(t, err)
		for _, e := range listed {
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) < time.Minute {
				require.NoError(t, os.Chtimes(filepath.Join(c.Dir, e.Name()), past, past))
			}
		}
	}
	has := func(key string) bool { _, err := os.Stat(c.file(key)); return err == nil }
	put("a", 1000)
	put("b", 1000)
	_, ok := c.get("a")
	require.True(t, ok)
	put("c", 1000)
	put("d", 1000)
	require.True(t, has("d"))
	require.Less(t, c.total(t), c.Limit)
	put("e", 4000)
	require.True(t, has("e"), "the newest stays")
	require.False(t, has("d"))

	left := filepath.Join(c.Dir, "writing-1")
	require.NoError(t, os.WriteFile(left, nil, 0o600))
	past := time.Now().Add(-2 * staleAfter)
	require.NoError(t, os.Chtimes(left, past, past))
	put("f", 10)
	require.NoFileExists(t, left)
}

func (c *Cache) total(t *testing.T) (bytes int64) {
	listed, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	for _, e := range listed {
		info, err := e.Info()
		require.NoError(t, err)
		bytes += info.Size()
	}
	return bytes
}

// A cache that cannot be written costs time, not the result, and says so.
func TestCacheUnwritable(t *testing.T) {
	c := stubCompiler(t, "-DHIP")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	c.Cache = &Cache{Dir: filepath.Join(file, "kernels"), Limit: 1 << 20}
	out, err := c.Compile(Source{Name: "a.hip", Text: "x", Arch: "gfx942"})
	require.NoError(t, err)
	require.NotEmpty(t, out.Code)
	require.True(t, strings.HasPrefix(out.Log, "hip: compiled code is not kept: "), out.Log)
}
