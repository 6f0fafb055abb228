package hip

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"voxtral/internal/amdisa"
	"voxtral/internal/device"
	"voxtral/internal/device/interp"
	"voxtral/internal/golden"
	"voxtral/models"
	"voxtral/runtime"
)

// emulatedCase is a model on an emulated GPU: weights of a format, policies for attention and steps, so much audio.
type emulatedCase struct {
	format device.Format
	sdpa   SDPA
	step   Step
	ticks  int
}

// emulatedGPUs have every kind of matrix unit, in waves of 64 and of 32.
var emulatedGPUs = []string{"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"}

// emulatedCases are the same on every GPU; the first crosses every window of the small model, whose decoder sees 64 positions
// and whose encoder 10 ticks.
var emulatedCases = []emulatedCase{
	{device.Int4, SDPAStandard, StepWhole, 36},
	{device.Int8, SDPASplitK, StepKernels, 8},
	{device.BF16, SDPAStandard, StepKernels, 8},
}

// The whole device works on emulated GPUs with matrix units of every kind: it passes its own start-up test, and a small random
// model gives the oracle's tokens. The audio takes every path: the convolutions, encoder steps of 25, 5 and 1 ticks, the prompt,
// positions one by one, and guessed ones several at a time, with eager launches first and as graphs later, as single kernels
// and as one kernel whose blocks wait for each other.
func TestModelKernelsEmulated(t *testing.T) {
	for _, arch := range emulatedGPUs {
		t.Run(arch, func(t *testing.T) {
			driver := newEmulatedDriver(t, arch)
			ran := map[string]int{}
			driver.watch = func(kernel string, _ amdisa.Stats) { ran[kernel]++ }
			for _, c := range emulatedCases {
				t.Run(fmt.Sprintf("%s %s %s", c.format, c.sdpa, c.step), func(t *testing.T) {
					began := time.Now()
					d, err := Open(driver, 0, Options{SDPA: c.sdpa, Step: c.step})
					require.NoError(t, err)
					checked := time.Since(began)
					emulatedModel(t, d, c)
					require.Empty(t, d.Warnings())
					require.NoError(t, d.Close())
					t.Logf("self-test %.1f s, model %.1f s", checked.Seconds(), (time.Since(began) - checked).Seconds())
				})
			}
			names := slices.Sorted(maps.Keys(ran))
			t.Log(strings.Join(names, " "))
			for _, kernel := range []string{"argmax_merge", "attention", "conv_tail", "conv_window", "embed_add", "head_m1", "head_m8", "matmul", "matvec_m1",
				"matvec_m4", "matvec_m8", "qkv_m1", "qkv_m8", "ring_write", "rmsnorm", "rope_append", "split_rows", "step_m1", "step_m8"} {
				require.Contains(t, names, kernel)
			}
		})
	}
}

// emulatedModel runs a small random model over noise that turns into silence, on d and on the oracle.
func emulatedModel(t *testing.T, d device.Device, c emulatedCase) {
	t.Helper()
	m, _, err := models.OpenSynthetic(t.Context(), t.TempDir(), "tiny", models.SyntheticOptions{Format: c.format})
	require.NoError(t, err)
	rng, pcm := rand.New(rand.NewPCG(8, 8)), make([]float32, c.ticks*1280)
	for i := range pcm[:len(pcm)/2] {
		pcm[i] = float32(0.1 * rng.NormFloat64())
	}
	want, _ := emulatedRun(t, m, interp.New(), pcm)
	got, stats := emulatedRun(t, m, d, pcm)
	require.Greater(t, stats.DecoderRows, stats.DecoderSteps, "guessed positions")
	require.Equal(t, len(want), len(got))
	var tokens [2][]int
	var margins [2][]float32
	for i := range want {
		tokens[0], tokens[1] = append(tokens[0], want[i].Token), append(tokens[1], got[i].Token)
		margins[0], margins[1] = append(margins[0], want[i].Margin), append(margins[1], got[i].Margin)
	}
	require.Greater(t, slices.Min(margins[0]), float32(2e-3), "no near tie")
	require.Equal(t, tokens[0], tokens[1])
	golden.Close(t, "margins", margins[1], margins[0], golden.Tol{Abs: 1e-3, Rel: 1e-3})
	require.NoError(t, m.Close())
}

// emulatedRun feeds a second of audio, then tick by tick, as a microphone would.
func emulatedRun(t *testing.T, m *models.Model, d device.Device, pcm []float32) (events []runtime.Event, stats runtime.Stats) {
	t.Helper()
	e, err := runtime.Open(m, d)
	require.NoError(t, err)
	s, err := e.NewSession(runtime.Options{Delay: 80 * time.Millisecond, IgnoreEOS: true})
	require.NoError(t, err)
	first := max(len(pcm)-4*1280, 0)
	require.NoError(t, s.Feed(pcm[:first]))
	for tick := range slices.Chunk(pcm[first:], 1280) {
		require.NoError(t, s.Feed(tick))
	}
	require.NoError(t, s.Finish())
	events, stats = slices.Collect(s.Events()), s.Stats()
	require.NoError(t, cmp.Or(s.Close(), e.Close()))
	return events, stats
}
