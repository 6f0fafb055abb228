package models

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"voxtral/internal/device"
)

// syntheticRecipe changes whenever other weights come out of the same options.
const syntheticRecipe = "1"

// syntheticConfigs are the architectures that Synthetic knows: the published model (MODEL.md 2), the built-in
// demonstration model, and one for tests.
var syntheticConfigs = map[string]Config{
	"4b": {
		Encoder: EncoderConfig{
			Dim: 1280, Layers: 32, Heads: 32, KVHeads: 32, HeadDim: 64, Hidden: 5120, Window: 750, MelBins: 128,
			Downsample: 4, RopeTheta: 1e6, NormEps: 1e-5,
		},
		Decoder: DecoderConfig{
			Dim: 3072, Layers: 26, Heads: 32, KVHeads: 8, HeadDim: 128, Hidden: 9216, Window: 8192, Vocab: 131072,
			AdaDim: 32, MaxPositions: 131072, RopeTheta: 1e6, NormEps: 1e-5,
		},
		DefaultDelay: 6, LeftPad: 32,
	},
	"demo": {
		Encoder: EncoderConfig{
			Dim: 256, Layers: 8, Heads: 4, KVHeads: 4, HeadDim: 64, Hidden: 768, Window: 256, MelBins: 128,
			Downsample: 4, RopeTheta: 1e6, NormEps: 1e-5,
		},
		Decoder: DecoderConfig{
			Dim: 384, Layers: 4, Heads: 6, KVHeads: 2, HeadDim: 64, Hidden: 1024, Window: 256, Vocab: 2024,
			AdaDim: 32, MaxPositions: 131072, RopeTheta: 1e6, NormEps: 1e-5,
		},
		DefaultDelay: 6, LeftPad: 32,
	},
	"tiny": {
		Encoder: EncoderConfig{
			Dim: 64, Layers: 2, Heads: 2, KVHeads: 2, HeadDim: 32, Hidden: 160, Window: 40, MelBins: 128,
			Downsample: 4, RopeTheta: 1e6, NormEps: 1e-5,
		},
		Decoder: DecoderConfig{
			Dim: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 32, Hidden: 192, Window: 64, Vocab: 1400,
			AdaDim: 8, MaxPositions: 4096, RopeTheta: 1e6, NormEps: 1e-5,
		},
		DefaultDelay: 6, LeftPad: 32,
	},
}

// SyntheticSizes are the names that Synthetic takes.
func SyntheticSizes() []string { return []string{"4b", "demo", "tiny"} }

// SyntheticOptions says how a synthetic model is packed; as for Quantize.
type SyntheticOptions struct {
	Format   device.Format // BF16, Int8 or Int4, for most matrices
	Head     device.Format // of the embeddings; F32 stands for the default
	Group    int           // 0 stands for the default
	Progress func(done, total int64)
}

// Synthetic writes a packed model of a known architecture with random weights, the same ones on every machine, to the
// file dst, which appears whole or not at all. It hears nothing and says nonsense, but computes what a real model
// computes: codes are roughly Gaussian, and scales keep every activation near one. Codes are drawn in the packed format
// itself, so that the weights never exist in a larger one.
func Synthetic(ctx context.Context, dst, size string, opt SyntheticOptions) error {
	s, err := newSynthesizer(ctx, size, opt)
	if err == nil {
		err = s.run(dst)
	}
	if err != nil {
		return fmt.Errorf("models: synthetic %s: %w", size, err)
	}
	return nil
}

// OpenSynthetic opens a synthetic model in the folder dir, and writes it first if it is not there, is damaged, or was
// written by another recipe or in another layout; wrote tells. An empty dir is the user's cache.
func OpenSynthetic(ctx context.Context, dir, size string, opt SyntheticOptions) (m *Model, wrote bool, err error) {
	s, err := newSynthesizer(ctx, size, opt)
	if err != nil {
		return nil, false, fmt.Errorf("models: synthetic %s: %w", size, err)
	}
	if dir == "" {
		if dir, err = os.UserCacheDir(); err != nil {
			return nil, false, fmt.Errorf("models: synthetic %s: no folder to keep it in: %w", size, err)
		}
		dir = filepath.Join(dir, "voxtral")
	}
	path := filepath.Join(dir, s.fileName())
	if m, err = Open(path); err == nil && m.Meta.Source == s.source {
		return m, false, nil
	}
	if err == nil {
		_ = m.Close() // replaced next
	}
	if err = os.MkdirAll(dir, 0o777); err == nil {
		err = s.run(path)
	}
	if err != nil {
		return nil, false, fmt.Errorf("models: synthetic %s: %w", size, err)
	}
	m, err = Open(path)
	return m, true, err
}

// synthesizer is one run. It borrows the quantizer's plan, so that the file is what Quantize would have written.
type synthesizer struct {
	quantizer
	source string // hash of the recipe, in hexadecimal
}

