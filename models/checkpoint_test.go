package models

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/internal/device"
)

// tiny is a model with grouped queries, odd sizes and more than one layer.
func tiny() *Config {
	return &Config{
		Encoder: EncoderConfig{Dim: 20, Layers: 2, Heads: 3, KVHeads: 3, HeadDim: 8, Hidden: 36, Window: 12, MelBins: 5,
			Downsample: 4, RopeTheta: 1e6, NormEps: 1e-5},
		Decoder: DecoderConfig{Dim: 44, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 6, Hidden: 70, Window: 9, Vocab: 310,
			AdaDim: 7, MaxPositions: 500, RopeTheta: 1e6, NormEps: 1e-5},
		DefaultDelay: 6, LeftPad: 32,
	}
}

// entry is one tensor of a fixture.
type entry struct {
	dtype string
	shape []int
	data  []byte
}

type tensorSet map[string]entry

// randomTensors makes every tensor of a model in BF16, in Mistral's names and order of rows.
func randomTensors(c *Config, seed uint64) tensorSet {
	rng := rand.New(rand.NewPCG(seed, 1))
	set := tensorSet{}
	for s := range specs(c) {
		n := 1
		for _, d := range s.shape {
			n *= d
		}
		data := make([]byte, 2*n)
		for i := range n {
			binary.LittleEndian.PutUint16(data[2*i:], uint16(math.Float32bits(float32(rng.NormFloat64()*0.05))>>16))
		}
		set[s.name] = entry{"BF16", s.shape, data}
	}
	return set
}

// huggingFace renames tensors and splits the rotary halves of q and k, by the definition new[h, c, i] = old[h, 2i+c].
func huggingFace(c *Config, set tensorSet, rename func(string) string) tensorSet {
	out := tensorSet{}
	for s := range specs(c) {
		e := set[s.name]
		if s.head > 0 {
			row := len(e.data) / e.shape[0]
			data := make([]byte, 0, len(e.data))
			for h := range e.shape[0] / s.head {
				for half := range 2 {
					for i := range s.head / 2 {
						at := (h*s.head + 2*i + half) * row
						data = append(data, e.data[at:at+row]...)
					}
				}
			}
			e.data = data
		}
		out[rename(s.hf)] = e
	}
	return out
}

func published(name string) string { return name }

func nested(name string) string { return naming{nested: true}.file(name) }

