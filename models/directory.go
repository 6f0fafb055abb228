package models

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"voxtral/internal/device"
)

// Files of the two layouts.
const (
	paramsFile       = "params.json"
	consolidatedFile = "consolidated.safetensors"
	configFile       = "config.json"
	modelFile        = "model.safetensors"
	indexFile        = "model.safetensors.index.json"
	tekkenFile       = "tekken.json"
)

// maxJSON bounds a config or index file; tekken.json of the published model has 15 MB.
const maxJSON = 256 << 20

func (m *Model) openDir(dir string) error {
	layout, err := layoutOf(dir)
	if err != nil {
		return err
	}
	m.Layout = layout
	config := paramsFile
	if layout == HuggingFace {
		config = configFile
	}
	doc, err := readSmall(filepath.Join(dir, config))
	if err != nil {
		return err
	}
	cfg, err := parseConfig(config, doc, layout)
	if err != nil {
		return err
	}
	m.Config = *cfg
	if err := m.readTekken(dir); err != nil {
		return err
	}
	if layout == Mistral {
		err = m.addFile(dir, consolidatedFile)
	} else {
		err = m.addHuggingFace(dir)
	}
	if err != nil {
		return err
	}
	return m.bind()
}

// layoutOf decides by the files alone. Mistral's layout is the original and wins over a complete second one.
func layoutOf(dir string) (Layout, error) {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	weights := has(modelFile) || has(indexFile)
	var missing string
	switch {
	case has(paramsFile) && has(consolidatedFile):
		return Mistral, nil
	case has(configFile) && weights:
		return HuggingFace, nil
	case has(paramsFile) && !has(configFile):
		missing = consolidatedFile
	case has(consolidatedFile):
		missing = paramsFile
	case has(configFile):
		missing = modelFile + " (or " + indexFile + ")"
	case weights:
		missing = configFile
	default:
		return 0, fmt.Errorf("%s is no model: it needs %s, %s and %s, or %s, %s and %s",
			dir, paramsFile, consolidatedFile, tekkenFile, configFile, modelFile, tekkenFile)
	}
	return 0, fmt.Errorf("%s: %s is missing", dir, missing)
}

func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxJSON {
		return nil, fmt.Errorf("%s has %d bytes, want at most %d", path, info.Size(), maxJSON)
	}
	return os.ReadFile(path)
}

func (m *Model) readTekken(dir string) error {
	doc, err := readSmall(filepath.Join(dir, tekkenFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %s is missing: the vocabulary comes from it in both layouts", dir, tekkenFile)
	}
	if err != nil {
		return err
	}
	tokens, audio, err := parseTekken(tekkenFile, doc)
	if err != nil {
		return err
	}
	if audio.delay > 0 {
		m.Config.DefaultDelay = audio.delay
	}
	if audio.leftPad >= 0 {
		m.Config.LeftPad = audio.leftPad
	}
	m.Tokenizer, m.tekken = tokens, doc
	return m.checkVocab(tekkenFile)
}

func (m *Model) checkVocab(tekken string) error {
	if m.Tokenizer.VocabSize != m.Config.Decoder.Vocab {
		return fmt.Errorf("%s has a vocabulary of %d, the model of %d: they do not belong together", tekken, m.Tokenizer.VocabSize, m.Config.Decoder.Vocab)
	}
	return nil
}

func (m *Model) addFile(dir, name string) error {
	data, err := m.mapFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	f, err := parseSafetensors(name, data)
	if err != nil {
		return err
	}
	m.files = append(m.files, f)
	return nil
}

func (m *Model) addHuggingFace(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, modelFile)); err == nil {
		return m.addFile(dir, modelFile)
	}
	doc, err := readSmall(filepath.Join(dir, indexFile))
	if err != nil {
		return err
	}
	shards, err := parseIndex(doc)
	if err != nil {
		return fmt.Errorf("%s: %w", indexFile, err)
	}
	for _, name := range shards {
		if err := m.addFile(dir, name); err != nil {
			return err
		}
	}
	return m.checkIndex(doc)
}

// parseIndex returns the shards that the weight map names, sorted.
func parseIndex(doc []byte) ([]string, error) {
	var shards []string
	err := eachWeight(doc, func(_, shard string) error {
		at, known := slices.BinarySearch(shards, shard)
		switch {
		case known:
		case shard == "" || filepath.Base(shard) != shard:
			return fmt.Errorf("%s is not the name of a file beside it", clip([]byte(shard)))
		case len(shards) == 1000:
			return fmt.Errorf("it names more than %d files", len(shards))
		default:
			shards = slices.Insert(shards, at, shard)
		}
		return nil
	})
	if err == nil && len(shards) == 0 {
		err = fmt.Errorf("weight_map names no file")
	}
	return shards, err
}

func eachWeight(doc []byte, f func(tensor, shard string) error) error {
	c := cursor{data: find(doc, "weight_map")}
	if c.data == nil {
		return fmt.Errorf("it is no JSON object with a weight_map")
	}
	for tensor := range c.object() {
		shard := c.text()
		if c.err != nil {
			break
		}
		if err := f(string(tensor), shard); err != nil {
			return err
		}
	}
	return c.err
}

