package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"voxtral/internal/listen"
	"voxtral/internal/subtitle"
	"voxtral/runtime"
)

// liveWriter writes a transcript as it is heard. What it has written stays, and every call flushes what is complete.
type liveWriter interface {
	hear(ev runtime.Event, words []subtitle.Word) error
	dropped(listen.Drop) error
	end(*listen.Report) error
}

func newLiveWriter(w io.Writer, format subtitle.Format) liveWriter {
	switch format {
	case subtitle.JSON:
		return &jsonLines{json.NewEncoder(w)}
	case subtitle.SRT, subtitle.VTT:
		return &cueLines{w: w, vtt: format == subtitle.VTT}
	}
	return &wordStream{w: w}
}

// assembler turns events into words as soon as they are complete.
type assembler struct {
	words *runtime.Words
	pad   int
	pads  int // in a row
}

// settled is how many pads in a row say that a word has ended even though no other has begun.
const settled = 3

func newAssembler(words *runtime.Words, pad int) *assembler {
	return &assembler{words: words, pad: pad}
}

func (a *assembler) add(ev runtime.Event) []subtitle.Word {
	done := a.words.Add(ev)
	a.pads++
	if ev.Token != a.pad {
		a.pads = 0
	}
	if a.pads == settled {
		done = append(done, a.words.Flush()...)
	}
	return convert(done)
}

func (a *assembler) flush() []subtitle.Word { return convert(a.words.Flush()) }

func convert(words []runtime.Word) (list []subtitle.Word) {
	for _, w := range words {
		list = append(list, subtitle.Word(w))
	}
	return list
}

// wordStream writes the text, a whole word at a time, and nothing at its end but one newline.
type wordStream struct {
	w    io.Writer
	held string // white space, and a word that may go on
}

func (s *wordStream) hear(ev runtime.Event, _ []subtitle.Word) error {
	s.held += ev.Text
	whole := strings.LastIndexAny(s.held, " \t\r\n") + 1
	if ev.Text == "" { // an output without text ends a word
		whole = len(s.held)
	}
	return s.write(strings.TrimRight(s.held[:whole], " \t\r\n"))
}

// write writes the beginning of what is held.
func (s *wordStream) write(text string) error {
	if text == "" {
		return nil
	}
	s.held = s.held[len(text):]
	_, err := io.WriteString(s.w, text)
	return err
}

func (s *wordStream) dropped(listen.Drop) error { return nil }

func (s *wordStream) end(*listen.Report) error {
	_, err := io.WriteString(s.w, strings.TrimRight(s.held, " \t\r\n")+"\n")
	return err
}

// jsonLines writes an object a line; times are seconds of the source's audio.
type jsonLines struct{ enc *json.Encoder }

// liveJSON is one line. Which fields there are depends on the type.
type liveJSON struct {
	Type  string   `json:"type"` // word, dropped or end
	Text  string   `json:"text,omitempty"`
	Start *float64 `json:"start,omitempty"`
	End   *float64 `json:"end,omitempty"`

	Silence *bool `json:"silence,omitempty"` // of a drop: nobody spoke there

	Duration *float64 `json:"duration,omitempty"` // of all audio that came in
	Heard    *float64 `json:"heard,omitempty"`    // of it
	Error    string   `json:"error,omitempty"`    // why the audio broke off
}

func seconds(d time.Duration) *float64 {
	s := float64(d.Milliseconds()) / 1000
	return &s
}

func (j *jsonLines) hear(_ runtime.Event, words []subtitle.Word) error {
	for _, w := range words {
		if err := j.enc.Encode(liveJSON{Type: "word", Text: w.Text, Start: seconds(w.Start), End: seconds(w.End)}); err != nil {
			return err
		}
	}
	return nil
}

func (j *jsonLines) dropped(d listen.Drop) error {
	return j.enc.Encode(liveJSON{Type: "dropped", Start: seconds(d.Start), End: seconds(d.End), Silence: &d.Silence})
}

func (j *jsonLines) end(r *listen.Report) error {
	line := liveJSON{Type: "end", Duration: seconds(r.Captured), Heard: seconds(r.Heard)}
	if r.SourceErr != nil {
		line.Error = plain(r.SourceErr)
	}
	return j.enc.Encode(line)
}

// cueLines writes subtitles, a phrase as soon as the next one has begun or nothing has been said for a while.
type cueLines struct {
	w      io.Writer
	vtt    bool
	headed bool
	count  int
	words  []subtitle.Word // of the phrase
	ended  time.Duration   // of the latest cue written
}

const (
	// farWord is a pause after which a word that comes late cannot belong to the phrase.
	farWord = 2 * time.Second
	// longPhrase is the most words that wait for the end of their phrase.
	longPhrase = 60
)

func (c *cueLines) hear(ev runtime.Event, words []subtitle.Word) error {
	if err := c.head(); err != nil {
		return err
	}
	for _, w := range words {
		w.Start = max(w.Start, c.ended)
		w.End = max(w.End, w.Start)
		c.words = append(c.words, w)
		n := len(c.words)
		// Two words that do not share a cue belong to two phrases.
		if n > 1 && len(subtitle.Cues(c.words[n-2:])) > 1 || n > longPhrase {
			if err := c.phrase(1); err != nil {
				return err
			}
		}
	}
	if n := len(c.words); n > 0 && ev.Time > c.words[n-1].End+farWord {
		return c.phrase(0)
	}
	return nil
}

// phrase writes the cues of all words but the last few, which give the end of the last cue its limit.
func (c *cueLines) phrase(after int) error {
	rest := c.words[len(c.words)-after:]
	cues := subtitle.Cues(c.words)
	cues = cues[:len(cues)-len(subtitle.Cues(rest))]
	for _, cue := range cues {
		if err := c.write(cue); err != nil {
			return err
		}
	}
	c.words = append(c.words[:0], rest...)
	return nil
}

func (c *cueLines) head() error {
	if c.headed || !c.vtt {
		return nil
	}
	c.headed = true
	_, err := io.WriteString(c.w, "WEBVTT\n")
	return err
}

// vttText keeps text from being read as a tag or an entity.
var vttText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (c *cueLines) write(cue subtitle.Cue) error {
	c.count++
	c.ended = cue.End
	text := strings.Join(cue.Lines, "\n")
	if c.vtt {
		_, err := fmt.Fprintf(c.w, "\n%s --> %s\n%s\n", cueTime(cue.Start, "."), cueTime(cue.End, "."), vttText.Replace(text))
		return err
	}
	gap := "\n"
	if c.count == 1 {
		gap = ""
	}
	_, err := fmt.Fprintf(c.w, "%s%d\n%s --> %s\n%s\n", gap, c.count, cueTime(cue.Start, ","), cueTime(cue.End, ","), text)
	return err
}

func cueTime(d time.Duration, mark string) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3600000, ms/60000%60, ms/1000%60, mark, ms%1000)
}

func (c *cueLines) dropped(listen.Drop) error { return nil }

func (c *cueLines) end(*listen.Report) error {
	if err := c.head(); err != nil {
		return err
	}
	return c.phrase(0)
}
