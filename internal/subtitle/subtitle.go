// Package subtitle writes a transcript as text, JSON, SubRip, WebVTT or tab-separated values, and cuts it into cues that
// can be read on a screen: at sentence ends and pauses, two lines of 42 columns, no longer than seconds.
package subtitle

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Word is a word with its place in the audio.
type Word struct {
	Text       string
	Start, End time.Duration
}

// Transcript is what was heard in one input.
type Transcript struct {
	File     string // as the user named it
	Text     string // as the model wrote it
	Duration time.Duration
	Delay    time.Duration
	Model    string
	Words    []Word
}

// Format is a way to write a transcript.
type Format string

// Formats.
const (
	Text Format = "text" // the text and a newline
	JSON Format = "json" // one object in one line, times in seconds
	SRT  Format = "srt"  // SubRip
	VTT  Format = "vtt"  // WebVTT
	TSV  Format = "tsv"  // start, end in milliseconds, text; a header line
)

var writers = map[Format]func(io.Writer, *Transcript) error{
	Text: writeText, JSON: writeJSON, SRT: writeSRT, VTT: writeVTT, TSV: writeTSV,
}

// ParseFormat reads a format's name.
func ParseFormat(s string) (Format, error) {
	if _, ok := writers[Format(s)]; !ok {
		return "", fmt.Errorf("format %q is unknown: use text, json, srt, vtt or tsv", s)
	}
	return Format(s), nil
}

// Ext is the ending of a file in this format, with the dot.
func (f Format) Ext() string {
	if f == Text {
		return ".txt"
	}
	return "." + string(f)
}

// Write writes one transcript.
func (f Format) Write(w io.Writer, t *Transcript) error {
	write, ok := writers[f]
	if !ok {
		return fmt.Errorf("subtitle: format %q is unknown", string(f))
	}
	return write(w, t)
}

func writeText(w io.Writer, t *Transcript) error {
	_, err := fmt.Fprintln(w, strings.TrimSpace(t.Text))
	return err
}

// seconds prints a time with three decimals.
type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', 3, 64), nil
}

type jsonSpan struct {
	Text  string  `json:"text"`
	Start seconds `json:"start"`
	End   seconds `json:"end"`
}

func writeJSON(w io.Writer, t *Transcript) error {
	doc := struct {
		File     string     `json:"file"`
		Text     string     `json:"text"`
		Duration seconds    `json:"duration"`
		DelayMS  int64      `json:"delay_ms"`
		Model    string     `json:"model"`
		Words    []jsonSpan `json:"words"`
		Segments []jsonSpan `json:"segments"`
	}{
		File: t.File, Text: strings.TrimSpace(t.Text), Duration: seconds(t.Duration), DelayMS: t.Delay.Milliseconds(), Model: t.Model,
		Words: []jsonSpan{}, Segments: []jsonSpan{}, // [] and not null when nothing was said
	}
	for _, word := range t.Words {
		doc.Words = append(doc.Words, jsonSpan{word.Text, seconds(word.Start), seconds(word.End)})
	}
	for _, c := range Cues(t.Words) {
		doc.Segments = append(doc.Segments, jsonSpan{c.Text, seconds(c.Start), seconds(c.End)})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}

// clock prints hours, minutes, seconds and milliseconds with the given decimal mark.
func clock(d time.Duration, mark string) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3600000, ms/60000%60, ms/1000%60, mark, ms%1000)
}

func writeSRT(w io.Writer, t *Transcript) error {
	var b strings.Builder
	for i, c := range Cues(t.Words) {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%d\n%s --> %s\n%s\n", i+1, clock(c.Start, ","), clock(c.End, ","), strings.Join(c.Lines, "\n"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// vttEscape keeps text from being read as a tag, an entity or an arrow.
var vttEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func writeVTT(w io.Writer, t *Transcript) error {
	var b strings.Builder
	b.WriteString("WEBVTT\n")
	for _, c := range Cues(t.Words) {
		fmt.Fprintf(&b, "\n%s --> %s\n%s\n", clock(c.Start, "."), clock(c.End, "."), vttEscape.Replace(strings.Join(c.Lines, "\n")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTSV needs no escapes: a cue's text has neither tabs nor newlines.
func writeTSV(w io.Writer, t *Transcript) error {
	var b strings.Builder
	b.WriteString("start\tend\ttext\n")
	for _, c := range Cues(t.Words) {
		fmt.Fprintf(&b, "%d\t%d\t%s\n", c.Start.Milliseconds(), c.End.Milliseconds(), c.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
