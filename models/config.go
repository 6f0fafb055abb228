package models

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// What the audio front end is built for; files that say otherwise are refused.
const (
	SampleRate = 16000 // Hz
	HopLength  = 160   // samples from one mel frame to the next
	WindowSize = 400   // samples of a mel frame
)

// EncoderConfig describes the audio encoder and adapter.
type EncoderConfig struct {
	Dim        int     `json:"dim"` // features of a row
	Layers     int     `json:"layers"`
	Heads      int     `json:"heads"`
	KVHeads    int     `json:"kv_heads"`
	HeadDim    int     `json:"head_dim"`   // features, all of them rotary
	Hidden     int     `json:"hidden"`     // features inside the feed-forward
	Window     int     `json:"window"`     // encoder rows (20 ms) seen by a query, itself included
	MelBins    int     `json:"mel_bins"`   // features of a mel frame
	Downsample int     `json:"downsample"` // encoder rows of one decoder position
	RopeTheta  float64 `json:"rope_theta"`
	NormEps    float64 `json:"norm_eps"`
}

// DecoderConfig describes the text decoder.
type DecoderConfig struct {
	Dim          int     `json:"dim"` // features of a position
	Layers       int     `json:"layers"`
	Heads        int     `json:"heads"`
	KVHeads      int     `json:"kv_heads"`
	HeadDim      int     `json:"head_dim"` // features, all of them rotary
	Hidden       int     `json:"hidden"`   // features inside the feed-forward
	Window       int     `json:"window"`   // positions (80 ms) seen by a query, itself included
	Vocab        int     `json:"vocab"`    // token ids
	AdaDim       int     `json:"ada_dim"`  // features inside the delay conditioning
	MaxPositions int     `json:"max_positions"`
	RopeTheta    float64 `json:"rope_theta"`
	NormEps      float64 `json:"norm_eps"`
}

// Config is everything about a model but its weights and vocabulary. It has been validated.
type Config struct {
	Encoder      EncoderConfig `json:"encoder"`
	Decoder      DecoderConfig `json:"decoder"`
	DefaultDelay int           `json:"default_delay"` // tokens of 80 ms
	LeftPad      int           `json:"left_pad"`      // tokens of silence before the audio
}

const (
	encArgs   = "multimodal.whisper_model_args.encoder_args."
	audioArgs = encArgs + "audio_encoding_args."

	// noWindow stands for a window that a file sets to null: as long as a stream can be.
	noWindow = "null"
)

// configField places one value in each kind of file. Paths are dotted; alternatives are separated by "|" and tried in
// order, so that a later one serves as the default. A number as the last alternative is the default itself.
type configField struct {
	packed  string
	mistral string
	hf      string
	lo, hi  float64
	whole   func(*Config) *int
	real    func(*Config) *float64
}

