package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"voxtral/cpu"
	"voxtral/internal/device"
	"voxtral/models"
	"voxtral/runtime"
)

func synthetic(t *testing.T, f device.Format) func() (*models.Model, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.voxtral")
	require.NoError(t, models.Synthetic(t.Context(), path, "tiny", models.SyntheticOptions{Format: f}))
	return func() (*models.Model, error) { return models.Open(path) }
}

func subject(t *testing.T, open func() (*models.Model, error), opt runtime.Options) *Subject {
	t.Helper()
	dev, err := cpu.Open(2)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	s, err := Open(open, dev, opt)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

var machine = Machine{
	ReadBandwidth: 20e9, Read: "made up", Int8: Peak{"int8 B", 4e12}, BF16: Peak{"bf16 C", 1e12},
	Peaks: []Peak{{"int8 A", 2e12}, {"int8 B", 4e12}, {"bf16 C", 1e12}},
}

// madeUp is hardware that probes as it is told.
type madeUp struct {
	err    error
	peaks  *Machine // in place of machine
	memory *DeviceMemory
}

func (m *madeUp) Probe(context.Context) (Machine, error) {
	if m.peaks != nil {
		return *m.peaks, m.err
	}
	return machine, m.err
}

func (m *madeUp) Memory() *DeviceMemory { return m.memory }

func (m *madeUp) Attention() (policy string, chosen []string) {
	return "auto", []string{"all: standard"}
}

func measure(t *testing.T, s *Subject, opt Options, seconds float64) *Report {
	t.Helper()
	opt.Hardware = &madeUp{}
	r, err := Measure(t.Context(), s, [][]float32{Speech(seconds)}, opt)
	require.NoError(t, err)
	return r
}

// A decoder step reads, for every layer, seven matrices, and the LM head; counted here by hand from the shapes.
func TestWorkByHand(t *testing.T) {
	for f, want := range map[device.Format]int64{
		// 2 layers of 92160 weights: codes and a scale for 32; 1400 rows of 96 weights, padded to 128, in int8 with two scales.
		device.Int4: 2*92160/2 + 2*92160/32*2 + 1400*(128+4),
		// Rows of 96 are padded to 128 with two scales: wq, wk, wv, w1, w3; those of 128 and 192, wo and w2, are not.
		device.Int8: 2*((128+64+64+192+192)*(128+4)+96*(128+4)+96*(192+6)) + 1400*(128+4),
		device.BF16: 2 * (2*92160 + 1400*96),
	} {
		m, err := synthetic(t, f)()
		require.NoError(t, err)
		require.Equal(t, want, StepBytes(m), f)
		// 2 × (8 × 64·384 + 4 × (64·192 + 2 layers of 47104) + 96·256 + 96·96) a tick, whatever the format.
		require.EqualValues(t, 1312768, ChunkOps(m, 1), f)
		require.EqualValues(t, 25*1312768, ChunkOps(m, 25), f)
		require.Greater(t, WeightBytes(m), want)
		require.Equal(t, f, formatOf(m))
		require.NoError(t, m.Close())
	}
}

// Rates follow from what was counted.
func TestMeasuresByHand(t *testing.T) {
	f := feed{busy: 3 * time.Second, tokens: 60, firstTokens: []float64{100, 200, 90}}
	for _, ms := range []int{80, 81, 20, 10} {
		f.ticks = append(f.ticks, time.Duration(ms)*time.Millisecond)
	}
	r := f.measures(runtime.Stats{
		EncoderTime: time.Second, EncoderSteps: 4, EncoderTicks: 100,
		DecoderTime: 1500 * time.Millisecond, PromptTime: 500 * time.Millisecond, Prompts: 1, DecoderSteps: 40, DecoderRows: 80, Outputs: 61,
	}, 6, 4*time.Second, 50e6)
	first := 100.0
	require.Equal(t, Measures{
		RTF: 0.5, TimeToFirstToken: &first, Tick: &Ticks{P50: 20, P95: 81, P99: 81, Max: 81, Over80: 1, Count: 4},
		EncoderStepMS: 250, EncoderTickMS: 10, DecoderStepMS: 25, DecoderTokenMS: 1000.0 / 60, TokensPerSecond: 20,
		GBps: 2, CPUPerAudioSeconds: 4.0 / 6, Acceptance: 1.5, ticks: []float64{80, 81, 20, 10},
	}, r)
}

// Every mode hears the same audio: as many tokens, and a latency for every tick.
func TestMeasure(t *testing.T) {
	s := subject(t, synthetic(t, device.Int4), runtime.Options{})
	const ticks = 8 // of 0.6 s, the last one half full
	var outputs float64
	for _, mode := range []Mode{Offline, Streaming, Paced} {
		r := measure(t, s, Options{Mode: mode, Repeat: 2, Commit: "abc"}, 0.6)
		require.Equal(t, [5]string{"cpu", "int4", "abc", "synthetic-tiny", "int8 B"}, [5]string{r.Device, r.Format, r.Commit, r.Model, r.EncoderChunk.Peak})
		require.InDelta(t, 0.6, r.AudioSeconds, 1e-9)
		require.Len(t, r.Runs, 2)
		require.Equal(t, 25, r.EncoderChunk.Ticks)
		require.InDelta(t, float64(ChunkOps(s.Model, 25))/(r.EncoderChunk.MS/1e3)/4e12, r.EncoderChunk.Fraction, 1e-12)
		for _, run := range r.Runs {
			require.InDelta(t, 20, run.PeakGBps, 0)
			require.InDelta(t, run.GBps/20, run.BandwidthFraction, 1e-12)
			require.Positive(t, *run.TimeToFirstToken)
			if outputs == 0 {
				outputs = run.TokensPerSecond * run.RTF * 0.6
			}
			require.InDelta(t, outputs, run.TokensPerSecond*run.RTF*0.6, 1e-6, "as many tokens in every mode")
			if mode == Offline {
				require.Nil(t, run.Tick)
				continue
			}
			require.Equal(t, ticks, run.Tick.Count)
		}
		if mode != Offline {
			require.Equal(t, 2*ticks, r.Tick.Count)
		}
		if mode == Paced {
			require.Greater(t, *r.TimeToFirstToken, 560.0, "no output before its audio")
		}
	}
	require.InDelta(t, 19, outputs, 1e-6, "8 ticks and 17 of silence, less the delay of 6") // the first one comes from the prompt
}

// A run knows nothing of what an earlier one heard: all write as much. How far they guess follows from the clock.
func TestRunsAreAlike(t *testing.T) {
	s := subject(t, models.Demo, runtime.Options{})
	r := measure(t, s, Options{Mode: Offline, Repeat: 3}, 4)
	for _, run := range r.Runs {
		require.InDelta(t, r.Runs[0].TokensPerSecond*r.Runs[0].RTF, run.TokensPerSecond*run.RTF, 1e-6)
		require.GreaterOrEqual(t, run.Acceptance, 1.0)
	}
}

// Clips are streams of their own: together they take what each takes alone.
func TestMeasureClips(t *testing.T) {
	s := subject(t, synthetic(t, device.Int4), runtime.Options{})
	clip := Speech(0.6)
	for _, mode := range []Mode{Offline, Streaming, Paced} {
		total, last := 0, 0
		r, err := Measure(t.Context(), s, [][]float32{clip, clip[:4000], clip}, Options{Mode: mode, Repeat: 1, Progress: func(what string, done, n int) {
			if strings.HasPrefix(what, "run") {
				require.GreaterOrEqual(t, done, last)
				last, total = done, n
			}
		}})
		require.NoError(t, err)
		require.Equal(t, 3, r.Clips)
		require.Equal(t, 2*9600+4000, total)
		require.InDelta(t, float64(total)/16000, r.AudioSeconds, 1e-9)
		require.InDelta(t, 2*19+15, r.TokensPerSecond*r.RTF*r.AudioSeconds, 1e-6)
		if mode != Offline {
			require.Equal(t, total, last)
			require.Equal(t, 8+4+8, r.Tick.Count)
		}
		require.Nil(t, r.Machine)
		require.Zero(t, r.BandwidthFraction)
	}
}

// A GPU has memory of its own, and no peaks of instructions; both are in the report, and the rest as on any device.
func TestMeasureGPU(t *testing.T) {
	s := subject(t, synthetic(t, device.Int4), runtime.Options{})
	gpu := &madeUp{peaks: &Machine{ReadBandwidth: 40e9, Read: "by a kernel"}, memory: &DeviceMemory{Weights: 5e9, Cache: 2e9, Scratch: 1e9, Pinned: 3e6}}
	r, err := Measure(t.Context(), s, [][]float32{Speech(0.4)}, Options{Mode: Offline, Repeat: 2, Hardware: gpu})
	require.NoError(t, err)
	require.Equal(t, "by a kernel", r.Machine.Read)
	require.InDelta(t, 40, r.PeakGBps, 0)
	require.InDelta(t, r.Runs[0].GBps/40, r.Runs[0].BandwidthFraction, 1e-12)
	require.Zero(t, r.OverWeights)
	require.Equal(t, gpu.memory, r.DeviceMemory)
	r.Threads = 0
	var out strings.Builder
	require.NoError(t, r.WriteText(&out))
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"8.000 GB on the device: weights 5.000 GB, keys and values 2.000 GB, scratch 1.000 GB", "of it 3.0 MB pinned", "40.00 (40.00–40.00) GB/s measured here (by a kernel)", "attention auto: all: standard"} {
		require.Contains(t, text, want)
	}
	for _, not := range []string{"threads", "peaks", "beside the weights", " of CPU"} {
		require.NotContains(t, text, not)
	}
	data, err := json.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(data), "peaks")
	require.Contains(t, string(data), `"sdpa":"auto","attention":["all: standard"]`)
	require.Contains(t, string(data), `"device_memory":{"weights_bytes":5000000000,`)
}

