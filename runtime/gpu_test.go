package runtime

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/hip"
	"voxtral/internal/device"
	"voxtral/models"
)

func TestMain(m *testing.M) {
	if hip.RunChild() {
		return
	}
	os.Exit(m.Run())
}

// gpus opens every usable GPU; without one the test is skipped with the reasons.
func gpus(t *testing.T) map[string]device.Device {
	var reasons []string
	out := map[string]device.Device{}
	for name, load := range map[string]func() (hip.Driver, error){"hip": hip.LoadHIP, "cuda": hip.LoadCUDA} {
		driver, err := load()
		var list []hip.GPU
		if err == nil {
			list, err = driver.Devices()
		}
		if err != nil {
			reasons = append(reasons, err.Error())
			continue
		}
		if len(list) == 0 || !list[0].Usable {
			reasons = append(reasons, name+": no usable GPU")
			continue
		}
		d, err := hip.Open(driver, 0, hip.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		t.Log(d.Info().Detail)
		out[name] = d
	}
	if len(out) == 0 {
		t.Skip(reasons)
	}
	return out
}

// A GPU transcribes the held-out clips as the CPU does: the same tokens except after near ties, and the same error rate.
func TestGPUDemo(t *testing.T) {
	for name, dev := range gpus(t) {
		all := clips(t)
		m, err := models.Demo()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		t.Setenv("VOXTRAL_CPU_ISA", "generic") // float32 activations
		reference := transcribe(t, openEngine(t, m, openCPU(t)), 6, all)
		got := transcribe(t, openEngine(t, m, dev), 6, all)
		same := 0
		for _, c := range all {
			if got[c.file] == reference[c.file] {
				same++
			}
		}
		t.Logf("%s: %d of %d transcripts equal the CPU's", name, same, len(all))
		want := score(t, "cpu", all, reference)
		require.InDelta(t, want.Rate(), score(t, name, all, got).Rate(), 0.002)
		require.GreaterOrEqual(t, same, len(all)-3)
	}
}

// Speculative, chunked and graph-replayed streaming gives what a plain run gives.
func TestGPUInvariance(t *testing.T) {
	for name, dev := range gpus(t) {
		m, err := models.Demo()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		e := openEngine(t, m, dev)
		s := openSession(t, e, delay(6))
		for _, c := range clips(t)[:6] {
			want := run(t, s, c.pcm)
			s.Reset()
			require.Equal(t, tokens(want), tokens(feedBy(t, s, c.pcm, 1280)), name)
			s.Reset()
		}
	}
}

// The published size with random weights runs; its speed is printed, nothing is asserted about it.
func TestGPU4B(t *testing.T) {
	if os.Getenv("VOXTRAL_GPU_4B") == "" {
		t.Skip("VOXTRAL_GPU_4B is not set: it writes and loads 2.7 GB")
	}
	for name, dev := range gpus(t) {
		m, _, err := models.OpenSynthetic(context.Background(), t.TempDir(), "4b", models.SyntheticOptions{Format: device.Int4})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		e := openEngine(t, m, dev)
		opt := delay(6)
		opt.NoSpeculation = true
		s := openSession(t, e, opt)
		for range 3 {
			before := s.Stats()
			run(t, s, make([]float32, 30*16000))
			st := s.Stats()
			steps := st.DecoderSteps - before.DecoderSteps
			t.Logf("%s: decoder step %.3f ms over %d steps; encoder %.2f ms a tick", name,
				1e3*(st.DecoderTime-before.DecoderTime-st.PromptTime+before.PromptTime).Seconds()/float64(steps), steps,
				1e3*(st.EncoderTime-before.EncoderTime).Seconds()/float64(st.EncoderTicks-before.EncoderTicks))
			s.Reset()
		}
	}
}