// checkIndex checks that the weight map tells the truth about the shards.
func (m *Model) checkIndex(doc []byte) error {
	listed := 0
	err := eachWeight(doc, func(tensor, shard string) error {
		listed++
		at := slices.IndexFunc(m.files, func(f *container) bool { return f.name == shard })
		if _, ok := m.files[at].get(tensor); !ok {
			return fmt.Errorf("%s: tensor %s is not in %s", indexFile, clip([]byte(tensor)), shard)
		}
		return nil
	})
	if err != nil {
		return err
	}
	total := 0
	for _, f := range m.files {
		total += len(f.tensors)
	}
	if listed != total {
		return fmt.Errorf("%s lists %d tensors, the shards have %d", indexFile, listed, total)
	}
	return nil
}

// found is a tensor and the file it is in.
type found struct {
	*rawTensor
	file *container
}

// bind finds every tensor of the model, checks it, and leaves nothing over.
func (m *Model) bind() error {
	all := map[string]found{}
	for _, f := range m.files {
		for i := range f.tensors {
			t := &f.tensors[i]
			if other, twice := all[t.name]; twice {
				return fmt.Errorf("tensor %s is in both %s and %s", t.name, other.file.name, f.name)
			}
			all[t.name] = found{t, f}
		}
	}
	names, err := m.naming(all)
	if err != nil {
		return err
	}
	if m.Layout == HuggingFace {
		m.adaFromShape(all, names)
	}
	m.tensors = map[string]*stored{}
	var missing []string
	for s := range specs(&m.Config) {
		name := s.name
		if m.Layout == HuggingFace {
			name = names.file(s.hf)
		}
		t, ok := all[name]
		if !ok {
			missing = append(missing, name)
			continue
		}
		delete(all, name)
		if err := m.add(s, t); err != nil {
			return err
		}
	}
	if missing != nil {
		return fmt.Errorf("%s: tensor %s is missing", m.files[0].name, listFirst(missing))
	}
	return m.checkRest(all, names)
}

// naming tells which of the two Hugging Face namings a file follows; a mixture is refused.
func (m *Model) naming(all map[string]found) (naming, error) {
	if m.Layout != HuggingFace {
		return naming{}, nil
	}
	var nested, plain string
	for name := range all {
		switch {
		case naming{}.isHead(name) || isDerived(name):
		case bytes.HasPrefix([]byte(name), []byte(nestedPrefix)):
			nested = max(nested, name)
		default:
			plain = max(plain, name)
		}
	}
	if nested != "" && plain != "" {
		return naming{}, fmt.Errorf("%s: tensor %s has the prefix %q and %s has not: two namings are mixed", m.files[0].name, nested, nestedPrefix, plain)
	}
	return naming{nested: nested != ""}, nil
}

// adaFromShape takes the delay conditioning's inner width from the weights: config.json does not always say it.
func (m *Model) adaFromShape(all map[string]found, names naming) {
	t, ok := all[names.file("language_model.model.layers.0."+hfAda0)]
	if ok && t.rank == 2 && t.dims[0] > 0 && t.dims[0] <= 4096 {
		m.Config.Decoder.AdaDim = int(t.dims[0])
	}
}

func (m *Model) add(s spec, t found) error {
	format, ok := t.floatFormat()
	if !ok {
		return fmt.Errorf("%s: tensor %s has dtype %s, want BF16, F16 or F32", t.file.name, t.name, dtypeNames[t.dtype])
	}
	if !slices.Equal(t.shape(), s.shape) {
		return fmt.Errorf("%s: tensor %s is %s, the configuration wants %s", t.file.name, t.name, dims(t.shape()), dims(s.shape))
	}
	part := device.Part{Name: s.name, Rows: s.shape[0], Cols: 1, Format: format, Data: t.file.bytes(t.rawTensor)}
	for _, d := range s.shape[1:] {
		part.Cols *= d
	}
	if m.Layout == HuggingFace {
		part.RotaryHead = s.head
	}
	m.tensors[s.name] = &stored{part: part, shape: s.shape}
	m.order = append(m.order, s.name)
	return nil
}

// checkRest accepts a tied LM head and derived constants beside the model's tensors, and nothing else.
func (m *Model) checkRest(all map[string]found, names naming) error {
	var extra []string
	for name, t := range all {
		switch {
		case m.Layout == HuggingFace && isDerived(name):
		case m.Layout == HuggingFace && names.isHead(name):
			tied := m.tensors[TokEmbeddings]
			if !slices.Equal(t.shape(), tied.shape) || !bytes.Equal(t.file.bytes(t.rawTensor), tied.part.Data) {
				return fmt.Errorf("%s: tensor %s differs from the embeddings: only a tied LM head is supported", t.file.name, name)
			}
		default:
			extra = append(extra, name)
		}
	}
	if extra != nil {
		slices.Sort(extra)
		return fmt.Errorf("%s: tensor %s is not part of the model", all[extra[0]].file.name, listFirst(extra))
	}
	return nil
}
