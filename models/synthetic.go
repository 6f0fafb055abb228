package models

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"

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

// fill writes n random bytes of the named tensor, a chunk after the other, each drawn on all cores.
func (s *synthesizer) fill(buf []byte, n int, name string, table *drawTable) error {
	seed := nameSeed(name)
	for from := 0; from < n; from += len(buf) {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		chunk := buf[:min(len(buf), n-from)]
		blocks := (len(chunk) + drawBlock - 1) / drawBlock
		workers := min(goruntime.GOMAXPROCS(0), blocks)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for b := w * blocks / workers; b < (w+1)*blocks/workers; b++ {
					at := b * drawBlock
					table.draw(chunk[at:min(at+drawBlock, len(chunk))], seed+uint64(from+at)*0x9e3779b97f4a7c15)
				}
			})
		}
		wg.Wait()
		if err := s.out.write(chunk); err != nil {
			return err
		}
		s.advance(len(chunk))
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

func nameSeed(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// splitmix is a generator whose every state is a good start, so that each block of a tensor has a stream of its own.
type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// drawBlock is how many bytes come from one stream.
const drawBlock = 64 << 10

// drawTable turns 16 random bits into one element, or a byte of two; width is its bytes.
type drawTable struct {
	values [1 << 16]uint16
	width  int
}

func (t *drawTable) draw(dst []byte, seed uint64) {
	r := splitmix(seed)
	if t.width == 1 {
		for ; len(dst) >= 4; dst = dst[4:] {
			x := r.next()
			v := uint32(t.values[x&0xffff]) | uint32(t.values[x>>16&0xffff])<<8 | uint32(t.values[x>>32&0xffff])<<16 | uint32(t.values[x>>48])<<24
			binary.LittleEndian.PutUint32(dst, v)
		}
		for i := range dst {
			dst[i] = byte(t.values[r.next()>>48])
		}
		return
	}
	for ; len(dst) >= 8; dst = dst[8:] {
		x := r.next()
		v := uint64(t.values[x&0xffff]) | uint64(t.values[x>>16&0xffff])<<16 | uint64(t.values[x>>32&0xffff])<<32 | uint64(t.values[x>>48])<<48
		binary.LittleEndian.PutUint64(dst, v)
	}
	for ; len(dst) >= 2; dst = dst[2:] {
		binary.LittleEndian.PutUint16(dst, t.values[r.next()>>48])
	}
}

// codeStd is the standard deviation of the codes, which leaves the range about as full as quantizing does.
var codeStd = map[device.Format]float64{device.Int4: 2.8, device.Int8: 42}

// codeTables are made once: the codes of all tensors are distributed alike.
var codeTables = struct{ int4, int8 func() *drawTable }{
	int4: sync.OnceValue(func() *drawTable {
		t := &drawTable{width: 1}
		nibble := func(i int) int { return code(i, 1<<8, device.Int4, -8, 7) + 8 }
		for i := range t.values {
			t.values[i] = uint16(nibble(i&0xff) | nibble(i>>8)<<4)
		}
		return t
	}),
	int8: sync.OnceValue(func() *drawTable {
		t := &drawTable{width: 1}
		for i := range t.values {
			t.values[i] = uint16(uint8(int8(code(i, 1<<16, device.Int8, -128, 127))))
		}
		return t
	}),
}

func code(i, n int, f device.Format, lo, hi int) int {
	return min(max(int(math.Round(codeStd[f]*gaussian(i, n))), lo), hi)
}

// gaussian is the middle of the i-th of n equally likely slices of the normal distribution.
func gaussian(i, n int) float64 { return math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/float64(n)-1) }

func bf16Table(std float64) *drawTable {
	t := &drawTable{width: 2}
	x := make([]float32, len(t.values))
	for i := range x {
		x[i] = float32(std * gaussian(i, len(x)))
	}
	b := make([]byte, 2*len(x))
	encodeBF16(b, x)
	for i := range t.values {
		t.values[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return t
}

// scaleTable spreads scales evenly by a quarter to either side of their mean.
func scaleTable(mean float64) *drawTable {
	t := &drawTable{width: 2}
	for i := range t.values {
		t.values[i] = device.FloatToHalf(float32(mean * (0.75 + 0.5*float64(i)/float64(len(t.values)))))
	}
	return t
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
