package runtime

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mewkiz/flac"
	"github.com/stretchr/testify/require"

	"voxtral/cpu"
	"voxtral/internal/device"
	"voxtral/internal/wer"
	"voxtral/models"
)

// clip is one held-out sentence of the demonstration model, in a synthetic voice.
type clip struct {
	file, text, voice string
	pcm               []float32
}

// clips reads the sixty held-out clips: thirty in espeak-ng voices, thirty in flite voices.
func clips(t *testing.T) []clip {
	f, err := os.Open(fixture(t, "demo", "manifest.tsv"))
	require.NoError(t, err)
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes = '\t', true
	rows, err := r.ReadAll()
	require.NoError(t, err)
	out := make([]clip, 0, len(rows))
	for _, row := range rows[1:] {
		out = append(out, clip{file: row[0], text: row[1], voice: row[2], pcm: readFLAC(t, fixture(t, "demo", row[0]))})
	}
	require.Len(t, out, 60)
	return out
}

func readFLAC(t *testing.T, path string) []float32 {
	stream, err := flac.ParseFile(path)
	require.NoError(t, err)
	defer stream.Close()
	require.EqualValues(t, 16000, stream.Info.SampleRate)
	require.EqualValues(t, 1, stream.Info.NChannels)
	var pcm []float32
	for {
		frame, err := stream.ParseNext()
		if err != nil {
			require.ErrorContains(t, err, "EOF")
			return pcm
		}
		for _, v := range frame.Subframes[0].Samples {
			pcm = append(pcm, float32(v)/32768)
		}
	}
}

// demoGolden is what the Hugging Face implementation made of the clips, in float32 with the original bf16 weights.
type demoGolden struct {
	Runs []struct {
		File   string
		Delay  int
		Text   string
		Tokens []int32
	}
}

func loadDemoGolden(t *testing.T) (g demoGolden) {
	raw, err := os.ReadFile(fixture(t, "demo", "golden.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &g))
	require.GreaterOrEqual(t, len(g.Runs), 60)
	return g
}

// score is the word error rate of a set of transcripts, and of each voice's half.
func score(t *testing.T, what string, all []clip, transcript map[string]string) wer.Counts {
	var total wer.Counts
	byVoice := map[string]wer.Counts{}
	for _, c := range all {
		n := wer.Compute(wer.Normalize(c.text), wer.Normalize(transcript[c.file]))
		total = total.Add(n)
		voice, _, _ := strings.Cut(c.file, "-")
		byVoice[voice] = byVoice[voice].Add(n)
	}
	t.Logf("%-16s WER %5.2f %% (%v); espeak %5.2f %%, flite %5.2f %%", what, 100*total.Rate(), total, 100*byVoice["espeak"].Rate(), 100*byVoice["flite"].Rate())
	return total
}

func transcribe(t *testing.T, e *Engine, ticks int, all []clip) map[string]string {
	s := openSession(t, e, delay(ticks))
	out := map[string]string{}
	for _, c := range all {
		out[c.file] = text(run(t, s, c.pcm))
		s.Reset()
	}
	return out
}

func openCPU(t testing.TB) *cpu.Device {
	dev, err := cpu.Open(0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev
}

// The built-in int4 model makes at most one more error in a hundred words than its float32 original.
func TestDemoWER(t *testing.T) {
	all := clips(t)
	reference := map[string]string{}
	for _, r := range loadDemoGolden(t).Runs {
		if r.Delay == 6 {
			reference[r.File] = r.Text
		}
	}
	fp32 := score(t, "float32 reference", all, reference)
	m, err := models.Demo()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	int4 := score(t, "built-in int4", all, transcribe(t, openEngine(t, m, openCPU(t)), 6, all))
	require.Less(t, fp32.Rate(), 0.25, "the reference itself is broken")
	require.LessOrEqual(t, int4.Rate(), fp32.Rate()+0.01)
}

// Rounding activations to integers costs no words: over the delays around the usual one, 3,510 words, plain kernels and each
// arithmetic of integer dot products agree within 0.3 points. One delay's 585 words are too few to tell that from near ties,
// which fall either way.
func TestDemoWERInstructionSets(t *testing.T) {
	all := clips(t)
	m, err := models.Demo()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	// avxvnni sums as avx2 does, avx512vnni and amx as avx512 does: package cpu holds them to the same bits.
	arithmetics := []string{"generic", "avx2", "avx512"}
	rate := map[string]float64{}
	for _, isa := range cpu.InstructionSets() {
		if !slices.Contains(arithmetics, isa) {
			continue
		}
		t.Setenv("VOXTRAL_CPU_ISA", isa)
		e := openEngine(t, m, openCPU(t))
		var total wer.Counts
		for ticks := 2; ticks <= 7; ticks++ {
			total = total.Add(score(t, fmt.Sprint(isa, " ", 80*ticks, " ms"), all, transcribe(t, e, ticks, all)))
		}
		t.Logf("%-16s WER %5.2f %% (%v)", isa, 100*total.Rate(), total)
		rate[isa] = total.Rate()
		require.InDelta(t, rate["generic"], rate[isa], 0.003, isa)
	}
}

// With the original weights at hand (VOXTRAL_DEMO_SOURCE, a checkpoint directory; they are too large for the repository),
// the float32 path gives the reference's tokens on every clip, and int8 and int4 packed from them keep the error rate.
func TestDemoSource(t *testing.T) {
	dir := os.Getenv("VOXTRAL_DEMO_SOURCE")
	if dir == "" {
		t.Skip("VOXTRAL_DEMO_SOURCE does not name the demonstration model's original checkpoint")
	}
	all, dev := clips(t), openCPU(t)
	m := openModel(t, dir)
	e := openEngine(t, m, dev)
	transcript := map[string]string{}
	differ := 0
	for _, r := range loadDemoGolden(t).Runs {
		s := openSession(t, e, delay(r.Delay))
		at := slices.IndexFunc(all, func(c clip) bool { return c.file == r.File })
		events := run(t, s, all[at].pcm)
		if !slices.Equal(r.Tokens, tokens(events)) {
			differ++
			k := slices.IndexFunc(events, func(ev Event) bool { return r.Tokens[ev.Index] != int32(ev.Token) })
			t.Errorf("%s at delay %d: output %d is %d, the reference has %d; margin %g", r.File, r.Delay, k, events[k].Token, r.Tokens[k], events[k].Margin)
		}
		if r.Delay == 6 {
			transcript[r.File] = text(events)
		}
	}
	t.Logf("%d of %d runs differ from the reference", differ, len(loadDemoGolden(t).Runs))
	fp32 := score(t, "float32", all, transcript)
	for _, f := range []device.Format{device.Int8, device.Int4} {
		path := filepath.Join(t.TempDir(), f.String()+".voxtral")
		_, err := models.Quantize(context.Background(), m, path, models.QuantizeOptions{Format: f})
		require.NoError(t, err)
		got := score(t, f.String(), all, transcribe(t, openEngine(t, openModel(t, path), dev), 6, all))
		require.LessOrEqual(t, got.Rate(), fp32.Rate()+0.01, f)
	}
}
