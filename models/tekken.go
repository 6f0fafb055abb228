package models

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names of the special tokens that the runtime needs, with the ids they have in every published model. The ids are only
// used when a file lists no special tokens at all, as older ones do.
var neededSpecials = [...]struct {
	name string
	id   int
	slot func(*Tokenizer) *int
}{
	{"<s>", 1, func(t *Tokenizer) *int { return &t.BOS }},
	{"</s>", 2, func(t *Tokenizer) *int { return &t.EOS }},
	{"<pad>", 11, func(t *Tokenizer) *int { return &t.Pad }},
	{"[STREAMING_PAD]", 32, func(t *Tokenizer) *int { return &t.StreamingPad }},
	{"[STREAMING_WORD]", 33, func(t *Tokenizer) *int { return &t.StreamingWord }},
}

// Tokenizer turns token ids into bytes. Ids below the number of specials are control tokens without text; the others
// are pieces of UTF-8, which may split a character.
type Tokenizer struct {
	VocabSize     int // ids
	BOS, EOS, Pad int // ids
	StreamingPad  int // id: nothing was said in this 80 ms
	StreamingWord int // id: a word follows

	specials int
	named    []special // sorted by id
	pieces   []byte    // all pieces, one after another
	spans    []span    // of pieces, by rank
}

type special struct {
	id   int
	name string
}

type span struct{ begin, end uint32 }

// Special says whether an id carries no text.
func (t *Tokenizer) Special(id int) bool { return id < t.specials }

// Bytes is the text of a token, nil for special ids and ids outside the vocabulary. It must not be changed.
func (t *Tokenizer) Bytes(id int) []byte {
	if id < t.specials || id >= t.VocabSize {
		return nil
	}
	s := t.spans[id-t.specials]
	return t.pieces[s.begin:s.end:s.end]
}

// Name is how a token is shown to people.
func (t *Tokenizer) Name(id int) string {
	if b := t.Bytes(id); b != nil {
		return strconv.Quote(string(b))
	}
	if i, ok := slices.BinarySearchFunc(t.named, id, func(s special, id int) int { return cmp.Compare(s.id, id) }); ok {
		return t.named[i].name
	}
	return fmt.Sprintf("<SPECIAL_%d>", id)
}

// tekkenAudio is what tekken.json says about streaming; 0 and −1 stand for values that it leaves out.
type tekkenAudio struct {
	delay   int // tokens
	leftPad int // tokens
}

const msPerToken = 80

// parseTekken reads tekken.json; name is for errors. Memory is bounded by the file's real size.
func parseTekken(name string, doc []byte) (*Tokenizer, tekkenAudio, error) {
	t := &Tokenizer{}
	audio, err := t.parse(doc)
	if err != nil {
		return nil, audio, fmt.Errorf("%s: %w", name, err)
	}
	return t, audio, nil
}

func (t *Tokenizer) parse(doc []byte) (tekkenAudio, error) {
	var audio tekkenAudio
	whole := cursor{data: doc}
	for range whole.object() {
		whole.value()
	}
	if whole.end(); whole.err != nil {
		return audio, whole.err
	}
	var err error
	if t.VocabSize, err = tekkenInt(doc, "config.default_vocab_size", 1, 1<<20, -1); err != nil {
		return audio, err
	}
	if t.specials, err = tekkenInt(doc, "config.default_num_special_tokens", 1, t.VocabSize, -1); err != nil {
		return audio, err
	}
	if err = t.parseVocab(find(doc, "vocab")); err != nil {
		return audio, err
	}
	if err = t.parseSpecials(find(doc, "special_tokens")); err != nil {
		return audio, err
	}
	return parseTekkenAudio(doc)
}

func parseTekkenAudio(doc []byte) (tekkenAudio, error) {
	a := tekkenAudio{leftPad: -1}
	for _, fact := range []configFact{
		{"audio.sampling_rate", strconv.Itoa(SampleRate)}, {"audio.frame_rate", "12.5"},
		{"audio.audio_encoding_config.hop_length", strconv.Itoa(HopLength)},
		{"audio.audio_encoding_config.window_size", strconv.Itoa(WindowSize)},
	} {
		if got := find(doc, strings.Split(fact.path, ".")...); got != nil && !sameLiteral(string(got), fact.want) {
			return a, fmt.Errorf("%s is %s, only %s is supported", fact.path, clip(got), fact.want)
		}
	}
	ms, err := tekkenInt(doc, "audio.transcription_delay_ms", msPerToken, maxDelay*msPerToken, 0)
	if err != nil {
		return a, err
	}
	if ms%msPerToken != 0 {
		return a, fmt.Errorf("audio.transcription_delay_ms is %d, want a multiple of %d", ms, msPerToken)
	}
	a.delay = ms / msPerToken
	a.leftPad, err = tekkenInt(doc, "audio.streaming_n_left_pad_tokens", 0, maxLeftPad, -1)
	if find(doc, "audio", "streaming_n_left_pad_tokens") == nil {
		a.leftPad, err = -1, nil
	}
	return a, err
}

