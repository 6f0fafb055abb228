package cpu

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"voxtral/internal/device"
)

// An instruction set that is unknown, or that this machine lacks, is an error that names the choices.
func TestOpenRefuses(t *testing.T) {
	t.Setenv(isaVariable, "sse9")
	_, err := Open(1)
	require.ErrorContains(t, err, `VOXTRAL_CPU_ISA="sse9"`)
	require.ErrorContains(t, err, "generic")
	t.Setenv(isaVariable, "")
	for _, n := range []int{-1, maxThreads + 1} {
		_, err = Open(n)
		require.ErrorContains(t, err, "threads")
	}
}

// The default is the best instruction set and at least one thread.
func TestOpenDefault(t *testing.T) {
	t.Setenv(isaVariable, "")
	d, err := Open(0)
	require.NoError(t, err)
	sets := InstructionSets()
	require.Equal(t, "cpu", d.Info().Name)
	require.True(t, strings.HasSuffix(d.Info().Detail, sets[len(sets)-1]))
	require.Positive(t, d.Info().Threads)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	_, err = d.Alloc(4, device.State)
	require.ErrorContains(t, err, "closed")
	_, err = d.Pack(device.WeightDesc{Parts: []device.Part{{Rows: 1, Cols: 1, Data: make([]byte, 4)}}})
	require.ErrorContains(t, err, "closed")
}

// Buffers start zeroed, whatever their size, and hold what was written where it was written; no access leaves them.
func TestBuffers(t *testing.T) {
	d := openISA(t, "generic", 1)
	for _, size := range []int{0, 1, 7, 4096, 3 << 20} {
		b, err := d.Alloc(size, device.State)
		require.NoError(t, err)
		require.Equal(t, size, b.Bytes())
		got := make([]byte, size)
		require.NoError(t, d.Read(b, 0, got))
		require.Equal(t, make([]byte, size), got)
		if size > 3 {
			require.NoError(t, d.Write(b, size-3, []byte{1, 2, 3}))
			require.NoError(t, d.Read(b, size-4, got[:4]))
			require.Equal(t, []byte{0, 1, 2, 3}, got[:4])
		}
		require.ErrorContains(t, d.Write(b, size, []byte{1}), "the buffer has")
		require.ErrorContains(t, d.Read(b, -1, []byte{1}), "the buffer has")
		require.ErrorContains(t, d.Read(b, math.MaxInt, []byte{1}), "the buffer has")
		b.Free()
		b.Free()
		require.ErrorContains(t, d.Write(b, 0, nil), "freed")
	}
	_, err := d.Alloc(-1, device.State)
	require.Error(t, err)
	_, err = d.Alloc(1<<62, device.State)
	require.ErrorContains(t, err, "out of memory")
}

// norm is the smallest program: y = RMSNorm(x) over two values.
func norm(t *testing.T, d *Device, x device.Buffer) *device.Program {
	p := &device.Program{Name: "prog"}
	gain, err := device.NewVector(d, "gain", []float32{1, 1})
	require.NoError(t, err)
	p.Add(&device.RMSNorm{Name: "norm", Y: p.NewScratch("y", 1, 2), X: p.Bind("x", x, 1, 2), Gain: p.Param(gain), Eps: 1})
	return p
}

// Misuse of buffers, weights and programs is an error that says what is wrong.
func TestMisuse(t *testing.T) {
	d, other := openISA(t, "generic", 2), openISA(t, "generic", 1)
	x, err := d.Alloc(8, device.HostIO)
	require.NoError(t, err)
	foreign, err := other.Alloc(8, device.HostIO)
	require.NoError(t, err)
	_, err = d.Compile(norm(t, d, foreign))
	require.ErrorContains(t, err, "program prog: x: the buffer belongs to another device")
	require.ErrorContains(t, d.Write(foreign, 0, nil), "another device")

	exec, err := d.Compile(norm(t, d, x))
	require.NoError(t, err)
	require.NoError(t, exec.Run(&device.Step{}))
	require.ErrorContains(t, exec.Run(&device.Step{Rows: make([]device.RowData, 1)}), "1 row sets, want 0")
	x.Free()
	require.ErrorContains(t, exec.Run(&device.Step{}), "x: the buffer has been freed")
	_, err = d.Compile(norm(t, d, x))
	require.ErrorContains(t, err, "freed")
	require.NoError(t, exec.Close())
	require.NoError(t, exec.Close())
	require.ErrorContains(t, exec.Run(&device.Step{}), "closed")

	p := &device.Program{Name: "prog"}
	w, err := other.Pack(device.WeightDesc{Name: "w", Parts: []device.Part{{Name: "w", Rows: 1, Cols: 1, Data: make([]byte, 4)}}})
	require.NoError(t, err)
	p.Add(&device.Linear{Name: "linear", X: p.NewScratch("x", 1, 1), Y: p.NewScratch("y", 1, 1), W: w})
	_, err = d.Compile(p)
	require.ErrorContains(t, err, "op linear: its weight belongs to another device")

	p = &device.Program{Name: "prog"}
	stray := (&device.Program{}).NewScratch("stray", 1, 2)
	p.Add(&device.RMSNorm{Name: "norm", Y: stray, X: stray, Gain: stray})
	_, err = d.Compile(p)
	require.ErrorContains(t, err, "op norm: stray is not memory of this program")

	p = &device.Program{Name: "prog"}
	p.Add(&device.RingWrite{Name: "write", Rows: &device.RowSet{Name: "stray", Rows: 1}, X: p.NewScratch("x", 1, 1), To: p.BindRing("r", nil, 1, 1, 1, false)})
	_, err = d.Compile(p)
	require.ErrorContains(t, err, "op write: its row set stray is not the program's")

	_, err = d.Pack(device.WeightDesc{Name: "w"})
	require.ErrorContains(t, err, `weight "w" has no parts`)
}