// Speculation and profiles are reported as they were asked for.
func TestMeasureOptions(t *testing.T) {
	s := subject(t, synthetic(t, device.BF16), runtime.Options{NoSpeculation: true, Profile: true})
	r := measure(t, s, Options{Mode: Streaming, Repeat: 1}, 1)
	require.InDelta(t, 1, r.Acceptance, 0)
	require.False(t, r.Speculation)
	require.True(t, r.Profiled)
	require.Equal(t, "bf16 C", r.EncoderChunk.Peak)
	shares, last := 0.0, math.Inf(1)
	seen := map[string]bool{}
	for _, op := range r.Ops {
		shares += op.Share
		require.LessOrEqual(t, op.MS, last, "sorted")
		last = op.MS
		seen[op.Op] = true
	}
	require.InDelta(t, 1, shares, 1e-9)
	require.True(t, seen["dec.logits"] && seen["enc.ffn.out"])
}

// Failures and interruptions end the measurement.
func TestMeasureFails(t *testing.T) {
	s := subject(t, synthetic(t, device.Int4), runtime.Options{})
	_, err := Measure(t.Context(), s, nil, Options{Mode: Offline, Repeat: 1})
	require.ErrorContains(t, err, "no audio")
	_, err = Measure(t.Context(), s, [][]float32{Speech(0.2), nil}, Options{Mode: Offline, Repeat: 1})
	require.ErrorContains(t, err, "clip 1")
	broken := errors.New("broken")
	_, err = Measure(t.Context(), s, [][]float32{Speech(0.2)}, Options{Mode: Offline, Repeat: 1, Hardware: &madeUp{err: broken}})
	require.ErrorIs(t, err, broken)
	for _, mode := range []Mode{Offline, Streaming, Paced} {
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err = Measure(ctx, s, [][]float32{Speech(60)}, Options{Mode: mode, Repeat: 1, Progress: func(what string, _, _ int) {
			if strings.HasPrefix(what, "run") {
				cancel(broken)
			}
		}})
		require.ErrorIs(t, err, broken, mode)
	}
	_, err = Open(func() (*models.Model, error) { return nil, broken }, nopDevice{}, runtime.Options{})
	require.ErrorIs(t, err, broken)
}

