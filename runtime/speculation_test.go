package runtime

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/models"
)

// Guessing ahead never changes a token, a time or a margin: on the random checkpoints at every delay, where almost no
// guess holds, and on speech, where most do.
func TestSpeculationIsExact(t *testing.T) {
	pcm := load(t, "audio.safetensors").PCM("pcm")
	for name, dev := range devices(t) {
		for _, ckpt := range checkpoints {
			e := openEngine(t, openModel(t, fixture(t, ckpt, "mistral")), dev)
			for _, d := range []int{1, 6, 30} {
				plain := delay(d)
				plain.NoSpeculation = true
				want := run(t, openSession(t, e, plain), pcm)
				require.Equal(t, want, run(t, openSession(t, e, delay(d)), pcm), "%s %s delay %d", name, ckpt, d)
			}
		}
	}
	m, err := models.Demo()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	e := openEngine(t, m, openCPU(t))
	opt := delay(6)
	opt.NoSpeculation = true
	plain, guessing := openSession(t, e, opt), openSession(t, e, delay(6))
	for _, c := range clips(t) {
		require.Equal(t, run(t, plain, c.pcm), run(t, guessing, c.pcm), c.file)
		plain.Reset()
		guessing.Reset()
	}
	a, b := plain.Stats(), guessing.Stats()
	require.Equal(t, a.Outputs, b.Outputs)
	require.InDelta(t, 1, a.Acceptance(), 0)
	require.Greater(t, b.Acceptance(), 1.3)
	t.Logf("60 clips: %d outputs in %d steps, %.2f outputs a step over %.2f rows; decoder time %v, plain %v (%s)",
		b.Outputs, b.DecoderSteps, b.Acceptance(), float64(b.DecoderRows)/float64(b.DecoderSteps), b.DecoderTime, a.DecoderTime, fmt.Sprintf("%.2f×", a.DecoderTime.Seconds()/b.DecoderTime.Seconds()))
}
