package models

import (
	"strings"
	"unicode/utf8"
)

// Detokenizer joins token bytes into text, holding back a character that later tokens may complete. What can never
// become UTF-8 comes out as U+FFFD.
type Detokenizer struct {
	tokens  *Tokenizer
	pending []byte // the start of a character
}

// NewDetokenizer starts a text.
func (t *Tokenizer) NewDetokenizer() *Detokenizer { return &Detokenizer{tokens: t} }

// Write adds a token and returns the text that is now whole. Special tokens add nothing.
func (d *Detokenizer) Write(id int) string {
	d.pending = append(d.pending, d.tokens.Bytes(id)...)
	return d.drain(false)
}

// Flush ends the text and returns what was held back.
func (d *Detokenizer) Flush() string { return d.drain(true) }

func (d *Detokenizer) drain(all bool) string {
	var out strings.Builder
	b := d.pending
	for len(b) > 0 && (all || utf8.FullRune(b)) {
		r, n := utf8.DecodeRune(b)
		out.WriteRune(r) // RuneError for one invalid byte: always forward
		b = b[n:]
	}
	d.pending = append(d.pending[:0], b...)
	return out.String()
}
