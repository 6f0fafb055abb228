package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/internal/bench"
)

// In every mode, a second of audio gives a report with all keys, and one that makes sense.
func TestBench(t *testing.T) {
	dir := t.TempDir()
	for mode, repeat := range map[string]string{"offline": "1", "streaming": "2", "paced": "1"} {
		r := voxtral(t, "bench", hello, "--device", "cpu", "--seconds", "1", "--mode", mode, "--json", "--repeat", repeat)
		require.Equal(t, exitOK, r.code, r.stderr)
		var keys map[string]any
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &keys))
		for _, key := range strings.Fields(`rtf mode device format audio_seconds time_to_first_text_ms tick_ms encoder_step_ms decoder_step_ms
			weight_bytes_per_step gbps peak_gbps bandwidth_fraction peak_rss_bytes cpu_seconds_per_audio_second acceptance commit`) {
			require.Contains(t, keys, key, mode)
		}
		path := filepath.Join(dir, mode)
		require.NoError(t, os.WriteFile(path, []byte(r.stdout), 0o600))
		b, err := bench.ReadReport(path)
		require.NoError(t, err)
		require.Equal(t, [4]string{mode, "cpu", "int4", "demo"}, [4]string{string(b.Mode), b.Device, b.Format, b.Model})
		require.Equal(t, []string{"auto", "standard"}, append([]string{b.SDPA}, b.Attention...))
		require.Nil(t, b.DeviceMemory)
		require.InDelta(t, 1, b.AudioSeconds, 1e-9)
		for name, v := range map[string]float64{
			"rtf": b.RTF, "encoder_step_ms": b.EncoderStepMS, "decoder_step_ms": b.DecoderStepMS, "gbps": b.GBps, "peak_gbps": b.PeakGBps,
			"bandwidth_fraction": b.BandwidthFraction, "peak_rss_bytes": float64(b.PeakRSSBytes), "cpu": b.CPUPerAudioSeconds,
			"chunk": b.EncoderChunk.Fraction, "load": b.Load.ModelMS, "first text": *b.TimeToFirstText, "tokens": b.TokensPerSecond,
		} {
			require.Positive(t, v, "%s %s", mode, name)
		}
		require.GreaterOrEqual(t, b.Acceptance, 1.0)
		require.Len(t, b.Runs, int(repeat[0]-'0'))
		require.Greater(t, b.WeightBytes, b.WeightBytesPerStep)
		if mode != "offline" {
			require.Equal(t, 13*len(b.Runs), b.Tick.Count, "a second has twelve and a half ticks")
		}
	}
	r := voxtral(t, "bench", "--compare", filepath.Join(dir, "streaming"), filepath.Join(dir, "paced"))
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Contains(t, r.stdout, "mode: streaming and paced")
	require.Contains(t, r.stdout, "tick p50")
	r = voxtral(t, "bench", "--compare", hello, filepath.Join(dir, "paced"))
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, hello+" is no report")
}

// The text begins with the line that scripts look for, and owns up to the warm-up; a profile and a plot come on demand.
func TestBenchText(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "ticks.png")
	r := voxtral(t, "bench", hello, hello, "--seconds", "0.5", "--mode", "streaming", "--profile", "--plot", plot, "--speculate", "off", "--threads", "1", "--device", "cpu")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Regexp(t, `^Voxtral RTF \d+\.\d{3} \(streaming, cpu, int4, 1\.0 s of audio\)\n`, r.stdout)
	for _, word := range []string{"not counted", "over 80 ms", "of the", "encoder chunk", "beside the weights", "load", "dec.logits", "speculation off", "threads: 1", "clips"} {
		require.Contains(t, r.stdout, word)
	}
	png, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(png), "\x89PNG"))
	require.Contains(t, r.stderr, "demonstration model")
}

// A synthetic model is written once and used again; noise stands in for a file.
func TestBenchSynthetic(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	args := []string{"bench", "--synthetic", "tiny", "--format", "int8", "--seconds", "0.5", "--cache-dir", dir, "--device", "cpu"}
	r := voxtral(t, args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.True(t, strings.HasPrefix(r.stdout, "Voxtral RTF "))
	require.Contains(t, r.stdout, "(offline, cpu, int8, 0.5 s of audio)")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	before, err := files[0].Info()
	require.NoError(t, err)
	require.Equal(t, exitOK, voxtral(t, args...).code)
	after, err := os.Stat(filepath.Join(dir, files[0].Name()))
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.Equal(t, before.ModTime(), after.ModTime())
}

func TestBenchUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--mode fast", "offline, streaming or paced"},
		{"--speculate maybe", "on or off"},
		{"--repeat 0", "1 or more"},
		{"--seconds 0", "--seconds 0"},
		{"--seconds 1e9", "an hour"},
		{"--delay 90", "steps of 80"},
		{"--synthetic 4b --model x", "contradict"},
		{"--format int8", "--synthetic"},
		{"--synthetic 4b --format int3", "int4, int8 or bf16"},
		{"--plot x.png", "streaming or paced"},
		{"--device card", "use auto, cpu, gpu, gpu:N, hip:N or cuda:N"},
		{"--device cpu --sdpa splitk", "needs a GPU"},
		{"--sdpa fast", "auto, standard or splitk"},
		{"--compare a.json", "two reports, not 1"},
	} {
		r := voxtral(t, strings.Fields("bench "+c.args)...)
		require.Equal(t, exitUsage, r.code, c.args)
		require.Empty(t, r.stdout, c.args)
		require.Contains(t, r.stderr, c.want, c.args)
	}
	r := voxtral(t, "bench", "--synthetic", "8b")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "use 4b, demo, tiny")
	require.Equal(t, exitFailed, voxtral(t, "bench", "missing.wav").code)

	help := voxtral(t, "bench", "--help").stdout
	require.Contains(t, help, "Examples:\n  voxtral")
	for line := range strings.Lines(help) {
		require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 100, line)
	}
}