var configFields = []configField{
	{"encoder.dim", encArgs + "dim", "audio_config.hidden_size", 1, 1 << 16, func(c *Config) *int { return &c.Encoder.Dim }, nil},
	{"encoder.layers", encArgs + "n_layers", "audio_config.num_hidden_layers", 1, 1024, func(c *Config) *int { return &c.Encoder.Layers }, nil},
	{"encoder.heads", encArgs + "n_heads", "audio_config.num_attention_heads", 1, 1024, func(c *Config) *int { return &c.Encoder.Heads }, nil},
	{"encoder.kv_heads", encArgs + "n_kv_heads|" + encArgs + "n_heads", "audio_config.num_key_value_heads|audio_config.num_attention_heads", 1, 1024, func(c *Config) *int { return &c.Encoder.KVHeads }, nil},
	{"encoder.head_dim", encArgs + "head_dim", "audio_config.head_dim", 2, 1024, func(c *Config) *int { return &c.Encoder.HeadDim }, nil},
	{"encoder.hidden", encArgs + "hidden_dim", "audio_config.intermediate_size", 1, 1 << 18, func(c *Config) *int { return &c.Encoder.Hidden }, nil},
	{"encoder.window", encArgs + "sliding_window|" + noWindow, "audio_config.sliding_window|" + noWindow, 1, maxWindow, func(c *Config) *int { return &c.Encoder.Window }, nil},
	{"encoder.mel_bins", audioArgs + "num_mel_bins", "audio_config.num_mel_bins", 1, 512, func(c *Config) *int { return &c.Encoder.MelBins }, nil},
	{"encoder.downsample", "multimodal.whisper_model_args.downsample_args.downsample_factor", "downsample_factor", 4, 4, func(c *Config) *int { return &c.Encoder.Downsample }, nil},
	{"encoder.rope_theta", encArgs + "rope_theta", "audio_config.rope_parameters.rope_theta|audio_config.rope_theta", 1, 1e12, nil, func(c *Config) *float64 { return &c.Encoder.RopeTheta }},
	{"encoder.norm_eps", encArgs + "norm_eps", "audio_config.rms_norm_eps", 1e-12, 0.1, nil, func(c *Config) *float64 { return &c.Encoder.NormEps }},

	{"decoder.dim", "dim", "text_config.hidden_size", 2, 1 << 16, func(c *Config) *int { return &c.Decoder.Dim }, nil},
	{"decoder.layers", "n_layers", "text_config.num_hidden_layers", 1, 1024, func(c *Config) *int { return &c.Decoder.Layers }, nil},
	{"decoder.heads", "n_heads", "text_config.num_attention_heads", 1, 1024, func(c *Config) *int { return &c.Decoder.Heads }, nil},
	{"decoder.kv_heads", "n_kv_heads|n_heads", "text_config.num_key_value_heads|text_config.num_attention_heads", 1, 1024, func(c *Config) *int { return &c.Decoder.KVHeads }, nil},
	{"decoder.head_dim", "head_dim", "text_config.head_dim", 2, 1024, func(c *Config) *int { return &c.Decoder.HeadDim }, nil},
	{"decoder.hidden", "hidden_dim", "text_config.intermediate_size", 1, 1 << 18, func(c *Config) *int { return &c.Decoder.Hidden }, nil},
	{"decoder.window", "sliding_window|" + noWindow, "text_config.sliding_window|" + noWindow, 1, maxWindow, func(c *Config) *int { return &c.Decoder.Window }, nil},
	{"decoder.vocab", "vocab_size", "text_config.vocab_size", 1, 1 << 20, func(c *Config) *int { return &c.Decoder.Vocab }, nil},
	{"decoder.ada_dim", "ada_rms_norm_t_cond_dim|32", "text_config.ada_rms_norm_t_cond_dim|32", 1, 4096, func(c *Config) *int { return &c.Decoder.AdaDim }, nil},
	{"decoder.max_positions", "model_max_length|131072", "text_config.max_position_embeddings|131072", 1, maxWindow, func(c *Config) *int { return &c.Decoder.MaxPositions }, nil},
	{"decoder.rope_theta", "rope_theta", "text_config.rope_parameters.rope_theta|text_config.rope_theta", 1, 1e12, nil, func(c *Config) *float64 { return &c.Decoder.RopeTheta }},
	{"decoder.norm_eps", "norm_eps", "text_config.rms_norm_eps", 1e-12, 0.1, nil, func(c *Config) *float64 { return &c.Decoder.NormEps }},

	// The tokenizer's audio block overrides these two in a directory.
	{"default_delay", "6", "default_num_delay_tokens|6", 1, maxDelay, func(c *Config) *int { return &c.DefaultDelay }, nil},
	{"left_pad", "32", "32", 0, maxLeftPad, func(c *Config) *int { return &c.LeftPad }, nil},
}

const (
	maxWindow  = 1 << 20 // encoder rows or positions
	maxDelay   = 100     // tokens: 8 s, far above the 2.4 s that any model was trained on
	maxLeftPad = 1000    // tokens
)

// configFact is a statement about the architecture: a file may leave it out but not say otherwise.
type configFact struct{ path, want string }

var mistralFacts = []configFact{
	{"use_biases", "false"}, {"causal", "true"}, {"tied_embeddings", "true"}, {"ada_rms_norm_t_cond", "true"},
	{encArgs + "use_biases", "true"}, {encArgs + "causal", "true"}, {encArgs + "pos_embed", `"rope"`},
	{encArgs + "ffn_type", `"swiglu"`}, {encArgs + "norm_type", `"rms_norm"`},
	{audioArgs + "sampling_rate", strconv.Itoa(SampleRate)}, {audioArgs + "hop_length", strconv.Itoa(HopLength)},
	{audioArgs + "window_size", strconv.Itoa(WindowSize)}, {audioArgs + "frame_rate", "12.5"},
	{audioArgs + "global_log_mel_max", "1.5"},
}

var hfFacts = []configFact{
	{"model_type", `"voxtral_realtime"`}, {"audio_length_per_tok", "8"}, {"projector_hidden_act", `"gelu"`},
	{"tie_word_embeddings", "true"}, {"audio_config.activation_function", `"gelu"`}, {"audio_config.hidden_act", `"silu"`},
	{"text_config.hidden_act", `"silu"`}, {"audio_config.rope_parameters.rope_type", `"default"`},
	{"text_config.rope_parameters.rope_type", `"default"`}, {"text_config.tie_word_embeddings", "true"},
}

