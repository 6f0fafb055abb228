package hip

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"voxtral/internal/amdisa"
)

// emulatedRelease is the HIP release whose compiler makes the emulated GPUs' code: the oldest that knows all of them.
const emulatedRelease = "6.4"

// emulatedDriver has one AMD GPU, whose machine code runs on the CPU.
type emulatedDriver struct {
	gpu     GPU
	compile func(Source) (Output, error)
	// watch, if not nil, is told of every kernel that has run.
	watch func(kernel string, stats amdisa.Stats)
}

// newEmulatedDriver compiles with AMD's own compiler in a child process, as a HIP driver does, or with clang where no
// release of HIP is unpacked. Compiled code is cached for the length of the test.
func newEmulatedDriver(t *testing.T, arch string) *emulatedDriver {
	t.Helper()
	d := &emulatedDriver{gpu: GPU{
		Name: "Emulated " + arch, Arch: arch, WaveSize: 32, Units: 3, ThreadsPerUnit: 1024, MemoryBytes: 1 << 30, LDSBytes: 64 << 10, Usable: true,
	}}
	if strings.HasPrefix(arch, "gfx9") {
		d.gpu.WaveSize = 64
	}
	if os.Getenv(sysrootsVariable) == "" && os.Getenv("VOXTRAL_CI") != "1" {
		if arch == "gfx950" {
			t.Skipf("clang-19 does not know %s; %s names releases of HIP that do", arch, sysrootsVariable)
		}
		d.compile = func(s Source) (Output, error) { return clang(t.TempDir(), s) }
		return d
	}
	roots := sysroots(t)
	root := roots[slices.IndexFunc(roots, func(dir string) bool { return filepath.Base(dir) == emulatedRelease })]
	c, err := OpenCompiler(compilerOf(t, root), within(root)...)
	if err != nil {
		t.Fatal(err)
	}
	c.Cache = &Cache{Dir: t.TempDir(), Limit: CacheBytes}
	d.compile = c.Compile
	return d
}

const clangTool = "clang++-19"

// clang compiles as hiprtc does, with Debian's compiler, which needs no run time.
func clang(dir string, s Source) (out Output, err error) {
	source, object := filepath.Join(dir, "kernel.hip"), filepath.Join(dir, "kernel.o")
	if err := os.WriteFile(source, []byte(s.Text), 0o600); err != nil {
		return out, err
	}
	args := append([]string{"-x", "hip", "-nogpuinc", "-nogpulib", "--offload-device-only", "--no-gpu-bundle-output", "-O3", "-Wall", "-Wextra", "-Werror",
		"--offload-arch=" + s.Arch, source, "-o", object}, s.Options...)
	if log, err := exec.Command(clangTool, args...).CombinedOutput(); err != nil {
		return out, &CompileError{Program: s.Name, Arch: s.Arch, Compiler: "clang-19", Reason: err.Error(), Log: string(log)}
	}
	out.Code, err = os.ReadFile(object)
	return out, err
}

func (d *emulatedDriver) Name() string { return "hip" }
func (d *emulatedDriver) Versions() []LibraryVersion {
	return []LibraryVersion{{Name: "emulator", Version: "1"}}
}
func (d *emulatedDriver) Devices() ([]GPU, error) { return []GPU{d.gpu}, nil }
func (d *emulatedDriver) Open(int) (Context, error) {
	m := amdisa.NewMachine()
	m.CheckRaces = true
	return &emulatedContext{d: d, m: m, memory: map[Ptr]int64{}, pinned: map[*Pinned]bool{}}, nil
}

// emulatedContext is a Context whose calls have done their work when they return. What a GPU would not forgive is an error: a
// leak, a foreign pointer, a call that a capture does not take. A kernel's fault stays, as a GPU's does.
type emulatedContext struct {
	d       *emulatedDriver
	m       *amdisa.Machine
	memory  map[Ptr]int64
	pinned  map[*Pinned]bool
	capture *emulatedGraph // being recorded
	lost    error
	closed  bool
}

func (x *emulatedContext) GPU() GPU { return x.d.gpu }

// ready says why a call cannot be made now; nowhere near a capture unless it only queues.
func (x *emulatedContext) ready(queues bool) error {
	switch {
	case x.closed:
		return errClosed
	case x.lost != nil:
		return x.lost
	case x.capture != nil && !queues:
		return errors.New("hip: a call that waits, within a capture")
	}
	return nil
}

// queue does work now, or records it.
func (x *emulatedContext) queue(work func() error) error {
	if err := x.ready(true); err != nil {
		return err
	}
	if x.capture != nil {
		x.capture.work = append(x.capture.work, work)
		return nil
	}
	x.lost = work()
	return x.lost
}

// Malloc fills memory with NaNs, for nobody may rely on zeros.
func (x *emulatedContext) Malloc(size int64) (Ptr, error) {
	if err := x.ready(false); err != nil {
		return 0, err
	}
	if size <= 0 {
		return 0, fmt.Errorf("hip: allocating %d bytes", size)
	}
	p := Ptr(x.m.Alloc(fmt.Sprintf("allocation %d", len(x.memory)), int(size)))
	x.memory[p] = size
	return p, x.fill(p, 0xff, size)
}

func (x *emulatedContext) Free(p Ptr) error {
	if err := x.ready(false); err != nil {
		return err
	}
	if x.memory[p] == 0 {
		return fmt.Errorf("hip: freeing %#x, which is no live allocation", uint64(p))
	}
	delete(x.memory, p)
	x.m.Free(uint64(p))
	return nil
}

func (x *emulatedContext) MemInfo() (free, total int64, err error) {
	free = x.d.gpu.MemoryBytes
	for _, size := range x.memory {
		free -= size
	}
	return free, x.d.gpu.MemoryBytes, x.ready(false)
}

