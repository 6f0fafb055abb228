package audio

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Invariant: how the input is cut into pieces changes no bit of the output.
func TestResamplerSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.OneOf(rapid.SampledFrom([]int{4000, 8000, 11025, 16000, 22050, 44100, 48000, 96000, 192000}), rapid.IntRange(minRate, maxRate)).Draw(t, "from")
		r, err := NewResampler(from, SampleRate)
		require.NoError(t, err)
		pcm := sweep(rapid.IntRange(0, 9000).Draw(t, "samples"))
		whole := r.Flush(r.Write(nil, pcm))
		var parts []float32
		for rest := pcm; len(rest) > 0; {
			n := min(len(rest), rapid.OneOf(rapid.Just(1), rapid.IntRange(0, 300), rapid.IntRange(0, 9000)).Draw(t, "piece"))
			parts = r.Write(parts, rest[:n])
			rest = rest[n:]
		}
		parts = r.Flush(parts)
		require.Equal(t, len(whole), len(parts))
		for i := range whole {
			require.Equal(t, math.Float32bits(whole[i]), math.Float32bits(parts[i]), "sample %d", i)
		}
	})
}

// Invariant: n samples become ceil(n*to/from), and what happens at a time stays at that time.
func TestResamplerTime(t *testing.T) {
	for _, rate := range [][2]int{{4000, 16000}, {8000, 16000}, {11025, 16000}, {12345, 16000}, {16000, 16000}, {16000, 48000}, {22050, 16000}, {44100, 16000}, {48000, 16000}, {96000, 16000}, {191999, 16000}, {192000, 16000}} {
		from, to := rate[0], rate[1]
		t.Run(fmt.Sprintf("%d to %d", from, to), func(t *testing.T) {
			r, err := NewResampler(from, to)
			require.NoError(t, err)
			n := from/2 + 7
			pcm := make([]float32, n)
			at := n / 3
			for i := range pcm { // a smooth click of 5 ms
				x := float64(i-at) / float64(from) / 0.005
				pcm[i] = float32(math.Exp(-x * x))
			}
			out := r.Flush(r.Write(nil, pcm))
			require.Len(t, out, (n*to+from-1)/from)
			var moment, mass float64
			for i, x := range out {
				moment += float64(x) * float64(i) / float64(to)
				mass += float64(x)
			}
			require.InDelta(t, float64(at)/float64(from), moment/mass, 1e-6, "seconds")
			require.InDelta(t, 1, out[int(math.Round(float64(at)*float64(to)/float64(from)))], 0.001)
			require.Empty(t, r.Flush(nil), "a flushed resampler holds nothing")
		})
	}
}

// Invariant: a tone below the pass band's edge comes out as that tone alone, and one above the new Nyquist frequency not
// at all. Measured away from the ends.
func TestResamplerPurity(t *testing.T) {
	for _, c := range []struct {
		from int
		hz   float64
		pass bool
	}{
		{44100, 7000, true}, {44100, 1000, true}, {44100, 9500, false}, {44100, 8300, false}, {44100, 21000, false},
		{22050, 7000, true}, {22050, 9500, false}, {48000, 7000, true}, {48000, 9500, false}, {96000, 30000, false}, {192000, 7000, true},
		{192000, 90000, false}, {8000, 3400, true}, {11025, 4800, true}, {4000, 1700, true}, {12345, 5000, true}, {47999, 7000, true},
		{47999, 9500, false}, {191999, 7000, true}, {191999, 9500, false},
	} {
		t.Run(fmt.Sprintf("%d Hz tone from %d Hz", int(c.hz), c.from), func(t *testing.T) {
			out := resampled(t, c.from, tone(c.from, c.from, c.hz, 0.5))
			middle := out[2000 : len(out)-2000]
			want := tone(len(out), SampleRate, c.hz, 0.5)[2000 : len(out)-2000]
			if !c.pass {
				level := decibels(rms(middle), 0.5/math.Sqrt2)
				t.Logf("alias %.1f dB", level)
				require.Less(t, level, -110.0)
				return
			}
			for i := range want {
				want[i] -= middle[i]
			}
			level := decibels(rms(want), 0.5/math.Sqrt2)
			t.Logf("error %.1f dB", level)
			require.Less(t, level, -100.0)
		})
	}
}

// Second opinion: in the pass band sox's best resampler gives the same samples.
func TestResamplerAgainstSox(t *testing.T) {
	need(t, "sox")
	for _, from := range []int{8000, 11025, 22050, 44100, 48000, 96000} {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			pcm := make([]float32, 2*from)
			for hz := 110.0; hz < 0.85*float64(min(from, SampleRate))/2; hz *= 1.31 {
				for i, x := range tone(len(pcm), from, hz, 0.05) {
					pcm[i] += x
				}
			}
			dir := t.TempDir()
			in, out := filepath.Join(dir, "in.wav"), filepath.Join(dir, "out.wav")
			values := make([]any, len(pcm))
			for i, x := range pcm {
				values[i] = x
			}
			require.NoError(t, os.WriteFile(in, riff(fmtChunk(tagFloat, 1, from, 32), chunk("data", le(values...))), 0o600))
			said, err := exec.Command("sox", in, "-e", "floating-point", "-b", "32", out, "rate", "-v", "16000").CombinedOutput()
			require.NoError(t, err, string(said))
			theirs, _, _, err := ReadAll(context.Background(), out, Options{})
			require.NoError(t, err)
			ours, _, _, err := ReadAll(context.Background(), in, Options{})
			require.NoError(t, err)
			require.InDelta(t, len(theirs), len(ours), 1)
			difference := make([]float32, len(ours)-4000)
			for i := range difference {
				difference[i] = ours[2000+i] - theirs[2000+i]
			}
			level := decibels(rms(difference), rms(ours))
			t.Logf("difference %.1f dB", level)
			require.Less(t, level, -100.0)
		})
	}
}

// Invariant: no rate makes a resampler's table outgrow its bound.
func TestResamplerBounds(t *testing.T) {
	for from := minRate; from <= maxRate; from += 9973 {
		r, err := NewResampler(from, SampleRate)
		require.NoError(t, err)
		require.LessOrEqual(t, len(r.rows), phaseTable+r.taps)
	}
	for _, rates := range [][2]int{{0, 16000}, {-1, 16000}, {3999, 16000}, {192001, 16000}, {16000, 0}} {
		_, err := NewResampler(rates[0], rates[1])
		require.ErrorContains(t, err, "must be within")
	}
}

func BenchmarkResampler(b *testing.B) {
	for _, from := range []int{8000, 22050, 44100, 48000, 192000, 12345} {
		b.Run(fmt.Sprint(from), func(b *testing.B) {
			r, err := NewResampler(from, SampleRate)
			require.NoError(b, err)
			pcm := tone(from, from, 440, 0.5)
			var out []float32
			for b.Loop() {
				out = r.Write(out[:0], pcm)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "x-realtime")
		})
	}
}
