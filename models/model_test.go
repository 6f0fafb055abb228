package models

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// One set of weights reads the same from every layout, naming and split.
func TestLayoutsAgree(t *testing.T) {
	c := tiny()
	set := randomTensors(c, 1)
	m := open(t, writeDir(t, mistralFiles(c, set)))
	require.Equal(t, Mistral, m.Layout)
	require.Equal(t, *c, m.Config)

	files := hfFiles(c, set, published)
	hf := open(t, writeDir(t, files))
	require.Equal(t, HuggingFace, hf.Layout)
	requireSameModel(t, m, hf)

	shard(files, huggingFace(c, set, nested), 3)
	requireSameModel(t, m, open(t, writeDir(t, files)))

	withHead := huggingFace(c, set, nested)
	withHead["lm_head.weight"] = withHead[nested("language_model.model.embed_tokens.weight")]
	files = hfFiles(c, set, nested)
	files[modelFile] = encodeSafetensors(withHead)
	requireSameModel(t, m, open(t, writeDir(t, files)))
}

// A matrix is a view of the file, and the stored bytes of q differ between the layouts while its logical rows agree.
func TestRotaryRowsAreNotCopied(t *testing.T) {
	c := tiny()
	set := randomTensors(c, 2)
	m, hf := open(t, writeDir(t, mistralFiles(c, set))), open(t, writeDir(t, hfFiles(c, set, published)))
	a, err := m.Matrix(DecoderLayer(1, WQ))
	require.NoError(t, err)
	b, err := hf.Matrix(DecoderLayer(1, WQ))
	require.NoError(t, err)
	require.Zero(t, a.RotaryHead)
	require.Equal(t, c.Decoder.HeadDim, b.RotaryHead)
	require.NotEqual(t, a.Data, b.Data)
	require.Equal(t, dense(&a), dense(&b))
	require.True(t, within(hf.maps[0], b.Data))
}

// Opening allocates no copy of the weights.
func TestOpenMaps(t *testing.T) {
	c := tiny()
	c.Decoder.Dim = 2048
	set := randomTensors(c, 9)
	for _, files := range []map[string][]byte{mistralFiles(c, set), hfFiles(c, set, nested)} {
		dir := writeDir(t, files)
		size := max(len(files[consolidatedFile]), len(files[modelFile]))
		require.Greater(t, size, 10<<20)
		got := allocated(func() { open(t, dir) })
		require.Less(t, got, uint64(1<<20), "of %d bytes", size)
	}
}

func within(file, view []byte) bool {
	for i := range file {
		if &file[i] == &view[0] {
			return len(view) <= len(file)-i
		}
	}
	return false
}

