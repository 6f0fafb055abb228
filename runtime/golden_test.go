package runtime

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"voxtral/cpu"
	"voxtral/encoder"
	"voxtral/internal/device"
	"voxtral/internal/device/interp"
	"voxtral/internal/golden"
	"voxtral/models"
)

// checkpoints are the small random models whose goldens come from the Hugging Face implementation in float32. Their audio
// crosses the encoder's and the decoder's sliding windows.
var checkpoints = []string{"tiny-a", "tiny-b"}

// devices opens every device that must reproduce the goldens.
func devices(t *testing.T) map[string]device.Device {
	c, err := cpu.Open(0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return map[string]device.Device{"oracle": interp.New(), "cpu": c}
}

func fixture(t testing.TB, elem ...string) string {
	path, err := golden.Path(elem...)
	require.NoError(t, err)
	return path
}

func load(t testing.TB, elem ...string) *golden.File {
	f, err := golden.Load(fixture(t, elem...))
	require.NoError(t, err)
	return f
}

func openModel(t testing.TB, path string) *models.Model {
	m, err := models.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// openEngine opens a model on a device for the length of the test.
func openEngine(t testing.TB, m *models.Model, d device.Device) *Engine {
	e, err := Open(m, d)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func openSession(t testing.TB, e *Engine, opt Options) *Session {
	s, err := e.NewSession(opt)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// run feeds the whole of pcm and returns all events.
func run(t testing.TB, s *Session, pcm []float32) []Event {
	require.NoError(t, s.Feed(pcm))
	require.NoError(t, s.Finish())
	return slices.Collect(s.Events())
}

func tokens(events []Event) []int32 {
	out := make([]int32, len(events))
	for i, ev := range events {
		out[i] = int32(ev.Token)
	}
	return out
}

func delay(ticks int) Options {
	return Options{Delay: time.Duration(ticks) * 80 * time.Millisecond, IgnoreEOS: true}
}

// The tokens equal the reference's at every delay, on every device, from both layouts.
func TestGoldenTokens(t *testing.T) {
	pcm := load(t, "audio.safetensors").PCM("pcm")
	for name, dev := range devices(t) {
		for _, ckpt := range checkpoints {
			want := load(t, ckpt, "golden.safetensors")
			for _, layout := range []string{"huggingface", "mistral"} {
				e := openEngine(t, openModel(t, fixture(t, ckpt, layout)), dev)
				for _, d := range []int{1, 6, 12, 30} {
					t.Run(fmt.Sprintf("%s/%s/%s/d%d", name, ckpt, layout, d), func(t *testing.T) {
						events := run(t, openSession(t, e, delay(d)), pcm)
						require.Equal(t, want.I32(fmt.Sprintf("d%d.tokens", d)), tokens(events))
						margins := make([]float32, len(events))
						for i, ev := range events {
							margins[i] = ev.Margin
						}
						wantMargins, _ := want.F32(fmt.Sprintf("d%d.margins", d))
						golden.Close(t, "margins", margins, wantMargins, golden.Tol{Abs: 1e-3, Rel: 1e-3})
					})
				}
			}
		}
	}
}

// trace collects the rows that ops leave behind, by label and then by row of the stream.
type trace map[string]map[int][]float32

func (tr trace) record(label string, first, rows, cols int, out []float32) {
	if tr[label] == nil {
		tr[label] = map[int][]float32{}
	}
	if label == "dec.norm" || label == "dec.logits" { // only the last row of a step has them
		tr[label][len(tr[label])] = slices.Clone(out)
		return
	}
	if len(label) > 4 && label[:4] == "enc." {
		first *= encoder.TickRows
	}
	for r := range rows {
		tr[label][first+r] = slices.Clone(out[r*cols : (r+1)*cols])
	}
}

// gather puts the named rows of a label one after the other.
func (tr trace) gather(t *testing.T, label string, rows []int32) []float32 {
	var out []float32
	for _, r := range rows {
		require.Contains(t, tr[label], int(r), "%s row %d was never computed", label, r)
		out = append(out, tr[label][int(r)]...)
	}
	return out
}

func upTo(from, to int) []int32 {
	rows := make([]int32, 0, to-from)
	for r := from; r < to; r++ {
		rows = append(rows, int32(r))
	}
	return rows
}

// Every stage of the pipeline lies within 1e-4 of the reference.
func TestGoldenStages(t *testing.T) {
	pcm := load(t, "audio.safetensors").PCM("pcm")
	for name, dev := range devices(t) {
		for _, ckpt := range checkpoints {
			t.Run(name+"/"+ckpt, func(t *testing.T) {
				g := load(t, ckpt, "golden.safetensors")
				m := openModel(t, fixture(t, ckpt, "mistral"))
				opt, tr := delay(6), trace{}
				opt.Trace, opt.NoSpeculation = tr.record, true
				s := openSession(t, openEngine(t, m, dev), opt)
				run(t, s, pcm)

				check := func(name, label string, rows []int32) {
					want, _ := g.F32("d6." + name)
					golden.Close(t, name, tr.gather(t, label, rows), want, golden.FP32)
				}
				enc := g.I32("d6.enc.rows")
				check("enc.stem", "enc.conv1", enc)
				for i := range m.Config.Encoder.Layers {
					check(fmt.Sprintf("enc.layer%d", i), fmt.Sprintf("enc.%d.ffn.out", i), enc)
				}
				check("enc.norm", "enc.norm", enc)
				positions := len(tr["dec.0.attn"])
				check("adapter", "adapter.1", upTo(0, positions))
				for i := range m.Config.Decoder.Layers {
					check(fmt.Sprintf("dec.layer%d", i), fmt.Sprintf("dec.%d.ffn.out", i), upTo(0, positions))
				}
				prompt := len(g.I32("d6.prompt"))
				require.Equal(t, prompt, s.schedule.PromptLen())
				norm, shape := g.F32("d6.dec.norm")
				golden.Close(t, "dec.norm", tr.gather(t, "dec.norm", upTo(0, positions-prompt+1)), norm[(prompt-1)*shape[1]:], golden.FP32)
				check("logits", "dec.logits", g.I32("d6.logits.rows"))

				ada, err := s.engine.adaScales(6)
				require.NoError(t, err)
				for i := range m.Config.Decoder.Layers {
					want, _ := g.F32(fmt.Sprintf("d6.dec.ada%d", i))
					golden.Close(t, fmt.Sprintf("ada%d", i), ada[i*len(want):(i+1)*len(want)], want, golden.FP32)
				}
			})
		}
	}
}

// Both layouts of a checkpoint give the same logits to the bit: reading half-split rows in interleaved order is exact.
func TestLayoutsAreIdentical(t *testing.T) {
	pcm := load(t, "audio.safetensors").PCM("pcm")
	for name, dev := range devices(t) {
		for _, ckpt := range checkpoints {
			t.Run(name+"/"+ckpt, func(t *testing.T) {
				var got [2]trace
				for i, layout := range []string{"huggingface", "mistral"} {
					got[i] = trace{}
					opt := delay(6)
					opt.Trace, opt.NoSpeculation = got[i].record, true
					run(t, openSession(t, openEngine(t, openModel(t, fixture(t, ckpt, layout)), dev), opt), pcm)
				}
				require.NotEmpty(t, got[0]["dec.logits"])
				require.Equal(t, got[0], got[1])
			})
		}
	}
}

// The prompt is the reference's at every delay.
func TestGoldenPrompt(t *testing.T) {
	m := openModel(t, fixture(t, "tiny-a", "mistral"))
	g := load(t, "tiny-a", "golden.safetensors")
	for _, d := range []int{1, 6, 12, 30} {
		s := openSession(t, openEngine(t, m, interp.New()), delay(d))
		require.Equal(t, g.I32(fmt.Sprintf("d%d.prompt", d)), s.prefill.clock.Tokens(), filepath.Base(m.Path))
	}
}