func (x *emulatedContext) HostAlloc(size int) (*Pinned, error) {
	if err := x.ready(false); err != nil {
		return nil, err
	}
	at := x.m.Alloc("pinned", size)
	view, err := x.m.View(at, size)
	p := &Pinned{Bytes: view, Ptr: Ptr(at)}
	x.pinned[p] = true
	return p, err
}

func (x *emulatedContext) HostFree(p *Pinned) error {
	if err := x.ready(false); err != nil {
		return err
	}
	if !x.pinned[p] {
		return errForeign
	}
	delete(x.pinned, p)
	x.m.Free(uint64(p.Ptr))
	return nil
}

func (x *emulatedContext) CopyIn(dst Ptr, src []byte) error {
	if err := x.ready(false); err != nil {
		return err
	}
	return x.m.Write(uint64(dst), src)
}

func (x *emulatedContext) CopyOut(dst []byte, src Ptr) error {
	if err := x.ready(false); err != nil {
		return err
	}
	return x.m.Read(uint64(src), dst)
}

func (x *emulatedContext) Copy(dst, src Ptr, size int64) error {
	return x.queue(func() error {
		from, err := x.m.View(uint64(src), int(size))
		if err != nil {
			return err
		}
		return x.m.Write(uint64(dst), from)
	})
}

func (x *emulatedContext) Memset(dst Ptr, v byte, size int64) error {
	return x.queue(func() error { return x.fill(dst, v, size) })
}

func (x *emulatedContext) fill(dst Ptr, v byte, size int64) error {
	return x.m.Write(uint64(dst), bytes.Repeat([]byte{v}, int(size)))
}

func (x *emulatedContext) Compile(name, source string, options []string) ([]byte, string, error) {
	out, err := x.d.compile(Source{Name: name, Text: source, Arch: x.d.gpu.Arch, Options: options})
	return out.Code, out.Log, err
}

// emulatedModule is loaded machine code.
type emulatedModule struct{ p *amdisa.Program }

func (x *emulatedContext) Load(code []byte) (Module, error) {
	if err := x.ready(false); err != nil {
		return nil, err
	}
	p, err := amdisa.Load("module", code)
	return emulatedModule{p}, err
}

func (emulatedModule) Unload() error { return nil }

func (m emulatedModule) Function(name string) (Function, error) {
	k := m.p.Kernels[name]
	if k == nil {
		return nil, fmt.Errorf("hip: no kernel %s", name)
	}
	return emulatedFunction{m.p, k}, nil
}

type emulatedFunction struct {
	p *amdisa.Program
	k *amdisa.Kernel
}

func (f emulatedFunction) Name() string { return f.k.Name }
func (f emulatedFunction) Resources() Resources {
	return Resources{MaxThreads: f.k.MaxThreads, Registers: f.k.VGPRs, SharedBytes: f.k.LDSBytes, ScratchBytes: f.k.ScratchBytes}
}
func (f emulatedFunction) BlocksPerUnit(int, int) (int, error) { return 2, nil }

func (x *emulatedContext) Launch(f Function, grid, block [3]int, lds int, args []byte) error {
	return x.launch(x.m.Launch, f, grid, block, lds, args)
}

func (x *emulatedContext) LaunchTogether(f Function, grid, block [3]int, lds int, args []byte) error {
	if blocks := grid[0] * grid[1] * grid[2]; blocks > 2*x.d.gpu.Units {
		return fmt.Errorf("hip: a grid of %d blocks: %d run at once", blocks, 2*x.d.gpu.Units)
	}
	return x.launch(x.m.LaunchTogether, f, grid, block, lds, args)
}

type emulatedLaunch func(p *amdisa.Program, kernel string, grid, block [3]int, lds int, args []byte) (amdisa.Stats, error)

func (x *emulatedContext) launch(start emulatedLaunch, f Function, grid, block [3]int, lds int, args []byte) error {
	k, args := f.(emulatedFunction), slices.Clone(args)
	return x.queue(func() error {
		stats, err := start(k.p, k.k.Name, grid, block, lds, args)
		if err == nil && x.d.watch != nil {
			x.d.watch(k.k.Name, stats)
		}
		return err
	})
}

func (x *emulatedContext) Sync() error { return x.ready(false) }

// emulatedGraph is recorded work.
type emulatedGraph struct {
	x    *emulatedContext
	work []func() error
}

func (x *emulatedContext) BeginCapture() error {
	if err := x.ready(false); err != nil {
		return err
	}
	x.capture = &emulatedGraph{x: x}
	return nil
}

func (x *emulatedContext) EndCapture() (Graph, error) {
	g := x.capture
	x.capture = nil
	if g == nil {
		return nil, errors.New("hip: nothing is being captured")
	}
	return g, x.ready(false)
}

func (g *emulatedGraph) Nodes() int   { return len(g.work) }
func (g *emulatedGraph) Close() error { return nil }

func (g *emulatedGraph) Launch() error {
	for _, work := range g.work {
		if err := g.x.queue(work); err != nil {
			return err
		}
	}
	return nil
}

type emulatedEvent struct {
	x  *emulatedContext
	at time.Time
}

func (x *emulatedContext) NewEvent() (Event, error) { return &emulatedEvent{x: x}, x.ready(false) }
func (e *emulatedEvent) Record() error {
	return e.x.queue(func() error {
		e.at = time.Now()
		return nil
	})
}
func (e *emulatedEvent) Close() error { return nil }
func (e *emulatedEvent) Since(start Event) (time.Duration, error) {
	return e.at.Sub(start.(*emulatedEvent).at), nil
}

func (x *emulatedContext) Close() error {
	if x.closed {
		return errClosed
	}
	x.closed = true
	return nil
}