// A program on a closed device is an error, and closing is safe whatever is still open.
func TestCloseFirst(t *testing.T) {
	t.Setenv(isaVariable, "generic")
	d, err := Open(3)
	require.NoError(t, err)
	x, err := d.Alloc(8, device.HostIO)
	require.NoError(t, err)
	exec, err := d.Compile(norm(t, d, x))
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.ErrorContains(t, exec.Run(&device.Step{}), "the device is closed")
	require.NoError(t, exec.Close())
	x.Free()
}

// Step.Trace sees every op in order with what it has just produced.
func TestTrace(t *testing.T) {
	d := openISA(t, "generic", 2)
	x, err := d.Alloc(8, device.HostIO)
	require.NoError(t, err)
	require.NoError(t, d.Write(x, 0, device.F32Bytes([]float32{3, 4})))
	p := norm(t, d, x)
	p.Add(&device.RMSNorm{Name: "again", Y: p.Ops[0].Out(), X: p.Ops[0].Out(), Gain: p.Ops[0].(*device.RMSNorm).Gain, Eps: 0})
	exec, err := d.Compile(p)
	require.NoError(t, err)
	seen := map[string][]float32{}
	require.NoError(t, exec.Run(&device.Step{Trace: func(label string, rows, cols int, out []float32) {
		require.Equal(t, []int{1, 2}, []int{rows, cols})
		seen[label] = append([]float32{}, out...)
	}}))
	require.InDelta(t, 3/math.Sqrt(13.5), seen["norm"][0], 1e-6)
	require.InDelta(t, 4/math.Sqrt(12.5), seen["again"][1], 1e-6)
}

// Programs of one device may run from several goroutines at once; each gives what it gives alone. Weights may lie in
// read-only memory of the binary.
func TestConcurrentPrograms(t *testing.T) {
	const k, n, m = 256, 512, 3
	d := openISA(t, "generic", 4)
	text := strings.Repeat("voxtral!", n*k/8)
	w, err := d.Pack(device.WeightDesc{Name: "w", Parts: []device.Part{{
		Name: "w", Rows: n, Cols: k, Format: device.Int8, Group: 128,
		Data: unsafe.Slice(unsafe.StringData(text), len(text)), Scales: make([]byte, 2*n*k/128),
	}, part(rand.New(rand.NewPCG(1, 2)), device.BF16, 0, n, k, 0, 1)}})
	require.NoError(t, err)
	var wait sync.WaitGroup
	for g := range 4 {
		wait.Go(func() {
			x := normal(rand.New(rand.NewPCG(uint64(g), 0)), m*k, 1)
			var first []byte
			for range 50 {
				p := &device.Program{Name: "prog"}
				bufs := [2]device.Buffer{}
				for i, size := range []int{4 * m * k, 4 * m * 2 * n} {
					bufs[i], _ = d.Alloc(size, device.HostIO)
				}
				_ = d.Write(bufs[0], 0, device.F32Bytes(x))
				p.Add(&device.Linear{Name: "linear", X: p.Bind("x", bufs[0], m, k), Y: p.Bind("y", bufs[1], m, 2*n), W: w})
				exec, err := d.Compile(p)
				if err == nil {
					err = exec.Run(&device.Step{})
				}
				got := make([]byte, bufs[1].Bytes())
				if err != nil || d.Read(bufs[1], 0, got) != nil || exec.Close() != nil {
					t.Errorf("run: %v", err)
					return
				}
				if first == nil {
					first = got
				}
				if string(first) != string(got) {
					t.Error("a repeated run gave other bits")
				}
				bufs[0].Free()
				bufs[1].Free()
			}
		})
	}
	wait.Wait()
}
