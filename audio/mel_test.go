package audio

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// plainMel is the definition, straight down: reflect, window, sum the Fourier series, filter, take the logarithm.
func plainMel(pcm []float32, bins int) []float32 {
	reflect := func(i int) int {
		period := 2 * (len(pcm) - 1)
		i = ((i % period) + period) % period
		return min(i, period-i)
	}
	hz := func(mel float64) float64 {
		if mel < 15 {
			return mel * 200 / 3
		}
		return 1000 * math.Pow(6.4, (mel-15)/27)
	}
	top := 15 + 27*math.Log(8)/math.Log(6.4)
	out := make([]float32, 0, len(pcm)/160*bins)
	for frame := range len(pcm) / 160 {
		var power [201]float64
		for k := range power {
			var re, im float64
			for i := range 400 {
				window := math.Pow(math.Sin(math.Pi*float64(i)/400), 2)
				x := window * float64(pcm[reflect(160*frame-200+i)])
				angle := 2 * math.Pi * float64(k*i%400) / 400
				re += x * math.Cos(angle)
				im += x * math.Sin(angle)
			}
			power[k] = re*re + im*im
		}
		for b := range bins {
			at := func(i int) float64 { return hz(top * float64(b+i) / float64(bins+1)) }
			var sum float64
			for k, p := range power {
				rise := (float64(k)*40 - at(0)) / (at(1) - at(0))
				fall := (at(2) - float64(k)*40) / (at(2) - at(1))
				sum += math.Max(0, math.Min(rise, fall)) * 2 / (at(2) - at(0)) * p
			}
			out = append(out, float32((math.Max(math.Log10(math.Max(sum, 1e-10)), 1.5-8)+4)/4))
		}
	}
	return out
}

// Invariant: every frame equals the definition, for lengths that end before, on and after a hop, and shorter than the
// half window that is reflected at the start.
func TestMelIsItsDefinition(t *testing.T) {
	for _, n := range []int{2, 159, 160, 161, 199, 200, 201, 319, 320, 360, 400, 1279, 1280, 2000} {
		for _, bins := range []int{128, 7} {
			m, err := NewMel(bins)
			require.NoError(t, err)
			pcm := tone(n, SampleRate, 700, 0.3)
			for i, x := range sweep(n) {
				pcm[i] += x / 4
			}
			want := plainMel(pcm, bins)
			require.Len(t, want, n/160*bins)
			got := m.Flush(m.Write(nil, pcm))
			require.Len(t, got, len(want))
			require.InDeltaSlice(t, append(want, 0), append(got, 0), 1e-6)
			require.Equal(t, got, m.Flush(m.Write(nil, pcm)), "Flush forgets the signal")
		}
	}
}

// Invariant: frame t comes as soon as sample 160t+199 is there, however the samples arrive, and no bit depends on it.
func TestMelSplit(t *testing.T) {
	const bins = 128
	m, err := NewMel(bins)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		pcm := sweep(rapid.IntRange(0, 4000).Draw(t, "samples"))
		m.Reset()
		whole := m.Flush(m.Write(nil, pcm))
		require.Len(t, whole, len(pcm)/160*bins)
		var parts []float32
		for fed := 0; fed < len(pcm); {
			n := min(len(pcm)-fed, rapid.OneOf(rapid.Just(1), rapid.IntRange(0, 500), rapid.IntRange(0, 4000)).Draw(t, "piece"))
			parts = m.Write(parts, pcm[fed:fed+n])
			fed += n
			require.Len(t, parts, max(0, (fed-200)/160+1)*bins*min(1, fed/200))
		}
		parts = m.Flush(parts)
		require.Len(t, parts, len(whole))
		for i := range whole {
			require.Equal(t, math.Float32bits(whole[i]), math.Float32bits(parts[i]), "value %d", i)
		}
	})
}

// Invariant: digital silence is -0.625 in every bin of every frame.
func TestMelSilence(t *testing.T) {
	m, err := NewMel(128)
	require.NoError(t, err)
	frames := m.Flush(m.Write(nil, make([]float32, 12800)))
	require.Len(t, frames, 80*128)
	for _, v := range frames {
		require.Equal(t, float32(-0.625), v)
	}
}

// Invariant: a running front end allocates nothing, and one that cannot be made says why.
func TestMelBounds(t *testing.T) {
	m, err := NewMel(128)
	require.NoError(t, err)
	require.Equal(t, 128, m.Bins())
	pcm := tone(1280, SampleRate, 440, 0.5)
	out := make([]float32, 0, 8*128+128)
	require.Zero(t, testing.AllocsPerRun(20, func() { out = m.Write(out[:0], pcm) }))
	for _, bins := range []int{-1, 0, 257} {
		_, err := NewMel(bins)
		require.ErrorContains(t, err, "must be within 1..256")
	}
}

func BenchmarkMel(b *testing.B) {
	m, err := NewMel(128)
	require.NoError(b, err)
	pcm := tone(melHop, SampleRate, 440, 0.5)
	var out []float32
	b.ReportAllocs()
	for b.Loop() { // one frame each
		out = m.Write(out[:0], pcm)
	}
}
