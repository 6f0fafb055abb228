package subtitle

import (
	"strings"
	"time"
)

// Limits of a cue.
const (
	LineWidth   = 42                     // columns; wide characters take two
	MaxLines    = 2                      // lines
	Pause       = 600 * time.Millisecond // silence between words that ends a cue
	MinDuration = 800 * time.Millisecond // when the next cue leaves room
	MaxDuration = 7 * time.Second        // unless one word alone lasts longer
)

// shortest is what a cue gets even when its words were all given one instant: one tick of the model. The cues after it
// are pushed back.
const shortest = 80 * time.Millisecond

// Cue is a piece of text to show for a time.
type Cue struct {
	Start, End time.Duration // whole milliseconds
	Lines      []string      // one or two, at most LineWidth columns each
	Text       string        // the lines as one
}

// Cues cuts words, in order, into cues. Times are put in order where they are not.
func Cues(words []Word) []Cue {
	pieces := split(words)
	var cues []Cue
	first := 0
	for i := range pieces {
		if i+1 < len(pieces) && !endsSentence(&pieces[i], &pieces[i+1]) && pieces[i+1].start-pieces[i].end < Pause {
			continue
		}
		cues = appendPhrase(cues, pieces[first:i+1])
		first = i + 1
	}
	settle(cues)
	return cues
}

// appendPhrase divides a phrase, which has no end or pause inside, into as few cues as it takes, of similar length and
// preferably cut after a comma.
func appendPhrase(cues []Cue, phrase []piece) []Cue {
	const (
		perCue   = 100.0 // a cue more
		slack    = 60.0  // all of a cue unused
		noComma  = 12.0  // a cut within a clause
		tooShort = 50.0  // less than MinDuration
		insides  = 200.0 // a cut within a word
	)
	n := len(phrase)
	cost := make([]float64, n+1) // of the first i pieces
	from := make([]int, n+1)     // where the cue that ends at i begins
	for end := 1; end <= n; end++ {
		for begin := end - 1; begin >= 0; begin-- {
			in := phrase[begin:end]
			length := in[len(in)-1].end - in[0].start
			width := lineWidth(in)
			if begin < end-1 && (length > MaxDuration || width > MaxLines*(LineWidth+1)) {
				break
			}
			if layOut(in) == nil {
				continue
			}
			unused := 1 - float64(width)/(MaxLines*LineWidth)
			c := cost[begin] + perCue + slack*unused*unused
			if length < MinDuration {
				c += tooShort
			}
			if end < n && !phrase[end].space {
				c += insides
			} else if end < n && !in[len(in)-1].clause() {
				c += noComma
			}
			if begin == end-1 || c < cost[end] {
				cost[end], from[end] = c, begin
			}
		}
	}
	var ends []int
	for end := n; end > 0; end = from[end] {
		ends = append(ends, end)
	}
	for i := len(ends) - 1; i >= 0; i-- {
		in := phrase[from[ends[i]]:ends[i]]
		cues = append(cues, Cue{Start: in[0].start, End: in[len(in)-1].end, Lines: layOut(in), Text: join(in)})
	}
	return cues
}

// layOut breaks pieces into at most two lines of similar width, or returns nil when they do not fit.
func layOut(in []piece) []string {
	if lineWidth(in) <= LineWidth {
		return []string{join(in)}
	}
	const (
		comma  = 6   // columns of imbalance that a break after a comma is worth
		inside = 200 // that a break within a word costs
	)
	at, least := 0, 0
	above, below := 0, lineWidth(in)
	for i := 1; i < len(in); i++ {
		above += in[i-1].columns(i > 1)
		below -= in[i-1].columns(i > 1)
		below := below - in[i].columns(true) + in[i].width
		if above > LineWidth || below > LineWidth {
			continue
		}
		cost := max(above-below, below-above)
		if in[i-1].clause() {
			cost -= comma
		}
		if !in[i].space && !in[i].wide {
			cost += inside
		}
		if at == 0 || cost < least {
			at, least = i, cost
		}
	}
	if at == 0 {
		return nil
	}
	return []string{join(in[:at]), join(in[at:])}
}

// settle gives every cue a time in which it can be read, without overlaps.
func settle(cues []Cue) {
	var last time.Duration
	for i := range cues {
		c := &cues[i]
		c.Start = max(c.Start.Truncate(time.Millisecond), last)
		c.End = max(c.End.Truncate(time.Millisecond), c.Start+shortest)
		last = c.End
	}
	for i := range cues {
		c := &cues[i]
		want := c.Start + MinDuration
		if i+1 < len(cues) {
			want = min(want, cues[i+1].Start)
		}
		c.End = max(c.End, want)
	}
}

func lineWidth(in []piece) int {
	width := 0
	for i := range in {
		width += in[i].columns(i > 0)
	}
	return width
}

// columns is the width of a piece with the space before it, if it has one and does not begin a line.
func (p *piece) columns(within bool) int {
	if within && p.space {
		return p.width + 1
	}
	return p.width
}

func join(in []piece) string {
	var b strings.Builder
	for i := range in {
		if i > 0 && in[i].space {
			b.WriteByte(' ')
		}
		b.WriteString(in[i].text)
	}
	return b.String()
}
