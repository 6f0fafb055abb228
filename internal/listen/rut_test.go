package listen

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// syllables is sound that comes and goes, as speech does.
func syllables(seconds int) (pcm []float32) {
	for range 2 * seconds {
		pcm = append(pcm, sound(0.35, 0.1)...)
		pcm = append(pcm, sound(0.15, 0.0005)...)
	}
	return pcm
}

// stuckAt runs a session that never writes and returns when it was started afresh.
func stuckAt(t *testing.T, pcm []float32) (at []time.Duration) {
	t.Helper()
	session := &paper{mute: true}
	report, err := Run(context.Background(), session, Options{
		Open:      (&script{pieces: [][]float32{pcm}, err: io.EOF}).open,
		Restarted: func(d time.Duration) { at = append(at, d.Round(2*time.Second)) },
	})
	require.NoError(t, err)
	require.Equal(t, len(at), report.Restarts)
	require.Equal(t, pcm, join(append(session.before, session.fed)...), "nothing is left out")
	return at
}

// A model that writes nothing over speech starts afresh, less and less often when that does not help.
func TestStuckModelStartsAfresh(t *testing.T) {
	require.Equal(t, []time.Duration{20 * time.Second, 60 * time.Second, 140 * time.Second}, stuckAt(t, syllables(200)))
}

// Silence of every kind is no reason to start afresh: digital, of a quiet and of a noisy room, with a word now and then.
func TestSilenceIsNoRut(t *testing.T) {
	for _, level := range []float64{0, 1e-4, 3e-3, 5e-2, 0.5} {
		require.Empty(t, stuckAt(t, sound(60, level)), level)
	}
	var seldom []float32
	for range 12 {
		seldom = append(seldom, sound(9, 0.0005)...)
		seldom = append(seldom, sound(1, 0.1)...)
	}
	require.Empty(t, stuckAt(t, seldom))
}

// A word ends the run, and a text after a restart makes patience short again.
func TestTextIsNoRut(t *testing.T) {
	var r rut
	loud := 0
	tick := func(text bool) bool {
		loud += framesPerTick
		r.hear(text, loud)
		return r.stuck(loud)
	}
	for i := range 10 * rutOutputs {
		require.False(t, tick(i%(rutOutputs-1) == 0))
	}
	run := func() (n int) {
		for n = 1; !tick(false); n++ {
		}
		return n
	}
	tick(true)
	require.Equal(t, []int{rutOutputs, 2 * rutOutputs, 4 * rutOutputs}, []int{run(), run(), run()})
	tick(true)
	require.Equal(t, rutOutputs, run())
	for range 10 {
		run()
	}
	require.Equal(t, longestRutWait, run())
}