// encodeSafetensors writes tensors in the order of their names.
func encodeSafetensors(set tensorSet) []byte {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	sort.Strings(names)
	header, data := map[string]any{"__metadata__": map[string]string{"format": "pt"}}, []byte(nil)
	for _, name := range names {
		e := set[name]
		header[name] = map[string]any{"dtype": e.dtype, "shape": e.shape, "data_offsets": []int{len(data), len(data) + len(e.data)}}
		data = append(data, e.data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(out, text...), data...)
}

func tekkenJSON(vocab, specials int) []byte {
	type token struct {
		Rank  int     `json:"rank"`
		Bytes string  `json:"token_bytes"`
		Str   *string `json:"token_str"`
	}
	type control struct {
		Rank int    `json:"rank"`
		Str  string `json:"token_str"`
		Ctl  bool   `json:"is_control"`
	}
	tokens := make([]token, 0, vocab-specials+5)
	for rank := range vocab - specials + 5 { // more than the model uses
		b := []byte{byte(rank)}
		if rank > 255 {
			b = fmt.Appendf(nil, " w%d", rank)
		}
		tokens = append(tokens, token{Rank: rank, Bytes: base64.StdEncoding.EncodeToString(b)})
	}
	controls := make([]control, 0, len(neededSpecials))
	for _, s := range neededSpecials {
		controls = append(controls, control{s.id, s.name, true})
	}
	b, err := json.Marshal(map[string]any{
		"config":         map[string]any{"default_vocab_size": vocab, "default_num_special_tokens": specials, "num_vocab_tokens": len(tokens)},
		"vocab":          tokens,
		"special_tokens": controls,
		"audio":          map[string]any{"sampling_rate": 16000, "frame_rate": 12.5, "transcription_delay_ms": 480, "streaming_n_left_pad_tokens": 32},
	})
	if err != nil {
		panic(err)
	}
	return b
}

func paramsJSON(c *Config) []byte {
	e, d := c.Encoder, c.Decoder
	return fmt.Appendf(nil, `{"dim":%d,"n_layers":%d,"head_dim":%d,"hidden_dim":%d,"n_heads":%d,"n_kv_heads":%d,"use_biases":false,
"causal":true,"rope_theta":1e6,"norm_eps":1e-05,"vocab_size":%d,"model_parallel":1,"tied_embeddings":true,"sliding_window":"%d",
"model_max_length":%d,"multimodal":{"whisper_model_args":{"encoder_args":{"audio_encoding_args":{"sampling_rate":16000,
"frame_rate":12.5,"num_mel_bins":%d,"hop_length":160,"window_size":400,"chunk_length_s":null,"global_log_mel_max":1.5,
"transcription_format":"streaming"},"dim":%d,"n_layers":%d,"head_dim":%d,"hidden_dim":%d,"n_heads":%d,"vocab_size":131072,
"n_kv_heads":%d,"use_biases":true,"use_cache":false,"rope_theta":1000000.0,"causal":true,"norm_eps":1e-05,"pos_embed":"rope",
"max_source_positions":null,"ffn_type":"swiglu","norm_type":"rms_norm","sliding_window":%d},"downsample_args":
{"downsample_factor":4}}},"ada_rms_norm_t_cond":true,"ada_rms_norm_t_cond_dim":%d}`,
		d.Dim, d.Layers, d.HeadDim, d.Hidden, d.Heads, d.KVHeads, d.Vocab, d.Window, d.MaxPositions,
		e.MelBins, e.Dim, e.Layers, e.HeadDim, e.Hidden, e.Heads, e.KVHeads, e.Window, d.AdaDim)
}

func configJSON(c *Config) []byte {
	e, d := c.Encoder, c.Decoder
	return fmt.Appendf(nil, `{"model_type":"voxtral_realtime","audio_config":{"hidden_size":%d,"intermediate_size":%d,
"num_hidden_layers":%d,"num_attention_heads":%d,"head_dim":%d,"num_mel_bins":%d,"rms_norm_eps":1e-05,"hidden_act":"silu",
"activation_function":"gelu","rope_parameters":{"rope_type":"default","rope_theta":1000000.0},"sliding_window":%d},
"text_config":{"vocab_size":%d,"hidden_size":%d,"intermediate_size":%d,"num_hidden_layers":%d,"num_attention_heads":%d,
"num_key_value_heads":%d,"head_dim":%d,"hidden_act":"silu","max_position_embeddings":%d,"rms_norm_eps":1e-05,"rope_theta":1e6,
"sliding_window":%d},"audio_length_per_tok":8,"default_num_delay_tokens":6,"downsample_factor":4}`,
		e.Dim, e.Hidden, e.Layers, e.Heads, e.HeadDim, e.MelBins, e.Window,
		d.Vocab, d.Dim, d.Hidden, d.Layers, d.Heads, d.KVHeads, d.HeadDim, d.MaxPositions, d.Window)
}

// writeDir writes files into a fresh directory.
func writeDir(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return dir
}

func mistralFiles(c *Config, set tensorSet) map[string][]byte {
	return map[string][]byte{paramsFile: paramsJSON(c), consolidatedFile: encodeSafetensors(set), tekkenFile: tekkenJSON(c.Decoder.Vocab, 40)}
}

func hfFiles(c *Config, set tensorSet, rename func(string) string) map[string][]byte {
	return map[string][]byte{configFile: configJSON(c), modelFile: encodeSafetensors(huggingFace(c, set, rename)),
		tekkenFile: tekkenJSON(c.Decoder.Vocab, 40)}
}

// shard splits a single-file checkpoint into n files with an index.
func shard(files map[string][]byte, set tensorSet, n int) {
	delete(files, modelFile)
	parts, weights, i := make([]tensorSet, n), map[string]string{}, 0
	for name, e := range set {
		if parts[i%n] == nil {
			parts[i%n] = tensorSet{}
		}
		parts[i%n][name] = e
		weights[name] = fmt.Sprintf("model-%05d-of-%05d.safetensors", i%n+1, n)
		i++
	}
	for i, p := range parts {
		files[fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, n)] = encodeSafetensors(p)
	}
	index, err := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": 1}, "weight_map": weights})
	if err != nil {
		panic(err)
	}
	files[indexFile] = index
}

func open(t testing.TB, path string) *Model {
	t.Helper()
	m, err := Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// logical is a matrix in logical order, or a vector, as float32.
func logical(t testing.TB, m *Model, info TensorInfo) []float32 {
	t.Helper()
	if len(info.Shape) == 1 {
		v, err := m.Vector(info.Name)
		require.NoError(t, err)
		return v
	}
	p, err := m.Matrix(info.Name)
	require.NoError(t, err)
	return dense(&p)
}

func dense(p *device.Part) []float32 {
	out := make([]float32, p.Rows*p.Cols)
	for r := range p.Rows {
		p.Dequantize(out[r*p.Cols:], p.StoredRow(r))
	}
	return out
}

func requireSameModel(t *testing.T, want, got *Model) {
	t.Helper()
	require.Equal(t, want.Config, got.Config)
	require.Equal(t, want.order, got.order)
	for _, info := range want.Tensors() {
		require.Equal(t, logical(t, want, info), logical(t, got, info), info.Name)
	}
}

// requireOneError checks that an error says all of the given things on one line.
func requireOneError(t *testing.T, err error, parts ...string) {
	t.Helper()
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\n")
	for _, p := range parts {
		require.True(t, strings.Contains(err.Error(), p), "%q does not say %q", err, p)
	}
}