// parseConfig reads a config file of one layout; name is for errors.
func parseConfig(name string, doc []byte, layout Layout) (*Config, error) {
	c := cursor{data: doc}
	for range c.object() {
		c.value()
	}
	if c.end(); c.err != nil {
		return nil, fmt.Errorf("%s: %w", name, c.err)
	}
	facts := map[Layout][]configFact{Mistral: mistralFacts, HuggingFace: hfFacts}[layout]
	for _, f := range facts {
		if got := find(doc, strings.Split(f.path, ".")...); got != nil && !sameLiteral(string(got), f.want) {
			return nil, fmt.Errorf("%s: %s is %s, only %s is supported", name, f.path, clip(got), f.want)
		}
	}
	cfg := &Config{}
	for _, f := range configFields {
		if err := f.read(cfg, doc, layout); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := cfg.check(layout); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return cfg, nil
}

// sameLiteral compares JSON literals, numbers by value.
func sameLiteral(got, want string) bool {
	a, errA := strconv.ParseFloat(got, 64)
	b, errB := strconv.ParseFloat(want, 64)
	return got == want || errA == nil && errB == nil && a == b
}

func (f *configField) path(layout Layout) string {
	switch layout {
	case Mistral:
		return f.mistral
	case HuggingFace:
		return f.hf
	}
	return f.packed
}

func (f *configField) read(cfg *Config, doc []byte, layout Layout) error {
	first, _, _ := strings.Cut(f.path(layout), "|")
	for path := range strings.SplitSeq(f.path(layout), "|") {
		if path == noWindow {
			if parent, key := cutLast(first); !hasKey(doc, parent, key) {
				break // null must be said, not left out
			}
			*f.whole(cfg) = maxWindow
			return nil
		}
		raw := find(doc, strings.Split(path, ".")...)
		if raw == nil && path[0] >= '0' && path[0] <= '9' {
			raw = []byte(path)
		}
		if raw != nil {
			return f.set(cfg, path, raw)
		}
	}
	return fmt.Errorf("%s is missing", first)
}

// set parses a number, which some files write as a string.
func (f *configField) set(cfg *Config, path string, raw []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || math.IsNaN(v) {
		return fmt.Errorf("%s is %s, want a number", path, clip(raw))
	}
	if v < f.lo || v > f.hi {
		return fmt.Errorf("%s is %s, want %v to %v", path, clip(raw), f.lo, f.hi)
	}
	if f.real != nil {
		*f.real(cfg) = v
		return nil
	}
	if v != math.Trunc(v) {
		return fmt.Errorf("%s is %s, want a whole number", path, clip(raw))
	}
	*f.whole(cfg) = int(v)
	return nil
}

// check holds the values against each other. Fields are named as in the file.
func (c *Config) check(layout Layout) error {
	name := func(packed string) string {
		for i := range configFields {
			if configFields[i].packed == packed {
				first, _, _ := strings.Cut(configFields[i].path(layout), "|")
				return first
			}
		}
		return packed
	}
	for _, part := range []struct {
		name               string
		heads, kv, headDim int
	}{
		{"encoder", c.Encoder.Heads, c.Encoder.KVHeads, c.Encoder.HeadDim},
		{"decoder", c.Decoder.Heads, c.Decoder.KVHeads, c.Decoder.HeadDim},
	} {
		if part.headDim%2 != 0 {
			return fmt.Errorf("%s is %d, want an even number", name(part.name+".head_dim"), part.headDim)
		}
		if part.heads%part.kv != 0 {
			return fmt.Errorf("%s is %d, which %s = %d does not divide", name(part.name+".heads"), part.heads, name(part.name+".kv_heads"), part.kv)
		}
	}
	if c.Decoder.Dim%2 != 0 {
		return fmt.Errorf("%s is %d, want an even number", name("decoder.dim"), c.Decoder.Dim)
	}
	// No stream outlives its positions, so a longer window is the same window.
	c.Decoder.Window = min(c.Decoder.Window, c.Decoder.MaxPositions)
	c.Encoder.Window = min(c.Encoder.Window, c.Decoder.MaxPositions*c.Encoder.Downsample)
	return nil
}

func cutLast(path string) (parent []string, key string) {
	parts := strings.Split(path, ".")
	return parts[:len(parts)-1], parts[len(parts)-1]
}

func hasKey(doc []byte, parent []string, want string) bool {
	obj := find(doc, parent...)
	c := cursor{data: obj}
	if obj == nil || c.peek() != '{' {
		return false
	}
	found := false
	for key := range c.object() {
		c.value()
		found = found || string(key) == want
	}
	return found
}

// encode writes the normalised form that a packed file carries.
func (c *Config) encode() (string, error) {
	b, err := json.Marshal(c)
	return string(b), err
}
