package listen

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"voxtral/audio"
)

// sound is audio of one level.
func sound(seconds, level float64) []float32 {
	pcm := make([]float32, int(seconds*audio.SampleRate))
	for i := range pcm {
		pcm[i] = float32(level)
		if i%2 == 1 {
			pcm[i] = -pcm[i]
		}
	}
	return pcm
}

func join(parts ...[]float32) (all []float32) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// drain takes all there is and checks that what was taken and what was dropped make up all, in order.
func drain(t require.TestingT, b *backlog, all []float32) (drops []Drop) {
	b.end()
	at := int64(0)
	for more := true; more; {
		var got batch
		got, more = b.take(0)
		drops = append(drops, got.drops...)
		require.GreaterOrEqual(t, got.start, int64(0))
		if len(got.pcm) == 0 {
			continue
		}
		require.GreaterOrEqual(t, got.start, at)
		require.Equal(t, all[got.start:got.start+int64(len(got.pcm))], got.pcm)
		require.LessOrEqual(t, len(got.pcm), longestFeed+frameSamples)
		samples := 0
		for _, a := range got.arrivals {
			samples += a.samples
		}
		require.Len(t, got.pcm, samples)
		at = got.start + int64(len(got.pcm))
	}
	return drops
}

func length(drops []Drop, silence bool) (sum time.Duration) {
	for _, d := range drops {
		if d.Silence == silence {
			sum += d.End - d.Start
		}
	}
	return sum
}

// With silence at hand no speech is lost, the oldest silence goes first, and some stays around the speech.
func TestSilenceIsDroppedFirst(t *testing.T) {
	all := join(sound(1, 0.1), sound(2, 0.0005), sound(1, 0.1), sound(2, 0.0005), sound(1, 0.1))
	b := newBacklog(6 * time.Second)
	b.push(context.Background(), all[:5*audio.SampleRate], time.Now())
	require.Empty(t, b.drops)
	b.push(context.Background(), all[5*audio.SampleRate:], time.Now())
	drops := drain(t, b, all)
	require.NotEmpty(t, drops)
	require.Zero(t, length(drops, false))
	require.Equal(t, []Drop{{1200 * time.Millisecond, 2600 * time.Millisecond, true}, {4200 * time.Millisecond, 5300 * time.Millisecond, true}}, drops)
}

// Without silence the oldest audio goes, and it is not called silence.
func TestSpeechIsDroppedLast(t *testing.T) {
	all := sound(8, 0.1)
	b := newBacklog(4 * time.Second)
	b.push(context.Background(), all[:3*audio.SampleRate], time.Now())
	b.push(context.Background(), all[3*audio.SampleRate:5*audio.SampleRate], time.Now())
	drops := drain(t, b, all)
	require.Equal(t, []Drop{{0, 2 * time.Second, false}}, drops)
}

// A lossless backlog keeps its source waiting.
func TestBacklogWaits(t *testing.T) {
	b := newBacklog(0)
	all := sound(5, 0)
	b.push(context.Background(), all[:longestFeed], time.Now())
	pushed := make(chan struct{})
	go func() {
		b.push(context.Background(), all[longestFeed:], time.Now())
		close(pushed)
	}()
	select {
	case <-pushed:
		t.Fatal("there was no room")
	case <-time.After(20 * time.Millisecond):
	}
	got, more := b.take(0)
	require.True(t, more)
	require.Len(t, got.pcm, longestFeed)
	<-pushed
	require.Len(t, b.frames, (len(all)-longestFeed)/frameSamples)
}

// Whatever comes in whatever pieces: what is taken and what is dropped are all of it, the backlog keeps to its limit, and
// the timeline gives every sample its place.
func TestNothingIsLostUntold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBacklog(time.Second)
		var all []float32
		var drops []Drop
		var clock timeline
		fed := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "take") {
				got, _ := b.take(0)
				drops = append(drops, got.drops...)
				if len(got.pcm) == 0 {
					continue
				}
				clock.at(fed, got.start)
				fed += int64(len(got.pcm))
				heard := got.start + int64(len(got.pcm))
				require.Equal(t, all[got.start:heard], got.pcm)
				require.Equal(t, duration(heard), clock.source(duration(fed)).Round(time.Microsecond))
				continue
			}
			piece := sound(float64(rapid.IntRange(1, 900).Draw(t, "ms"))/1000, rapid.SampledFrom([]float64{0, 0.001, 0.1}).Draw(t, "level"))
			all = append(all, piece...)
			b.push(context.Background(), piece, time.Now())
			require.LessOrEqual(t, b.samples, b.limit)
		}
		kept := int64(b.samples)
		drops = append(drops, drain(t, b, all)...)
		lost := length(drops, true) + length(drops, false)
		require.Equal(t, duration(int64(len(all))), (duration(fed+kept) + lost).Round(time.Microsecond))
	})
}

func TestTimelineForgets(t *testing.T) {
	var clock timeline
	for i := range int64(1000) {
		clock.at(i*1000, i*2000)
		clock.source(duration(i*1000 + 1))
	}
	require.LessOrEqual(t, len(clock.cuts), 2)
	clock = timeline{start: 1000}
	require.Equal(t, duration(1000)-time.Second, clock.source(-time.Second), "before the first sample")
}
