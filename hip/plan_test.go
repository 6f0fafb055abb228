package hip

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"voxtral/internal/device"
	"voxtral/models"
	"voxtral/runtime"
	"voxtral/sdpa"
)

// paperDriver has one GPU that computes nothing: it knows what was allocated and launched.
type paperDriver struct {
	name  string
	gpu   GPU
	room  int64  // bytes
	fault string // a kernel whose launch is the GPU's end
}

func (d *paperDriver) Name() string { return d.name }
func (d *paperDriver) Versions() []LibraryVersion {
	return []LibraryVersion{{Name: "paper", Version: "1"}}
}
func (d *paperDriver) Devices() ([]GPU, error) { return []GPU{d.gpu}, nil }
func (d *paperDriver) Open(index int) (Context, error) {
	return &paperContext{d: d, memory: map[Ptr]int64{}, pinned: map[*Pinned]bool{}}, nil
}

type paperContext struct {
	d        *paperDriver
	next     Ptr
	memory   map[Ptr]int64
	pinned   map[*Pinned]bool
	used     int64
	launches []string
	lost     error
}

func (x *paperContext) GPU() GPU { return x.d.gpu }

func (x *paperContext) Malloc(bytes int64) (Ptr, error) {
	if x.used+bytes > x.d.room {
		return 0, &OutOfMemory{Device: x.d.gpu.Name, Need: bytes, Free: x.d.room - x.used, Total: x.d.room}
	}
	x.next += Ptr(1 << 32)
	x.memory[x.next] = bytes
	x.used += bytes
	return x.next, nil
}

func (x *paperContext) Free(p Ptr) error {
	x.used -= x.memory[p]
	delete(x.memory, p)
	return nil
}

func (x *paperContext) MemInfo() (free, total int64, err error) {
	return x.d.room - x.used, x.d.room, nil
}

func (x *paperContext) HostAlloc(bytes int) (*Pinned, error) {
	x.next += Ptr(1 << 32)
	p := &Pinned{Bytes: make([]byte, bytes), Ptr: x.next}
	x.pinned[p] = true
	return p, nil
}

func (x *paperContext) HostFree(p *Pinned) error {
	delete(x.pinned, p)
	return nil
}

func (x *paperContext) CopyIn(Ptr, []byte) error      { return x.lost }
func (x *paperContext) CopyOut([]byte, Ptr) error     { return x.lost }
func (x *paperContext) Copy(_, _ Ptr, _ int64) error  { return x.lost }
func (x *paperContext) Memset(Ptr, byte, int64) error { return x.lost }
func (x *paperContext) Load([]byte) (Module, error)   { return paperModule{}, nil }
func (x *paperContext) BeginCapture() error           { return ErrNoGraphs }
func (x *paperContext) EndCapture() (Graph, error)    { return nil, ErrNoGraphs }
func (x *paperContext) NewEvent() (Event, error)      { return paperEvent{}, nil }
func (x *paperContext) Sync() error                   { return x.lost }
func (x *paperContext) Close() error                  { return nil }

func (x *paperContext) Compile(name, _ string, _ []string) ([]byte, string, error) {
	return []byte(name), "", nil
}

func (x *paperContext) Launch(f Function, _, _ [3]int, _ int, _ []byte) error {
	x.launches = append(x.launches, f.Name())
	if f.Name() == x.d.fault {
		x.lost = &Error{Call: "paperSync", Code: 719, Name: "PAPER_FAULT", Text: "unspecified launch failure"}
	}
	return x.lost
}

type paperModule struct{}

func (x *paperContext) LaunchTogether(f Function, grid, block [3]int, lds int, args []byte) error {
	return x.Launch(f, grid, block, lds, args)
}

func (paperModule) Function(name string) (Function, error) { return paperFunction(name), nil }
func (paperModule) Unload() error                          { return nil }

type paperFunction string

func (f paperFunction) Name() string                      { return string(f) }
func (paperFunction) Resources() Resources                { return Resources{} }
func (paperFunction) BlocksPerUnit(int, int) (int, error) { return 2, nil }

type paperEvent struct{}

func (paperEvent) Record() error                      { return nil }
func (paperEvent) Since(Event) (time.Duration, error) { return time.Millisecond, nil }
func (paperEvent) Close() error                       { return nil }

func paper(name string) *paperDriver {
	d := &paperDriver{name: name, room: 8 << 30, gpu: GPU{Name: "Paper GPU", Arch: "gfx942", WaveSize: 64, Units: 304, Usable: true}}
	if name == "cuda" {
		d.gpu.Arch, d.gpu.WaveSize, d.gpu.Units = "sm_90", 32, 132
	}
	return d
}