// Whatever is wrong with a directory is one error that names the file and the tensor or field.
func TestBadDirectories(t *testing.T) {
	c := tiny()
	set := randomTensors(c, 3)
	wq := EncoderLayer(1, WQ)
	for name, tt := range map[string]struct {
		hf     bool
		change func(files map[string][]byte, set tensorSet)
		want   []string
	}{
		"no weights":      {false, func(f map[string][]byte, _ tensorSet) { f[consolidatedFile] = nil }, []string{consolidatedFile, "missing"}},
		"no params":       {false, func(f map[string][]byte, _ tensorSet) { f[paramsFile] = nil }, []string{paramsFile, "missing"}},
		"no tekken":       {false, func(f map[string][]byte, _ tensorSet) { f[tekkenFile] = nil }, []string{tekkenFile, "missing"}},
		"no hf weights":   {true, func(f map[string][]byte, _ tensorSet) { f[modelFile] = nil }, []string{modelFile, indexFile, "missing"}},
		"no config":       {true, func(f map[string][]byte, _ tensorSet) { f[configFile] = nil }, []string{configFile, "missing"}},
		"no hf tekken":    {true, func(f map[string][]byte, _ tensorSet) { f[tekkenFile] = nil }, []string{tekkenFile, "missing"}},
		"missing shard":   {true, func(f map[string][]byte, s tensorSet) { shard(f, s, 2); f["model-00002-of-00002.safetensors"] = nil }, []string{"model-00002-of-00002.safetensors"}},
		"missing tensor":  {false, func(_ map[string][]byte, s tensorSet) { delete(s, wq) }, []string{consolidatedFile, wq, "missing"}},
		"missing tensors": {false, func(_ map[string][]byte, s tensorSet) { delete(s, wq); delete(s, DecoderNorm) }, []string{"and 1 more"}},
		"extra tensor":    {false, func(_ map[string][]byte, s tensorSet) { s["surplus"] = s[wq] }, []string{consolidatedFile, "surplus", "not part"}},
		"shape": {false, func(_ map[string][]byte, s tensorSet) {
			e := s[wq]
			e.shape = []int{e.shape[1], e.shape[0]}
			s[wq] = e
		}, []string{wq, "[20, 24]", "[24, 20]"}},
		"dtype": {false, func(_ map[string][]byte, s tensorSet) { e := s[wq]; e.dtype = "I16"; s[wq] = e }, []string{wq, "BF16"}},
		"mixed names": {true, func(_ map[string][]byte, s tensorSet) {
			s["model.audio_tower.norm.weight"] = s["audio_tower.norm.weight"]
			delete(s, "audio_tower.norm.weight")
		}, []string{"model.audio_tower.norm.weight", "mixed"}},
		"untied head": {true, func(_ map[string][]byte, s tensorSet) {
			e := s["language_model.model.embed_tokens.weight"]
			e.data = slices.Clone(e.data)
			e.data[0] ^= 1
			s["lm_head.weight"] = e
		}, []string{"lm_head.weight", "tied"}},
		"other vocabulary": {false, func(f map[string][]byte, _ tensorSet) { f[tekkenFile] = tekkenJSON(320, 40) }, []string{tekkenFile, "320", "310"}},
	} {
		t.Run(name, func(t *testing.T) {
			files, weights, tensors := mistralFiles(c, set), consolidatedFile, randomTensors(c, 3)
			if tt.hf {
				files, weights, tensors = hfFiles(c, set, published), modelFile, huggingFace(c, tensors, published)
			}
			before := len(files)
			tt.change(files, tensors)
			if files[weights] != nil && len(files) == before {
				files[weights] = encodeSafetensors(tensors)
			}
			for name, data := range files {
				if data == nil {
					delete(files, name)
				}
			}
			_, err := Open(writeDir(t, files))
			requireOneError(t, err, tt.want...)
		})
	}
	_, err := Open(t.TempDir())
	requireOneError(t, err, paramsFile, consolidatedFile, configFile, modelFile, tekkenFile)
}

// Every number of a configuration is checked against its range, and the error names file and field.
func TestConfigRanges(t *testing.T) {
	c := tiny()
	for layout, doc := range map[Layout][]byte{Mistral: paramsJSON(c), HuggingFace: configJSON(c)} {
		for _, f := range configFields {
			path, _, _ := cut(f.path(layout))
			if find(doc, split(path)...) == nil {
				continue
			}
			for _, bad := range []string{"-1", "1e99", `"x"`, "true", "[]"} {
				_, err := parseConfig("file.json", replace(t, doc, split(path), bad), layout)
				requireOneError(t, err, "file.json", path)
			}
		}
	}
	for path, bad := range map[string]string{"head_dim": "5", "n_kv_heads": "3", "dim": "43", "causal": "false", encArgs + "ffn_type": `"mlp"`,
		audioArgs + "sampling_rate": "8000", "n_layers": "1.5"} {
		_, err := parseConfig(paramsFile, replace(t, paramsJSON(c), split(path), bad), Mistral)
		requireOneError(t, err, paramsFile, path)
	}
}

// A window that the file sets to null reaches as far as a stream does; one that it leaves out is an error.
func TestNoWindow(t *testing.T) {
	c := tiny()
	doc := replace(t, configJSON(c), split("text_config.sliding_window"), "null")
	got, err := parseConfig(configFile, replace(t, doc, split("audio_config.sliding_window"), "null"), HuggingFace)
	require.NoError(t, err)
	require.Equal(t, c.Decoder.MaxPositions, got.Decoder.Window)
	require.Equal(t, c.Decoder.MaxPositions*4, got.Encoder.Window)
}
