package listen

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"voxtral/audio"
	"voxtral/runtime"
)

// Sessions start afresh in pauses only, each after at least the time asked for, wherever the audio is cut; nothing is left
// out or heard twice, and times and indices go on.
func TestRestartsInPauses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		noise := rapid.SampledFrom([]float64{0, 0.0005, 0.003}).Draw(t, "noise")
		var all []float32
		for range rapid.IntRange(1, 3).Draw(t, "phrases") {
			all = append(all, sound(float64(rapid.IntRange(200, 1500).Draw(t, "speech"))/1000, 0.1)...)
			all = append(all, sound(float64(rapid.IntRange(100, 2000).Draw(t, "silence"))/1000, noise)...)
		}
		const restart = 2 * time.Second
		var first *paper
		for range 2 { // two ways to cut the audio
			size := rapid.IntRange(50, 30000).Draw(t, "size")
			session := &paper{}
			index, last := 0, time.Duration(0)
			report, err := Run(context.Background(), session, Options{
				Open: (&script{pieces: slices.Collect(slices.Chunk(slices.Clone(all), size)), err: io.EOF}).open, Restart: restart,
				Heard: func(ev runtime.Event) error {
					require.Equal(t, index, ev.Index)
					require.GreaterOrEqual(t, ev.Time, last)
					index, last = index+1, ev.Time
					return nil
				},
			})
			require.NoError(t, err)
			require.Equal(t, len(session.before), report.Restarts)
			require.Equal(t, duration(int64(len(all))), report.Heard)
			require.Equal(t, report.Heard, last)
			require.Equal(t, all, join(append(session.before, session.fed)...))
			for _, heard := range session.before {
				require.GreaterOrEqual(t, duration(int64(len(heard))), restart)
				pause := heard[len(heard)-audio.SampleRate*9/10:]
				require.LessOrEqual(t, max(slices.Max(pause), -slices.Min(pause)), float32(noise), "a pause")
			}
			if first == nil {
				first = session
			}
			require.Equal(t, first.before, session.before)
		}
	})
}

// Without any pause the limit still holds.
func TestRestartAtTheLimit(t *testing.T) {
	session := &paper{}
	report, err := Run(context.Background(), session, Options{
		Open: (&script{pieces: [][]float32{sound(10, 0.1)}, err: io.EOF}).open, Restart: time.Second, Limit: 4 * time.Second,
	})
	require.NoError(t, err)
	require.Equal(t, 2, report.Restarts)
	require.Equal(t, []int{4 * audio.SampleRate, 4 * audio.SampleRate, 2 * audio.SampleRate}, []int{len(session.before[0]), len(session.before[1]), len(session.fed)})
}

// A voice that is as quiet as -46 dBFS in a quiet room is no pause, nor is noise in a loud one silence to be waited for in
// vain.
func TestPausesFollowTheRoom(t *testing.T) {
	count := func(pcm []float32) (n int) {
		var p pauses
		for len(pcm) > 0 {
			taken, _ := p.scan(pcm, func(_ int, pause bool) bool {
				if pause {
					n++
				}
				return false
			})
			pcm = pcm[taken:]
		}
		return n
	}
	require.Zero(t, count(join(sound(0.5, 0), slices.Repeat(join(sound(0.3, 0.005), sound(0.3, 0.0001)), 20))))
	require.Positive(t, count(join(sound(3, 0.1), sound(2, 0.005), sound(3, 0.1))))
	require.Positive(t, count(join(sound(3, 0.1), sound(2, 0), sound(3, 0.1))))
}