func newSynthesizer(ctx context.Context, size string, opt SyntheticOptions) (*synthesizer, error) {
	cfg, ok := syntheticConfigs[size]
	if !ok {
		return nil, fmt.Errorf("there is no such architecture: use %s", strings.Join(SyntheticSizes(), ", "))
	}
	if opt.Head == device.F32 {
		opt.Head = defaultHead(opt.Format)
	}
	for _, f := range []device.Format{opt.Format, opt.Head} {
		if f != device.BF16 && f != device.Int8 && f != device.Int4 {
			return nil, fmt.Errorf("format %s cannot be written: use bf16, int8 or int4", f)
		}
	}
	if opt.Group != 0 && !device.ValidGroup(opt.Group) {
		return nil, fmt.Errorf("group size %d, want 32, 64 or 128", opt.Group)
	}
	m := &Model{Name: "synthetic-" + size, Layout: Packed, Config: cfg, tensors: map[string]*stored{}}
	for t := range specs(&m.Config) {
		part := device.Part{Name: t.name, Rows: t.shape[0], Cols: 1}
		for _, n := range t.shape[1:] {
			part.Cols *= n
		}
		m.tensors[t.name] = &stored{part: part, shape: t.shape}
		m.order = append(m.order, t.name)
	}
	s := &synthesizer{quantizer: quantizer{ctx: ctx, src: m, opt: QuantizeOptions{
		Format: opt.Format, Head: opt.Head, Group: opt.Group, Progress: opt.Progress,
	}}}
	config, err := cfg.encode()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(fmt.Appendln(nil, syntheticRecipe, packedVersion, config, opt.Format, opt.Head, s.group(opt.Format), s.group(opt.Head)))
	s.source = hex.EncodeToString(sum[:])
	return s, nil
}

// fileName tells models of different making apart.
func (s *synthesizer) fileName() string {
	name := fmt.Sprintf("%s-%s", s.src.Name, s.opt.Format)
	if s.opt.Head != defaultHead(s.opt.Format) {
		name += "-head-" + s.opt.Head.String()
	}
	if s.opt.Group != 0 {
		name += fmt.Sprintf("-group-%d", s.opt.Group)
	}
	return fmt.Sprintf("%s-%s.voxtral", name, packedVersion)
}

func (s *synthesizer) run(dst string) (err error) {
	if s.src.tekken, err = syntheticTekken(s.src.Config.Decoder.Vocab); err != nil {
		return err
	}
	meta, plan, err := s.layOut()
	if err != nil {
		return err
	}
	for _, t := range plan {
		s.size += t.bytes
	}
	if s.out, err = newPackWriter(dst, meta, plan); err != nil {
		return err
	}
	if err = s.writeAll(); err != nil {
		return s.out.abandon(err)
	}
	_, err = s.out.commit(s.source)
	return err
}

func (s *synthesizer) writeAll() error {
	if err := s.out.write(s.src.tekken); err != nil {
		return err
	}
	buf := make([]byte, chunkBytes)
	for _, name := range s.src.order {
		t := s.src.tensors[name]
		f, group := s.target(name, t.shape)
		if len(t.shape) == 1 {
			if err := s.out.write(syntheticVector(name, t.shape[0])); err != nil {
				return err
			}
			continue
		}
		// Rows of this size turn inputs near one into outputs near one.
		std := 1 / math.Sqrt(float64(t.part.Cols))
		var table *drawTable
		switch f {
		case device.BF16:
			table = bf16Table(std)
		case device.Int8:
			table = codeTables.int8()
		default:
			table = codeTables.int4()
		}
		if err := s.fill(buf, t.part.Rows*f.RowBytes(t.part.Cols, group), name, table); err != nil {
			return err
		}
		if f.Grouped() {
			scales := scaleTable(std / codeStd[f])
			if err := s.fill(buf, 2*t.part.Rows*device.Groups(t.part.Cols, group), name+scalesSuffix, scales); err != nil {
				return err
			}
		}
	}
	return nil
}

// syntheticVector is ones for a norm and small numbers for a bias.
func syntheticVector(name string, n int) []byte {
	v := make([]float32, n)
	r := splitmix(nameSeed(name))
	for i := range v {
		v[i] = 1
		if strings.HasSuffix(name, ".bias") {
			v[i] = 0.05 * (float32(r.next()>>40)/(1<<24) - 0.5)
		}
	}
	out := make([]byte, 4*n)
	encodeF32(out, v)
	return out
}

// syntheticTekken is a vocabulary of single bytes and made-up words.
func syntheticTekken(vocab int) ([]byte, error) {
	const specials = 1000
	type token struct {
		Rank  int    `json:"rank"`
		Bytes []byte `json:"token_bytes"` // base64 in JSON
	}
	type control struct {
		Rank int    `json:"rank"`
		Name string `json:"token_str"`
	}
	var doc struct {
		Config struct {
			Size     int `json:"default_vocab_size"`
			Specials int `json:"default_num_special_tokens"`
		} `json:"config"`
		Vocab    []token   `json:"vocab"`
		Specials []control `json:"special_tokens"`
		Audio    struct {
			Delay   int `json:"transcription_delay_ms"`
			LeftPad int `json:"streaming_n_left_pad_tokens"`
		} `json:"audio"`
	}
	doc.Config.Size, doc.Config.Specials = vocab, specials
	doc.Audio.Delay, doc.Audio.LeftPad = 480, 32
	for rank := range vocab - specials {
		word := []byte{byte(rank)}
		if rank > 0xff {
			word = syntheticWord(rank)
		}
		doc.Vocab = append(doc.Vocab, token{rank, word})
	}
	for _, s := range neededSpecials {
		doc.Specials = append(doc.Specials, control{s.id, s.name})
	}
	return json.Marshal(doc)
}

// syntheticWord spells a number in syllables.
func syntheticWord(n int) []byte {
	const consonants, vowels = "bdfghjklmnprstvwyz", "aeiou"
	word := []byte{}
	for ; n > 0; n /= len(consonants) * len(vowels) {
		i := n % (len(consonants) * len(vowels))
		word = append(word, vowels[i%len(vowels)], consonants[i/len(vowels)])
	}
	word = append(word, ' ')
	slices.Reverse(word)
	return word
}