// tekkenInt reads a whole number from lo to hi. A missing one is the default, or an error when that is negative.
func tekkenInt(doc []byte, path string, lo, hi, missing int) (int, error) {
	raw := find(doc, strings.Split(path, ".")...)
	if raw == nil {
		if missing < 0 {
			return 0, fmt.Errorf("%s is missing", path)
		}
		return missing, nil
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || v != float64(int(v)) || int(v) < lo || int(v) > hi {
		return 0, fmt.Errorf("%s is %s, want a whole number from %d to %d", path, clip(raw), lo, hi)
	}
	return int(v), nil
}

// parseVocab keeps the ranks that have an id; a file lists more than the model uses.
func (t *Tokenizer) parseVocab(raw []byte) error {
	if raw == nil {
		return fmt.Errorf("vocab is missing")
	}
	want, entries, coded := t.VocabSize-t.specials, 0, 0
	err := eachToken(raw, func(rank int, b64 []byte) error {
		entries++
		if rank < want {
			coded += base64.StdEncoding.DecodedLen(len(b64))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if entries < want {
		return fmt.Errorf("vocab has %d tokens, config.default_vocab_size %d less %d specials needs %d", entries, t.VocabSize, t.specials, want)
	}
	if uint64(coded) > 1<<32-1 {
		return fmt.Errorf("vocab has %d bytes of tokens, more than an offset holds", coded)
	}
	t.spans = make([]span, want)
	t.pieces = make([]byte, 0, coded)
	err = eachToken(raw, func(rank int, b64 []byte) error {
		if rank >= want {
			return nil
		}
		if t.spans[rank].end != 0 {
			return fmt.Errorf("vocab has rank %d twice", rank)
		}
		begin := len(t.pieces)
		var err error
		if t.pieces, err = base64.StdEncoding.AppendDecode(t.pieces, b64); err != nil || len(t.pieces) == begin {
			return fmt.Errorf("vocab rank %d: token_bytes %s is not base64 of at least one byte", rank, clip(b64))
		}
		t.spans[rank] = span{uint32(begin), uint32(len(t.pieces))}
		return nil
	})
	if err != nil {
		return err
	}
	for rank, s := range t.spans {
		if s.end == 0 {
			return fmt.Errorf("vocab lacks rank %d", rank)
		}
	}
	return nil
}

// eachToken calls f with the rank and token_bytes, still in base64, of every entry of the vocab array.
func eachToken(raw []byte, f func(rank int, b64 []byte) error) error {
	c := cursor{data: raw}
	for i := range c.array() {
		rank, b64 := int64(-1), []byte(nil)
		for key := range c.object() {
			switch string(key) {
			case "rank":
				rank = c.integer()
			case "token_bytes":
				if q := c.quoted(); q != nil {
					b64 = q[1 : len(q)-1]
				}
			default:
				c.value()
			}
		}
		if c.err == nil && (rank < 0 || b64 == nil) {
			return fmt.Errorf("vocab entry %d lacks rank or token_bytes", i)
		}
		if c.err == nil {
			if err := f(int(rank), b64); err != nil {
				return err
			}
		}
	}
	if c.err != nil {
		return fmt.Errorf("vocab: %w", c.err)
	}
	return nil
}

// parseSpecials reads the names of control tokens and looks up those that the runtime needs.
func (t *Tokenizer) parseSpecials(raw []byte) error {
	entries := 0
	count := cursor{data: raw}
	if raw != nil {
		for range count.array() {
			count.value()
			entries++
		}
	}
	if entries == 0 {
		for _, s := range neededSpecials {
			if s.id >= t.specials {
				return fmt.Errorf("special_tokens is missing, and with %d of them %s cannot have its usual id %d", t.specials, s.name, s.id)
			}
			t.named = append(t.named, special{s.id, s.name})
		}
	} else if err := t.readSpecials(raw, min(entries, t.specials)); err != nil {
		return err
	}
	for _, s := range neededSpecials {
		i := slices.IndexFunc(t.named, func(n special) bool { return n.name == s.name })
		if i < 0 {
			return fmt.Errorf("special_tokens lacks %s", s.name)
		}
		*s.slot(t) = t.named[i].id
	}
	return nil
}

func (t *Tokenizer) readSpecials(raw []byte, most int) error {
	t.named = make([]special, 0, most)
	c := cursor{data: raw}
	for i := range c.array() {
		s := special{id: -1}
		for key := range c.object() {
			switch string(key) {
			case "rank":
				s.id = int(c.integer())
			case "token_str":
				s.name = c.text()
			default:
				c.value()
			}
		}
		switch {
		case c.err != nil:
		case s.id < 0 || s.id >= t.specials || s.name == "":
			return fmt.Errorf("special_tokens entry %d needs a token_str and a rank below %d", i, t.specials)
		case i >= most:
			return fmt.Errorf("special_tokens has more than %d entries", most)
		default:
			t.named = append(t.named, s)
		}
	}
	if c.err != nil {
		return fmt.Errorf("special_tokens: %w", c.err)
	}
	slices.SortFunc(t.named, func(a, b special) int { return cmp.Compare(a.id, b.id) })
	for i := 1; i < len(t.named); i++ {
		if t.named[i].id == t.named[i-1].id {
			return fmt.Errorf("special_tokens has rank %d twice", t.named[i].id)
		}
	}
	return nil
}