// unproved opens a GPU without its self-test, which one of paper fails.
func unproved(t *testing.T, d *paperDriver, choice SDPA) (*Device, *paperContext) {
	t.Helper()
	x, err := d.Open(0)
	require.NoError(t, err)
	return &Device{driver: d, gpu: d.gpu, sdpa: choice, x: x, modules: map[string]Module{}}, x.(*paperContext)
}

// attentionLaunches compiles a program of one attention op and returns what it would launch: kernels with their grids.
func attentionLaunches(t *testing.T, d *Device, s sdpa.Spec, rows int) []string {
	t.Helper()
	p := &device.Program{Name: "attention"}
	set := p.NewRows("rows", rows, s.HeadDim)
	k, err := d.Alloc(2*s.RingCap(rows)*s.KVDim(), device.State)
	require.NoError(t, err)
	v, err := d.Alloc(2*s.RingCap(rows)*s.KVDim(), device.State)
	require.NoError(t, err)
	p.Add(&device.Attention{
		Name: "attention", Rows: set, Spec: s, Y: p.NewScratch("y", rows, s.QDim()), QKV: p.NewScratch("qkv", rows, s.QKVDim()),
		K: p.BindRing("k", k, 1, s.RingCap(rows), s.KVDim(), true), V: p.BindRing("v", v, 1, s.RingCap(rows), s.KVDim(), true),
	})
	compiled, err := d.Compile(p)
	require.NoError(t, err)
	e := compiled.(*execution)
	var list []string
	for _, l := range e.fused {
		list = append(list, fmt.Sprint(l.f.Name(), l.grid))
	}
	require.Len(t, e.plain, 1)
	for i, l := range e.plain[0] {
		require.Equal(t, list[i], fmt.Sprint(l.f.Name(), l.grid), "watched and unwatched runs take the same kernels")
	}
	require.NoError(t, e.Close())
	k.Free()
	v.Free()
	return list
}

var (
	decoderShape = sdpa.Spec{QHeads: 32, KVHeads: 8, HeadDim: 128, Window: 8192}
	encoderShape = sdpa.Spec{QHeads: 32, KVHeads: 32, HeadDim: 64, Window: 750}
)

// Auto is standard on AMD whatever the shape, split-K on NVIDIA over long windows; an explicit choice holds everywhere.
func TestAttentionPolicy(t *testing.T) {
	for _, c := range []struct {
		driver  string
		choice  SDPA
		shape   sdpa.Spec
		kernels []string // for 3 rows
		said    string
	}{
		{"hip", SDPAAuto, decoderShape, []string{"attention[8 3 1]"}, "32 heads of 128 over 8192 keys: standard"},
		{"hip", SDPAAuto, encoderShape, []string{"attention[32 3 1]"}, "32 heads of 64 over 750 keys: standard"},
		{"hip", SDPAStandard, decoderShape, []string{"attention[8 3 1]"}, "32 heads of 128 over 8192 keys: standard"},
		{"hip", SDPASplitK, decoderShape, []string{"attention_split[16 8 3]"}, "32 heads of 128 over 8192 keys: splitk in 16 shares"},
		{"hip", SDPASplitK, encoderShape, []string{"attention_split[2 32 3]"}, "32 heads of 64 over 750 keys: splitk in 2 shares"},
		{"cuda", SDPAAuto, decoderShape, []string{"attention_split[16 8 3]"}, "32 heads of 128 over 8192 keys: splitk in 16 shares"},
		{"cuda", SDPAAuto, encoderShape, []string{"attention[32 3 1]"}, "32 heads of 64 over 750 keys: standard"},
		{"cuda", SDPAStandard, decoderShape, []string{"attention[8 3 1]"}, "32 heads of 128 over 8192 keys: standard"},
		{"cuda", SDPASplitK, encoderShape, []string{"attention_split[2 32 3]"}, "32 heads of 64 over 750 keys: splitk in 2 shares"},
	} {
		d, _ := unproved(t, paper(c.driver), c.choice)
		require.Equal(t, c.kernels, attentionLaunches(t, d, c.shape, 3), "%+v", c)
		require.Len(t, d.Attention(), 1)
		require.Equal(t, c.said, d.Attention()[0].String())
		require.Equal(t, d.Attention()[0].Splits > 1, d.Attention()[0].Kernel == SDPASplitK)
	}
	_, err := Open(paper("hip"), 0, Options{SDPA: "flash"})
	require.ErrorContains(t, err, "use auto, standard or splitk")
}

