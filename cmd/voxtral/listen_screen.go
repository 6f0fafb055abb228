package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/term"

	"voxtral/internal/listen"
)

// screen shares a terminal between the text, messages and one line of status below them. Without a terminal, text and
// messages pass through and there is no status.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	errs   io.Writer
	wrap   bool // text is wrapped at the terminal's width
	status bool // there is a status line
	below  bool // it shares its terminal with the text
	width  func() int

	line    string // the line on which the text goes on
	current string // status
	drawn   bool
	last    time.Time
}

func newScreen(out, errs *os.File, text, quiet bool) *screen {
	s := &screen{out: out, errs: errs, width: func() int { return 80 }}
	s.wrap = text && isTerminal(out)
	s.status = isTerminal(errs) && !quiet
	if !isTerminal(out) && !s.status {
		return s
	}
	terminal := errs
	if isTerminal(out) {
		terminal = out
		a, errA := out.Stat()
		b, errB := errs.Stat()
		s.below = errA == nil && errB == nil && os.SameFile(a, b)
	}
	s.width = func() int {
		if columns, _, err := term.GetSize(int(terminal.Fd())); err == nil && columns > 0 {
			return columns
		}
		return 80
	}
	return s
}

// Write puts text on standard output, in place of the line on which it goes on.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrap {
		return s.writeWrapped(p)
	}
	s.erase()
	n, err := s.out.Write(p)
	s.draw()
	return n, err
}

// writeWrapped writes the current line anew with the text after it, and as many more lines as it takes.
func (s *screen) writeWrapped(p []byte) (int, error) {
	text := s.line + string(p)
	if s.line == "" { // at the start, or after a message
		text = strings.TrimLeft(text, " \n")
	}
	lines := wrapText(text, s.width()-1)
	if len(lines) > 1 {
		s.erase()
	}
	s.line = lines[len(lines)-1]
	// Every line but the first begins where the status may have been.
	_, err := io.WriteString(s.out, "\r"+strings.Join(lines, "\x1b[K\n\r")+"\x1b[K")
	s.draw()
	return len(p), err
}

// wrapText breaks text at white space, and inside a word that is longer than a line.
func wrapText(text string, width int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		line, used := "", 0
		for len(paragraph) > 0 {
			// A word with the white space before it.
			at := strings.IndexFunc(paragraph, func(r rune) bool { return !unicode.IsSpace(r) })
			end := len(paragraph)
			if at >= 0 {
				if n := strings.IndexFunc(paragraph[at:], unicode.IsSpace); n >= 0 {
					end = at + n
				}
			}
			word := paragraph[:end]
			paragraph = paragraph[end:]
			if used > 0 && used+columns(word) > width {
				lines = append(lines, line)
				line, used = "", 0
				word = strings.TrimLeft(word, " \t")
			}
			for _, r := range word {
				if used+columns(string(r)) > width {
					lines = append(lines, line)
					line, used = "", 0
				}
				line += string(r)
				used += columns(string(r))
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// columns is how many columns text takes: East Asian characters and pictures two, combining ones none.
func columns(text string) (n int) {
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Cc):
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul),
			r >= 0x3000 && r <= 0x303F, r >= 0xFF01 && r <= 0xFF60, r >= 0x1F300 && r <= 0x1FAFF:
			n += 2
		default:
			n++
		}
	}
	return n
}

// messages is standard error for messages, which take lines of their own.
func (s *screen) messages() io.Writer { return messageWriter{s} }

type messageWriter struct{ s *screen }

func (m messageWriter) Write(p []byte) (int, error) {
	s := m.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	if s.wrap && s.line != "" {
		_, _ = io.WriteString(s.out, "\n") // the text goes on below; its own writes report errors
		s.line = ""
	}
	n, err := s.errs.Write(p)
	s.draw()
	return n, err
}

// show sets the status, at most ten times a second.
func (s *screen) show(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.status || time.Since(s.last) < 100*time.Millisecond {
		return
	}
	s.last, s.current = time.Now(), status
	s.draw()
}

// hide takes the status away for good.
func (s *screen) hide() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.status = false
}

// draw writes the status below the text and leaves the cursor at the text's end.
func (s *screen) draw() {
	if !s.status || s.current == "" {
		return
	}
	status := []rune(s.current)
	status = status[:min(len(status), s.width()-1)]
	s.drawn = true
	if !s.below {
		_, _ = fmt.Fprintf(s.errs, "\r%s\x1b[K", string(status))
		return
	}
	_, _ = fmt.Fprintf(s.errs, "\n\r%s\x1b[K\x1b[A\r%s", string(status), right(columns(s.line)))
}

func (s *screen) erase() {
	if !s.drawn {
		return
	}
	s.drawn = false
	if !s.below {
		_, _ = io.WriteString(s.errs, "\r\x1b[K")
		return
	}
	_, _ = fmt.Fprintf(s.errs, "\n\r\x1b[K\x1b[A\r%s", right(columns(s.line)))
}

// right moves the cursor; a move by 0 would be one by 1.
func right(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dC", n)
}

// statusLine is a level meter and how well the model keeps up.
func statusLine(s listen.Status) string {
	const cells, lowest = 12, -60.0
	full := int(math.Round(cells * min(1, max(0, 1-s.Level/lowest))))
	line := fmt.Sprintf("[%s%s] %3.0f dB  %s  lag %.1fs  RTF %.2f",
		strings.Repeat("#", full), strings.Repeat(" ", cells-full), s.Level, shortTime(s.Captured), s.Lag.Seconds(), s.RTF())
	if lost := s.Lost.Silence + s.Lost.Sound; lost > 0 {
		line += fmt.Sprintf("  dropped %.1fs", lost.Seconds())
	}
	if s.Clipping {
		line += "  CLIPPING: lower the level"
	}
	return line
}
