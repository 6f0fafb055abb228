package models

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func tokenizer(t testing.TB) *Tokenizer {
	t.Helper()
	tok, audio, err := parseTekken(tekkenFile, tekkenJSON(310, 40))
	require.NoError(t, err)
	require.Equal(t, tekkenAudio{delay: 6, leftPad: 32}, audio)
	return tok
}

// Ids below the number of specials are names; the others are their rank's bytes, byte 0 included.
func TestTokenizer(t *testing.T) {
	tok := tokenizer(t)
	require.Equal(t, []int{310, 1, 2, 11, 32, 33}, []int{tok.VocabSize, tok.BOS, tok.EOS, tok.Pad, tok.StreamingPad, tok.StreamingWord})
	for id := -1; id < 40; id++ {
		require.Nil(t, tok.Bytes(id))
		require.True(t, tok.Special(id))
	}
	require.Equal(t, []byte{0}, tok.Bytes(40))
	require.Equal(t, []byte{255}, tok.Bytes(40+255))
	require.Equal(t, " w269", string(tok.Bytes(309)))
	require.Nil(t, tok.Bytes(310))
	require.Equal(t, "[STREAMING_PAD]", tok.Name(32))
	require.Equal(t, "<SPECIAL_5>", tok.Name(5))
	require.Equal(t, `" w269"`, tok.Name(309))
}

// A tokenizer that is wrong is one error that names what is wrong.
func TestBadTekken(t *testing.T) {
	good := string(tekkenJSON(310, 40))
	for name, tt := range map[string]struct{ old, new, want string }{
		"not JSON":       {`{`, ``, "{"},
		"vocab size":     {`"default_vocab_size":310`, `"default_vocab_size":0`, "default_vocab_size"},
		"too few":        {`"default_vocab_size":310`, `"default_vocab_size":400`, "needs 360"},
		"no vocab size":  {`"default_vocab_size":310`, `"v":310`, "default_vocab_size is missing"},
		"specials":       {`"default_num_special_tokens":40`, `"default_num_special_tokens":311`, "default_num_special_tokens"},
		"no vocab":       {`"vocab":`, `"vocabulary":`, "vocab is missing"},
		"rank twice":     {`{"rank":1,"token_bytes":"AQ=="`, `{"rank":0,"token_bytes":"AQ=="`, "rank 0 twice"},
		"rank missing":   {`{"rank":1,"token_bytes":"AQ=="`, `{"rank":999,"token_bytes":"AQ=="`, "lacks rank 1"},
		"base64":         {`"AQ=="`, `"AQ="`, "base64"},
		"no bytes":       {`"AQ=="`, `""`, "base64 of at least one byte"},
		"no pad":         {`[STREAMING_PAD]`, `[PAD]`, "[STREAMING_PAD]"},
		"special rank":   {`{"rank":33,`, `{"rank":40,`, "special_tokens"},
		"special twice":  {`{"rank":33,`, `{"rank":32,`, "rank 32 twice"},
		"delay":          {`"transcription_delay_ms":480`, `"transcription_delay_ms":481`, "multiple of 80"},
		"long delay":     {`"transcription_delay_ms":480`, `"transcription_delay_ms":1e9`, "transcription_delay_ms"},
		"left pad":       {`"streaming_n_left_pad_tokens":32`, `"streaming_n_left_pad_tokens":-1`, "left_pad"},
		"sampling rate":  {`"sampling_rate":16000`, `"sampling_rate":24000`, "sampling_rate"},
		"vocab entry":    {`{"rank":1,"token_bytes":"AQ==",`, `{`, "entry 1"},
		"vocab is a map": {`"vocab":[`, `"vocab":{"a":[`, "JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, good, tt.old)
			_, _, err := parseTekken(tekkenFile, []byte(strings.Replace(good, tt.old, tt.new, 1)))
			if name == "vocab is a map" || name == "not JSON" {
				requireOneError(t, err, tekkenFile)
				return
			}
			requireOneError(t, err, tekkenFile, tt.want)
		})
	}
}

// Without a list of specials the published ids hold; without an audio block nothing is said about it.
func TestTekkenWithoutSpecials(t *testing.T) {
	doc := string(tekkenJSON(310, 40))
	doc = strings.Replace(strings.Replace(doc, `"special_tokens":`, `"s":`, 1), `"audio":`, `"a":`, 1)
	tok, audio, err := parseTekken(tekkenFile, []byte(doc))
	require.NoError(t, err)
	require.Equal(t, 33, tok.StreamingWord)
	require.Equal(t, tekkenAudio{delay: 0, leftPad: -1}, audio)
	doc = strings.Replace(doc, `"default_vocab_size":310,`, `"default_vocab_size":303,`, 1)
	_, _, err = parseTekken(tekkenFile, []byte(strings.Replace(doc, `"default_num_special_tokens":40`, `"default_num_special_tokens":33`, 1)))
	requireOneError(t, err, "[STREAMING_WORD]", "33")
}

// The text that comes out, over all writes and the flush, is the bytes with what is no UTF-8 replaced; every piece is
// valid on its own, and no more than the start of one character is ever held back.
func TestDetokenizer(t *testing.T) {
	tok := tokenizer(t)
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.OneOf(rapid.IntRange(0, 309), rapid.SampledFrom(idsOf("héé€😀")))).Draw(t, "ids")
		d := tok.NewDetokenizer()
		raw := make([]byte, 0, 4*len(ids))
		var text strings.Builder
		for _, id := range ids {
			raw = append(raw, tok.Bytes(id)...)
			piece := d.Write(id)
			require.True(t, utf8.ValidString(piece))
			require.Less(t, len(d.pending), utf8.UTFMax)
			text.WriteString(piece)
		}
		text.WriteString(d.Flush())
		require.Empty(t, d.pending)
		require.Equal(t, string([]rune(string(raw))), text.String())
	})
}

func idsOf(s string) []int {
	ids := make([]int, 0, len(s))
	for _, b := range []byte(s) {
		ids = append(ids, 40+int(b))
	}
	return ids
}

// A character split over tokens comes out once it is whole, even around a special token.
func TestDetokenizerHoldsBack(t *testing.T) {
	d := tokenizer(t).NewDetokenizer()
	ids := idsOf("€")
	require.Empty(t, d.Write(ids[0]))
	require.Empty(t, d.Write(32))
	require.Empty(t, d.Write(ids[1]))
	require.Equal(t, "€", d.Write(ids[2]))
	require.Empty(t, d.Write(ids[0]))
	require.Equal(t, "\uFFFD", d.Flush())
}

func FuzzTekken(f *testing.F) {
	f.Add(tekkenJSON(60, 40))
	f.Add([]byte(`{"config":{"default_vocab_size":1048576,"default_num_special_tokens":1},"vocab":[{"rank":0,"token_bytes":"AA=="}]}`))
	f.Add([]byte(strings.Replace(string(tekkenJSON(60, 40)), `"special_tokens":`, `"s":`, 1)))
	f.Add(bytes.Repeat([]byte(`{"config":`), 100))
	f.Fuzz(func(t *testing.T, data []byte) {
		var tok *Tokenizer
		var err error
		requireBounded(t, data, func() { tok, _, err = parseTekken("t", data) })
		if err != nil {
			return
		}
		for id := range tok.VocabSize {
			require.Equal(t, tok.Special(id), len(tok.Bytes(id)) == 0)
		}
	})
}
