package subtitle

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	ends        = ".?!…؟।"          // end a sentence when a space follows
	wideEnds    = "。？！．｡"           // end one wherever they stand
	clauseMarks = ",;:—–、，；：،"      // a good place to break a line
	closers     = `"'”’»›)]}」』）】》〉` // may follow an end
	openers     = `"'“‘«‹([{「『（【《〈¿¡`
)

// abbreviations end in a full stop that never ends a sentence.
var abbreviations = words("mr mrs ms dr prof st vs hr fr mme mlle sr sra srta dott sig bzw approx gen col lt sgt capt rev hon gov sen rep e.g i.e z.b d.h u.a p.ex")

// counting abbreviations belong to a number that follows.
var counting = words("no nos fig vol ca pp art nr")

// ambiguous abbreviations end a sentence only when the next word does not go on in lower case or with a number.
var ambiguous = words("etc jr sr inc ltd co corp a.m p.m u.s u.k al usw cf")

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// endsSentence says whether a sentence ends between two pieces.
func endsSentence(p, next *piece) bool {
	text := strings.TrimRight(p.text, closers)
	end, size := utf8.DecodeLastRuneInString(text)
	if size > 0 && strings.ContainsRune(wideEnds, end) {
		return true
	}
	if size == 0 || !strings.ContainsRune(ends, end) || !next.space {
		return false
	}
	word := strings.ToLower(strings.Trim(text[:len(text)-size], openers))
	if end != '.' || strings.HasSuffix(word, ".") { // not a full stop, or an ellipsis of several
		return true
	}
	head, _ := utf8.DecodeRuneInString(strings.TrimLeft(next.text, openers))
	if abbreviations[word] || counting[word] && unicode.IsDigit(head) {
		return false
	}
	initial := utf8.RuneCountInString(word) == 1 && word != "i" // J. Smith, but not "so did I."
	number := word != "" && strings.Trim(word, "0123456789") == ""
	if !initial && !number && !ambiguous[word] {
		return true
	}
	if initial && !number {
		return !unicode.IsLetter(head)
	}
	return !unicode.IsLower(head) && !unicode.IsDigit(head)
}

// clause says that the piece ends with a comma or the like.
func (p *piece) clause() bool {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimRight(p.text, closers))
	return strings.ContainsRune(clauseMarks+ends+wideEnds, r)
}
