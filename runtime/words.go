package runtime

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Word is a word with its place in the audio. End comes from the model: it marks a word when it has heard all of it, to
// within 80 ms. Start is an estimate from the word's length, because the model does not mark beginnings.
type Word struct {
	Text  string
	Start time.Duration
	End   time.Duration
}

// Speaking rate behind the estimate of a word's start: about 14 characters a second and a short onset.
const (
	onset   = 60 * time.Millisecond
	perRune = 70 * time.Millisecond
)

// Words assembles events into words. The model announces words with a marker token; words that share a marker share its
// time and divide the span between them. Text without a marker is timed by its own token.
type Words struct {
	marker int // token id of [STREAMING_WORD]
	pad    int // token id of [STREAMING_PAD]
	group  []string
	end    time.Duration // when the group's last word had been heard
	marked bool          // end is a marker's time
	paused bool          // a pad has come since the group's latest text: what follows is no part of it
	last   time.Duration // end of the latest finished word
}

// Words returns an assembler for the session's events.
func (s *Session) Words() *Words {
	t := s.engine.model.Tokenizer
	return &Words{marker: t.StreamingWord, pad: t.StreamingPad}
}

// Add takes the next event and returns the words that it completes.
func (w *Words) Add(ev Event) []Word {
	var done []Word
	switch ev.Token {
	case w.marker:
		done = w.Flush()
		w.end, w.marked = ev.Time, true
	case w.pad:
		w.paused = len(w.group) > 0
	}
	for text := ev.Text; text != ""; {
		r, size := utf8.DecodeRuneInString(text)
		if !unicode.IsSpace(r) {
			size = strings.IndexFunc(text, unicode.IsSpace)
			if size < 0 {
				size = len(text)
			}
			if len(w.group) == 0 {
				if !w.marked {
					w.end = ev.Time
				}
				w.group = []string{""}
			}
			w.group[len(w.group)-1] += text[:size]
		} else if len(w.group) > 0 && w.group[len(w.group)-1] != "" {
			if w.marked && !w.paused {
				w.group = append(w.group, "")
			} else {
				done = append(done, w.Flush()...)
			}
		}
		text = text[size:]
	}
	return done
}

// Flush returns the words still being assembled.
func (w *Words) Flush() []Word {
	runes, span := 0, time.Duration(0)
	for _, text := range w.group {
		n := utf8.RuneCountInString(text)
		runes += n
		if n > 0 {
			span += onset + time.Duration(n)*perRune
		}
	}
	start := max(w.last, w.end-span, 0)
	end := max(w.end, start)
	var done []Word
	heard := 0
	for _, text := range w.group {
		if text == "" {
			continue
		}
		from := start + (end-start)*time.Duration(heard)/time.Duration(runes)
		heard += utf8.RuneCountInString(text)
		done = append(done, Word{Text: text, Start: from, End: start + (end-start)*time.Duration(heard)/time.Duration(runes)})
	}
	if len(done) > 0 {
		w.last = end
	}
	w.group, w.marked, w.paused = nil, false, false
	return done
}
