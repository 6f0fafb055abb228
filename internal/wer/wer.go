// Package wer computes the word error rate of a transcript against a reference.
package wer

import (
	"fmt"
	"strings"
	"unicode"
)

// Normalize splits a text into lower-case words without punctuation. Apostrophes inside a word stay ("don't"), the
// typographic one becomes the plain one, and a hyphen or dash separates words.
func Normalize(s string) []string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == '\'' || r == '’':
			return '\''
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			return unicode.ToLower(r)
		case unicode.IsSpace(r) || unicode.Is(unicode.Pd, r) || r == '/':
			return ' '
		}
		return -1
	}, s)
	var words []string
	for _, w := range strings.Fields(clean) {
		if w = strings.Trim(w, "'"); w != "" {
			words = append(words, w)
		}
	}
	return words
}

// Counts are the edits that turn the reference into the hypothesis, and the number of words in the reference.
type Counts struct {
	Sub, Del, Ins, Ref int
}

// Errors is the number of edits.
func (c Counts) Errors() int { return c.Sub + c.Del + c.Ins }

// Rate is the word error rate: edits per word of the reference. It can exceed 1. An empty reference gives 0 when the
// hypothesis is empty too, else the number of words inserted.
func (c Counts) Rate() float64 { return float64(c.Errors()) / float64(max(c.Ref, 1)) }

// Add returns the sum of both, for the rate over several clips.
func (c Counts) Add(d Counts) Counts {
	return Counts{c.Sub + d.Sub, c.Del + d.Del, c.Ins + d.Ins, c.Ref + d.Ref}
}

func (c Counts) String() string {
	return fmt.Sprintf("%.2f %% WER (%d substituted, %d deleted, %d inserted of %d words)", 100*c.Rate(), c.Sub, c.Del, c.Ins, c.Ref)
}

// Compute aligns the hypothesis with the reference by the fewest edits. Among alignments of equally few edits it takes
// one with the most substitutions.
func Compute(ref, hyp []string) Counts {
	// row[j] holds the cheapest edits of the reference so far into hyp[:j].
	row := make([]Counts, len(hyp)+1)
	for j := range row {
		row[j].Ins = j
	}
	for _, word := range ref {
		diagonal := row[0]
		row[0].Del++
		for j, h := range hyp {
			best := diagonal
			if h != word {
				best.Sub++
			}
			del, ins := row[j+1], row[j]
			del.Del++
			ins.Ins++
			for _, c := range []Counts{del, ins} {
				if c.Errors() < best.Errors() {
					best = c
				}
			}
			diagonal, row[j+1] = row[j+1], best
		}
	}
	c := row[len(hyp)]
	c.Ref = len(ref)
	return c
}
