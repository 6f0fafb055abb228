package subtitle

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// piece is text that is not divided: a word, or a part of one in a script without spaces or longer than a line.
type piece struct {
	text       string
	width      int // columns, at least 1 and at most LineWidth
	start, end time.Duration
	space      bool // a space stands between the piece before and this one
	wide       bool // begins with a character of a script without spaces
}

// split turns words into pieces whose times never go back. A word's pieces divide its time by their width.
func split(words []Word) []piece {
	var pieces []piece
	var last time.Duration
	for _, w := range words {
		start := max(w.Start, last)
		end := max(w.End, start)
		last = end
		first, total := len(pieces), 0
		for _, field := range strings.FieldsFunc(w.Text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			for i, text := range divide(field) {
				p := piece{text: text, width: max(1, textWidth(text))}
				head, _ := utf8.DecodeRuneInString(text)
				p.wide = unspaced(head)
				p.space = i == 0 && len(pieces) > 0 && !joined(pieces[len(pieces)-1].text, head)
				pieces = append(pieces, p)
				total += p.width
			}
		}
		before := 0
		for i := first; i < len(pieces); i++ {
			p := &pieces[i]
			p.start = start + (end-start)*time.Duration(before)/time.Duration(total)
			before += p.width
			p.end = start + (end-start)*time.Duration(before)/time.Duration(total)
		}
	}
	return pieces
}

// divide cuts a word after an ideographic full stop, and a word that is too long for a line wherever its script allows,
// failing that where the line is full.
func divide(word string) []string {
	long := textWidth(word) > LineWidth
	var parts []string
	from, width, prev := 0, 0, rune(0)
	for at, r := range word {
		w := runeWidth(r)
		cut := strings.ContainsRune(wideEnds, prev) && !strings.ContainsRune(wideEnds+closers, r)
		if long {
			cut = cut || width+w > LineWidth ||
				(unspaced(prev) || unspaced(r)) && !strings.ContainsRune(closers+wideEnds+clauseMarks+ends, r) && !strings.ContainsRune(openers, prev)
		}
		if cut && at > from && w > 0 {
			parts = append(parts, word[from:at])
			from, width = at, 0
		}
		width += w
		prev = r
	}
	return append(parts, word[from:])
}

// joined says that no space belongs between the text before and a word that begins with head.
func joined(before string, head rune) bool {
	tail, _ := utf8.DecodeLastRuneInString(before)
	return ideographic(tail) && ideographic(head) || widePunctuation(tail) || widePunctuation(head)
}

// unspaced says that the character's script is written without spaces between words.
func unspaced(r rune) bool {
	return ideographic(r) || widePunctuation(r) || unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

func ideographic(r rune) bool { return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) }

func widePunctuation(r rune) bool {
	return r >= 0x3000 && r <= 0x303F || r >= 0xFF01 && r <= 0xFF0F || r >= 0xFF1A && r <= 0xFF1F
}

func textWidth(s string) int {
	width := 0
	for _, r := range s {
		width += runeWidth(r)
	}
	return width
}

// runeWidth is the columns that a character takes on a terminal: East Asian ones and pictures two, combining ones none.
func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul),
		r >= 0x3000 && r <= 0x303F, r >= 0xFF01 && r <= 0xFF60, r >= 0xFFE0 && r <= 0xFFE6, r >= 0x1F300 && r <= 0x1FAFF:
		return 2
	}
	return 1
}