// However many rows a step has, each row's keys are cut in the same way: its bits do not depend on the others.
func TestAttentionIgnoresRows(t *testing.T) {
	for _, driver := range []string{"hip", "cuda"} {
		for _, choice := range SDPAs() {
			d, _ := unproved(t, paper(driver), choice)
			for _, rows := range []int{1, 2, 8, 38, 100} {
				attentionLaunches(t, d, decoderShape, rows)
			}
			require.Len(t, d.Attention(), 1, "%s %s", driver, choice)
		}
	}
}

// session is a session of the built-in model on a GPU of paper.
func session(t *testing.T, d *Device) (*runtime.Engine, *runtime.Session, error) {
	t.Helper()
	m, err := models.Demo()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	e, err := runtime.Open(m, d)
	if err != nil {
		return nil, nil, err
	}
	s, err := e.NewSession(runtime.Options{})
	return e, s, err
}

// All of a model's programs keep to the policy, and memory is accounted for to the byte.
func TestModelOnPaper(t *testing.T) {
	for choice, kernels := range map[SDPA][]string{
		SDPAAuto:     {"attention"},
		SDPAStandard: {"attention"},
		SDPASplitK:   {"attention_split"},
	} {
		d, x := unproved(t, paper("hip"), choice)
		e, s, err := session(t, d)
		require.NoError(t, err)
		require.Len(t, d.Attention(), 2, "encoder and decoder")
		u := d.Usage()
		require.Positive(t, u.Weights)
		require.Positive(t, u.State)
		require.Positive(t, u.Pinned)
		require.InDelta(t, x.used, u.Weights+u.State+u.Scratch, 64, "but for what empty buffers take")
		require.NoError(t, s.Feed(make([]float32, 16000)))
		seen := map[string]bool{}
		for _, name := range x.launches {
			seen[name] = true
		}
		for _, name := range []string{"attention", "attention_split"} {
			require.Equal(t, slices.Contains(kernels, name), seen[name], "%s %s", choice, name)
		}
		require.NoError(t, s.Close())
		require.NoError(t, e.Close())
		require.Zero(t, d.Usage().State)
		require.Zero(t, d.Usage().Scratch)
		require.NoError(t, d.Close())
	}
}

// A fault in flight ends the session: the error stays, and there is no event.
func TestFaultInFlight(t *testing.T) {
	driver := paper("hip")
	d, _ := unproved(t, driver, SDPAAuto)
	_, s, err := session(t, d)
	require.NoError(t, err)
	driver.fault = "attention"
	for range 2 {
		err = s.Feed(make([]float32, 16000))
		var fault *Error
		require.ErrorAs(t, err, &fault)
		require.ErrorContains(t, err, "unspecified launch failure (PAPER_FAULT, 719)")
		require.ErrorAs(t, s.Finish(), &fault)
	}
	for ev := range s.Events() {
		t.Fatal(ev)
	}
}

// A model that does not fit says what was needed, what there was and what to do.
func TestModelDoesNotFit(t *testing.T) {
	for _, room := range []int64{1 << 20, 10 << 20} {
		driver := paper("hip")
		driver.room = room
		d, _ := unproved(t, driver, SDPAAuto)
		_, _, err := session(t, d)
		var oom *OutOfMemory
		require.True(t, errors.As(err, &oom), "%v", err)
		require.Greater(t, oom.Need, oom.Free)
		require.ErrorContains(t, err, size(oom.Need)+" needed at once, "+size(oom.Free)+" of "+size(room)+" free: close what else uses this GPU")
		require.NoError(t, d.Close())
	}
}

// A GPU that computes wrongly, here nothing at all, is refused.
func TestSelfTestRefuses(t *testing.T) {
	_, err := Open(paper("cuda"), 0, Options{})
	require.ErrorContains(t, err, "Paper GPU fails its self-test and is not used: 1 rows: value 0 is 0, want")
}

// The probe refuses a bandwidth of bytes that were not read, and memory that is too small to tell.
func TestProbeRefuses(t *testing.T) {
	driver := paper("hip")
	d, x := unproved(t, driver, SDPAAuto)
	_, err := d.Probe(t.Context())
	require.ErrorContains(t, err, "the sum of what was read is 0x0")
	require.Zero(t, x.used)
	driver.room = 100 << 20
	_, err = d.Probe(t.Context())
	var oom *OutOfMemory
	require.ErrorAs(t, err, &oom)
}
