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

// usableGPU is the name of this machine's first usable GPU, empty without one.
func usableGPU(t *testing.T) string {
	t.Helper()
	var list []deviceJSON
	require.NoError(t, json.Unmarshal([]byte(voxtral(t, "devices", "--json").stdout), &list))
	for _, d := range list {
		if strings.Contains(d.Name, ":") && d.Usable {
			return d.Name
		}
	}
	return ""
}

func needGPU(t *testing.T) string {
	t.Helper()
	name := usableGPU(t)
	if name == "" {
		t.Skip("needs a usable GPU; this machine has\n" + voxtral(t, "devices", "-v").stdout)
	}
	return name
}

// On every name and with every attention kernel a GPU writes down what the CPU does, and auto takes it.
func TestGPUTranscribe(t *testing.T) {
	name := needGPU(t)
	want := voxtral(t, "transcribe", "-q", "--device", "cpu", hello).stdout
	for _, args := range []string{"", "--device gpu", "--device " + name, "--sdpa standard", "--sdpa splitk", "--device gpu --sdpa auto"} {
		r := voxtral(t, append([]string{"transcribe", "-v", hello}, strings.Fields(args)...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		t.Log(r.stderr)
		require.Equal(t, want, r.stdout, args)
		require.Contains(t, r.stderr, "device "+name+": ")
		require.NotContains(t, r.stderr, "warning")
		switch {
		case strings.Contains(args, "standard"), strings.HasPrefix(name, "hip") && !strings.Contains(args, "splitk"):
			require.NotContains(t, r.stderr, "shares", args)
		case strings.Contains(args, "splitk"):
			require.Equal(t, 2, strings.Count(r.stderr, ": splitk in "), "encoder and decoder")
		}
	}
}

// A report of a GPU has its own bandwidth and memory, and no peaks of the CPU's instructions.
func TestGPUBench(t *testing.T) {
	name := needGPU(t)
	for _, sdpa := range []string{"auto", "standard", "splitk"} {
		r := voxtral(t, "bench", hello, "--device", "gpu", "--json", "--mode", "streaming", "--sdpa", sdpa)
		require.Equal(t, exitOK, r.code, r.stderr)
		path := filepath.Join(t.TempDir(), "report.json")
		require.NoError(t, os.WriteFile(path, []byte(r.stdout), 0o600))
		b, err := bench.ReadReport(path)
		require.NoError(t, err)
		require.Equal(t, [2]string{name, sdpa}, [2]string{b.Device, b.SDPA})
		require.Len(t, b.Attention, 2)
		for _, line := range b.Attention {
			require.True(t, sdpa == "auto" || strings.Contains(line, sdpa), line)
		}
		require.Empty(t, b.Machine.Peaks)
		require.Zero(t, b.EncoderChunk.Fraction)
		require.GreaterOrEqual(t, b.DeviceMemory.Weights, b.WeightBytes*9/10)
		for what, v := range map[string]float64{
			"encoder step": b.EncoderStepMS, "decoder step": b.DecoderStepMS, "GB/s": b.GBps, "peak": b.PeakGBps, "fraction": b.BandwidthFraction,
			"cache": float64(b.DeviceMemory.Cache), "scratch": float64(b.DeviceMemory.Scratch), "pinned": float64(b.DeviceMemory.Pinned), "host": float64(b.PeakRSSBytes),
		} {
			require.Positive(t, v, what)
		}
		t.Logf("%s: %.0f GB/s at best, decoder step %.3f ms", sdpa, b.PeakGBps, b.DecoderStepMS)
	}
}
