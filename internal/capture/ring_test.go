package capture

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What the reader takes is what the writer wrote, in order, but for whole frames that did not fit.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		channels := rapid.IntRange(1, 3).Draw(t, "channels")
		r := newRing(rapid.IntRange(1, 40).Draw(t, "room"))
		want := []float32{}
		var written, lost uint64
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "take") {
				dst := make([]float32, rapid.IntRange(0, 20).Draw(t, "most")*channels)
				n := r.take(dst)
				require.Zero(t, n%channels)
				require.Equal(t, min(len(dst), len(want)), n)
				require.Equal(t, want[:n], dst[:n])
				want = want[n:]
				continue
			}
			block := make([]float32, rapid.IntRange(0, 20).Draw(t, "frames")*channels)
			for i := range block {
				block[i] = float32(written)
				written++
			}
			room := (len(r.buf) - len(want)) / channels * channels
			r.write(block, channels)
			want = append(want, block[:min(room, len(block))]...)
			lost += uint64(len(block) - min(room, len(block)))
			require.Equal(t, lost, r.overflowed.Load())
		}
	})
}

// Two threads at once: every sample arrives once and in order.
func TestRingConcurrently(t *testing.T) {
	const total = 200_000
	r := newRing(64)
	go func() {
		for at := 0; at < total; {
			free := len(r.buf) - int(r.written.Load()-r.read.Load())
			n := min(total-at, free, 1+at%17)
			block := make([]float32, n)
			for i := range block {
				block[i] = float32(at + i)
			}
			r.write(block, 1)
			at += n
			runtime.Gosched()
		}
	}()
	next := 0
	for dst := make([]float32, 23); next < total; {
		for _, x := range dst[:r.take(dst)] {
			require.Equal(t, float32(next), x)
			next++
		}
		runtime.Gosched()
	}
	require.Zero(t, r.overflowed.Load())
}