type nopDevice struct{ device.Device }

func (nopDevice) Info() device.Info { return device.Info{} }

// The keys that scripts rely on are there in every mode, and nothing is lost in JSON.
func TestReportJSON(t *testing.T) {
	s := subject(t, synthetic(t, device.Int4), runtime.Options{})
	for _, mode := range []Mode{Offline, Streaming} {
		r := measure(t, s, Options{Mode: mode, Repeat: 2}, 0.4)
		data, err := json.Marshal(r)
		require.NoError(t, err)
		var keys map[string]any
		require.NoError(t, json.Unmarshal(data, &keys))
		for _, key := range strings.Fields(`rtf mode device format audio_seconds time_to_first_text_ms tick_ms encoder_step_ms decoder_step_ms
			weight_bytes_per_step gbps peak_gbps bandwidth_fraction peak_rss_bytes cpu_seconds_per_audio_second acceptance commit`) {
			require.Contains(t, keys, key)
		}
		if mode == Streaming {
			for _, key := range []string{"p50", "p95", "p99", "max", "over_80"} {
				require.Contains(t, keys["tick_ms"], key)
			}
		}
		path := filepath.Join(t.TempDir(), "r.json")
		writeFile(t, path, data)
		back, err := ReadReport(path)
		require.NoError(t, err)
		again, err := json.Marshal(back)
		require.NoError(t, err)
		require.JSONEq(t, string(data), string(again))
	}
}
