package wer

import (
	"fmt"
	"strings"
	"unicode"
)

// Normalizer turns a text into the words that are compared.
type Normalizer string

// Normalizers.
const (
	Plain   Normalizer = "plain"   // lower case, no punctuation: Normalize
	English Normalizer = "english" // also spellings, contractions, fillers and numbers
	Basic   Normalizer = "basic"   // for any language: also no bracketed remarks, and a letter a word in scripts without spaces
)

// ParseNormalizer reads a name.
func ParseNormalizer(s string) (Normalizer, error) {
	switch n := Normalizer(s); n {
	case Plain, English, Basic:
		return n, nil
	}
	return "", fmt.Errorf("%q is no normalisation: use english, basic or plain", s)
}

// Words are the normalised words of a text.
func (n Normalizer) Words(s string) []string {
	switch n {
	case English:
		return english(s)
	case Basic:
		return basic(s)
	}
	return Normalize(s)
}

// Chars are the characters of a text as normalised words with one space between them, for the character error rate.
func Chars(words []string) []string {
	text := []rune(strings.Join(words, " "))
	chars := make([]string, len(text))
	for i, r := range text {
		chars[i] = string(r)
	}
	return chars
}

// basic works for every language: remarks in brackets go, everything that is no letter, mark or digit parts words, and
// scripts that are written without spaces count by the letter, with the marks that belong to it.
func basic(s string) []string {
	var out strings.Builder
	for _, r := range dropRemarks(strings.ToLower(s)) {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) && !unicode.IsMark(r):
			out.WriteRune(' ')
			out.WriteRune(r)
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			out.WriteRune(r)
		default:
			out.WriteRune(' ')
		}
	}
	return strings.Fields(out.String())
}

// dropRemarks leaves out what stands between brackets or parentheses; one that is never closed stays as it is.
func dropRemarks(s string) string {
	for _, pair := range []string{"[]", "()", "<>"} {
		var out strings.Builder
		for {
			open := strings.IndexByte(s, pair[0])
			if open < 0 {
				break
			}
			size := strings.IndexByte(s[open:], pair[1])
			if size < 0 {
				break
			}
			out.WriteString(s[:open])
			out.WriteByte(' ')
			s = s[open+size+1:]
		}
		s = out.String() + s
	}
	return s
}
