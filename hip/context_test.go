package hip

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scaleArgs packs the argument of the test kernel scale.
func scaleArgs(data Ptr, count, factor int) []byte {
	args := binary.LittleEndian.AppendUint64(nil, uint64(data))
	args = binary.LittleEndian.AppendUint32(args, uint32(count))
	return binary.LittleEndian.AppendUint32(args, uint32(factor))
}

func words(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

const scaleSource = `struct Scale { int *data; int count, factor; };
extern "C" __global__ void scale(Scale a)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < a.count)
		a.data[i] *= a.factor;
}
`

// exercise holds a context to its contract; scale is its kernel of that name.
func exercise(t *testing.T, x Context) {
	code, _, err := x.Compile("scale.hip", scaleSource, nil)
	require.NoError(t, err)
	m, err := x.Load(code)
	require.NoError(t, err)
	scale, err := m.Function("scale")
	require.NoError(t, err)
	require.Equal(t, "scale", scale.Name())
	require.Positive(t, scale.Resources().MaxThreads)
	require.Positive(t, scale.Resources().Registers)
	blocks, err := scale.BlocksPerUnit(64, 0)
	require.NoError(t, err)
	require.Positive(t, blocks)
	_, err = m.Function("absent")
	var status *Error
	require.ErrorAs(t, err, &status)
	require.ErrorContains(t, err, "kernel absent: hip: ")

	// What is copied in comes out again, from inside an allocation too, and memory is counted.
	free, total, err := x.MemInfo()
	require.NoError(t, err)
	require.LessOrEqual(t, free, total)
	p, err := x.Malloc(4096)
	require.NoError(t, err)
	require.NoError(t, x.Memset(p, 7, 4096))
	require.NoError(t, x.CopyIn(p+8, words(1, 2, 3)))
	got := make([]byte, 20)
	require.NoError(t, x.CopyOut(got, p+4))
	require.Equal(t, words(0x07070707, 1, 2, 3, 0x07070707), got)
	require.NoError(t, x.CopyIn(p, nil))
	require.NoError(t, x.CopyOut(nil, p))

	// Work runs in the order in which it was queued.
	args := scaleArgs(p, 4, 3)
	require.NoError(t, x.CopyIn(p, words(1, 2, 3, 4)))
	require.NoError(t, x.Launch(scale, [3]int{1, 1, 1}, [3]int{64, 1, 1}, 0, args))
	clear(args) // may be reused at once
	require.NoError(t, x.Launch(scale, [3]int{1, 1, 1}, [3]int{64, 1, 1}, 1024, scaleArgs(p, 2, 10)))
	got = got[:16]
	require.NoError(t, x.CopyOut(got, p))
	require.Equal(t, words(30, 60, 9, 12), got)

	require.NoError(t, x.LaunchTogether(scale, [3]int{1, 1, 1}, [3]int{64, 1, 1}, 0, scaleArgs(p, 3, 2)))
	require.NoError(t, x.CopyOut(got, p))
	require.Equal(t, words(60, 120, 18, 12), got)

	// Pinned memory starts as zeros and is the device's memory too.
	pinned, err := x.HostAlloc(64)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 64), pinned.Bytes)
	copy(pinned.Bytes, words(5, 6, 7, 8))
	require.NoError(t, x.Launch(scale, [3]int{1, 1, 1}, [3]int{64, 1, 1}, 0, scaleArgs(pinned.Ptr, 4, 2)))
	require.NoError(t, x.Copy(p, pinned.Ptr, 16))
	require.NoError(t, x.CopyOut(got, p))
	require.Equal(t, words(10, 12, 14, 16), got)
	require.Equal(t, words(10, 12, 14, 16), pinned.Bytes[:16])

	// A graph does what its calls did, each time with the data of that time.
	step := func() error {
		return errors.Join(x.Copy(p, pinned.Ptr, 16),
			x.Launch(scale, [3]int{1, 1, 1}, [3]int{64, 1, 1}, 0, scaleArgs(p, 4, 3)),
			x.Launch(scale, [3]int{1, 1, 1}, [3]int{64, 1, 1}, 0, scaleArgs(p, 3, 7)),
			x.Copy(pinned.Ptr+16, p, 16))
	}
	runtime.LockOSThread()
	require.NoError(t, x.BeginCapture())
	require.NoError(t, step())
	g, err := x.EndCapture()
	runtime.UnlockOSThread()
	require.NoError(t, err)
	require.Equal(t, 4, g.Nodes())
	require.Equal(t, words(10, 12, 14, 16), pinned.Bytes[:16], "recording ran nothing")
	for i := range uint32(300) {
		copy(pinned.Bytes, words(i, i+1, i+2, i+3))
		require.NoError(t, step())
		require.NoError(t, x.Sync())
		eager := string(pinned.Bytes)
		clear(pinned.Bytes[16:])
		require.NoError(t, g.Launch())
		require.NoError(t, x.Sync())
		require.Equal(t, eager, string(pinned.Bytes))
		require.Equal(t, string(words(21*i, 21*(i+1), 21*(i+2), 3*(i+3))), eager[16:32])
	}
	require.NoError(t, g.Close())
	require.ErrorIs(t, g.Launch(), errForeign)
	require.ErrorIs(t, g.Close(), errForeign)

	// A copy that waits cannot be recorded; the capture ends in an error or a graph, and work goes on.
	runtime.LockOSThread()
	require.NoError(t, x.BeginCapture())
	require.Error(t, x.CopyOut(got, p))
	if g, err = x.EndCapture(); err == nil {
		require.NoError(t, g.Close())
	}
	runtime.UnlockOSThread()
	require.NoError(t, x.CopyOut(got, p))

	start, err := x.NewEvent()
	require.NoError(t, err)
	stop, err := x.NewEvent()
	require.NoError(t, err)
	require.NoError(t, start.Record())
	require.NoError(t, x.Launch(scale, [3]int{1, 1, 1}, [3]int{64, 1, 1}, 0, scaleArgs(p, 4, 1)))
	require.NoError(t, stop.Record())
	took, err := stop.Since(start)
	require.NoError(t, err)
	require.Positive(t, took)
	require.Less(t, took, 10*time.Second)
	require.NoError(t, start.Close())
	require.ErrorIs(t, start.Close(), errForeign)
	_, err = stop.Since(start)
	require.ErrorIs(t, err, errForeign)

	// Misuse is an error before the library sees it.
	for _, bytes := range []int64{0, -1} {
		_, err = x.Malloc(bytes)
		require.ErrorContains(t, err, "want at least 1")
	}
	_, err = x.HostAlloc(0)
	require.ErrorContains(t, err, "want at least 1")
	_, err = x.Load(nil)
	require.ErrorContains(t, err, "no code")
	require.ErrorContains(t, x.Free(p+1), "no live allocation")
	require.ErrorContains(t, x.Launch(scale, [3]int{0, 1, 1}, [3]int{64, 1, 1}, 0, nil), "kernel scale: a grid of [0 1 1]")
	require.ErrorContains(t, x.Launch(scale, [3]int{1, 1, 1}, [3]int{64, 64, 1}, 0, nil), "blocks of 4096 threads")
	require.ErrorContains(t, x.Launch(scale, [3]int{1, 1, 1}, [3]int{64, 1, 1}, 1<<20, nil), "bytes of shared memory")
	require.ErrorContains(t, x.Copy(p, p, -1), "copying -1 bytes")
	require.ErrorContains(t, x.Memset(p, 0, -1), "filling -1 bytes")

	// What does not fit says how much was needed and how much there was.
	_, err = x.Malloc(total + 1<<20)
	var oom *OutOfMemory
	require.ErrorAs(t, err, &oom)
	require.Equal(t, total+1<<20, oom.Need)
	require.Equal(t, total, oom.Total)
	require.Positive(t, oom.Free)
	require.ErrorContains(t, err, x.GPU().Name)
	require.NoError(t, x.CopyOut(got, p), "running out of memory ends nothing")

	require.NoError(t, x.HostFree(pinned))
	require.ErrorIs(t, x.HostFree(pinned), errForeign)
	require.NoError(t, x.Free(p))
	require.ErrorContains(t, x.Free(p), "no live allocation")
	require.NoError(t, stop.Close())
	require.NoError(t, m.Unload())
	require.ErrorIs(t, m.Unload(), errForeign)
	require.ErrorIs(t, x.Launch(scale, [3]int{1, 1, 1}, [3]int{64, 1, 1}, 0, nil), errForeign)
}

func TestContext(t *testing.T) {
	for name, d := range stubDrivers(t) {
		t.Run(name, func(t *testing.T) {
			x, err := d.Open(1)
			require.NoError(t, err)
			require.Equal(t, 1, x.GPU().Index)
			exercise(t, x)
			_, err = x.Malloc(100) // Close frees it: the address sanitizer's leak check watches
			require.NoError(t, err)
			_, err = x.HostAlloc(100)
			require.NoError(t, err)
			require.NoError(t, x.Close())
			require.ErrorIs(t, x.Close(), errClosed)
			require.ErrorIs(t, x.Sync(), errClosed)
			_, err = x.Malloc(1)
			require.ErrorIs(t, err, errClosed)
			_, err = d.Open(2)
			require.ErrorContains(t, err, "has no GPU 2: it has 0 to 1")
			_, err = d.Open(-1)
			require.ErrorContains(t, err, "has no GPU -1")
		})
	}
}

// Contexts do not mind which thread calls them, nor each other: each call goes to its own GPU.
func TestContextsOnAnyThread(t *testing.T) {
	for name, d := range stubDrivers(t) {
		t.Run(name, func(t *testing.T) {
			a, err := d.Open(0)
			require.NoError(t, err)
			b, err := d.Open(1)
			require.NoError(t, err)
			for range 20 {
				for _, x := range []Context{a, b} {
					var wait sync.WaitGroup
					wait.Go(func() {
						runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, so the next one is new
						p, err := x.Malloc(16)
						if err == nil {
							err = errors.Join(x.CopyIn(p, words(1, 2, 3, 4)), x.Free(p))
						}
						if err != nil {
							t.Error(err)
						}
					})
					wait.Wait()
				}
			}
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		})
	}
}

// A fault in a kernel comes out of the next call that waits, and of all calls from then on, with the library's words.
func TestKernelFault(t *testing.T) {
	for name, d := range stubDrivers(t) {
		t.Run(name, func(t *testing.T) {
			x, err := d.Open(0)
			require.NoError(t, err)
			m, err := x.Load([]byte("fault\x00"))
			require.NoError(t, err)
			fault, err := m.Function("fault")
			require.NoError(t, err)
			require.NoError(t, x.Launch(fault, [3]int{1, 1, 1}, [3]int{1, 1, 1}, 0, nil))
			for range 2 {
				var status *Error
				require.ErrorAs(t, x.Sync(), &status)
				require.Equal(t, 719, status.Code)
				require.Contains(t, status.Error(), "unspecified launch failure (StubErrorLaunchFailure, 719)")
			}
			_, err = x.Malloc(1)
			require.ErrorContains(t, err, "unspecified launch failure")
			require.Error(t, x.Close())
		})
	}
}
