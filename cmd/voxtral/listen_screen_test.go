package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"voxtral/internal/listen"
)

// shown is what a terminal shows after all that was written to it: lines without the space at their ends.
func shown(t require.TestingT, written string, width int) []string {
	rows := [][]rune{{}}
	x, y := 0, 0
	for in := []rune(written); len(in) > 0; in = in[1:] {
		switch r := in[0]; r {
		case '\r':
			x = 0
		case '\n': // of a terminal that is not in raw mode
			x = 0
			if y++; y == len(rows) {
				rows = append(rows, nil)
			}
		case '\x1b':
			end := strings.IndexAny(string(in), "KAC")
			n, err := strconv.Atoi(string(in[2:end]))
			if err != nil {
				n = 1
			}
			switch in[end] {
			case 'K':
				rows[y] = rows[y][:min(x, len(rows[y]))]
			case 'A':
				y -= n
			case 'C':
				x += n
			}
			in = in[end:]
		default:
			for len(rows[y]) <= x {
				rows[y] = append(rows[y], ' ')
			}
			rows[y][x] = r
			x++
			require.Less(t, x, width, "the last column is left free: terminals differ in what comes next")
		}
	}
	var lines []string
	for _, row := range rows {
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	return lines
}

// terminal is a screen of its own width, with text, messages and status on it.
func terminal(width int) (*screen, *bytes.Buffer) {
	var out bytes.Buffer
	return &screen{out: &out, errs: &out, wrap: true, status: true, below: true, width: func() int { return width }}, &out
}

func TestScreen(t *testing.T) {
	s, out := terminal(20)
	fmt.Fprint(s.messages(), "voxtral: hello\n")
	s.show("[##] 1.0s")
	fmt.Fprint(s, "It was a dark")
	require.Equal(t, []string{"voxtral: hello", "It was a dark", "[##] 1.0s"}, shown(t, out.String(), 20))
	fmt.Fprint(s, " and stor")
	fmt.Fprint(s, "my night.")
	require.Equal(t, []string{"voxtral: hello", "It was a dark and", "stormy night.", "[##] 1.0s"}, shown(t, out.String(), 20))
	fmt.Fprint(s.messages(), "voxtral: a warning\n")
	fmt.Fprint(s, " Then")
	require.Equal(t, []string{"voxtral: hello", "It was a dark and", "stormy night.", "voxtral: a warning", "Then", "[##] 1.0s"}, shown(t, out.String(), 20))
	s.last = time.Time{}
	s.show(strings.Repeat("long ", 10))
	require.Equal(t, "long long long long", shown(t, out.String(), 20)[5])
	fmt.Fprint(s, "\n")
	s.hide()
	fmt.Fprint(s.messages(), "voxtral: the end\n")
	s.show("[##] 2.0s")
	require.Equal(t, []string{"voxtral: hello", "It was a dark and", "stormy night.", "voxtral: a warning", "Then", "voxtral: the end", ""}, shown(t, out.String(), 20))
}

// Without a terminal, text and messages pass as they are.
func TestScreenThatIsNone(t *testing.T) {
	var out, errs bytes.Buffer
	s := &screen{out: &out, errs: &errs}
	fmt.Fprint(s, "It was")
	s.show("status")
	fmt.Fprint(s.messages(), "voxtral: a warning\n")
	fmt.Fprint(s, " dark.\n")
	s.hide()
	require.Equal(t, "It was dark.\n", out.String())
	require.Equal(t, "voxtral: a warning\n", errs.String())
}

// However the text comes, what is shown is the text, wrapped between words; nothing of the status is left in it.
func TestScreenShowsTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(12, 60).Draw(t, "width")
		s, out := terminal(width)
		words := rapid.SliceOf(rapid.StringMatching(`[a-z]{1,10}[.,]?`)).Draw(t, "words")
		for i, word := range words {
			if i > 0 {
				word = " " + word
			}
			at := rapid.IntRange(0, len(word)).Draw(t, "at")
			for _, piece := range []string{word[:at], word[at:]} {
				fmt.Fprint(s, piece)
				s.last = time.Time{}
				s.show("#status#")
			}
		}
		s.hide()
		lines := shown(t, out.String(), width)
		require.Equal(t, words, append([]string{}, strings.Fields(strings.Join(lines, " "))...))
		text := strings.TrimRight(strings.Join(lines, "\n"), "\n")
		for i, line := range strings.Split(text, "\n") {
			require.Less(t, len(line), width)
			if i > 0 {
				before := strings.Split(text, "\n")[i-1]
				first, _, _ := strings.Cut(line, " ")
				require.GreaterOrEqual(t, len(before)+1+len(first), width, "the word would have fitted the line before")
			}
		}
	})
}

func TestWideCharactersWrap(t *testing.T) {
	require.Equal(t, []string{"今日は", "いい天", "気"}, wrapText("今日はいい天気", 7))
	require.Equal(t, 4, columns("é́今x"))
	require.Equal(t, []string{""}, wrapText("", 10))
}

func TestStatusLine(t *testing.T) {
	line := statusLine(listen.Status{Level: -30, Captured: 65 * time.Second, Heard: time.Minute, Busy: 15 * time.Second, Lag: 1500 * time.Millisecond, Clipping: true,
		Lost: listen.Losses{Silence: time.Second, Sound: 2 * time.Second}})
	require.Equal(t, "[######      ] -30 dB  1m05s  lag 1.5s  RTF 0.25  dropped 3.0s  CLIPPING: lower the level", line)
	require.Contains(t, statusLine(listen.Status{Level: -90}), "[            ] -90 dB  0.0s  lag 0.0s  RTF 0.00")
	require.Contains(t, statusLine(listen.Status{Level: 3}), "[############]")
}

// On a real terminal the text stands above, the status has been there and is gone at the end.
func TestListenOnATerminal(t *testing.T) {
	if _, err := exec.LookPath("script"); err != nil {
		if os.Getenv("VOXTRAL_CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no script program to make a terminal with")
	}
	out, err := exec.Command("script", "-qec", binary+" listen - < "+hello, "/dev/null").Output()
	require.NoError(t, err)
	require.Regexp(t, `lag \d+\.\ds`, string(out))
	require.Contains(t, string(out), "RTF ")
	lines := shown(t, string(out), 120)
	require.GreaterOrEqual(t, len(lines), 3, lines)
	require.Contains(t, lines[0], "demonstration model")
	require.Equal(t, strings.TrimSpace(helloText()), lines[1])
	require.Regexp(t, `^voxtral: heard 3\.8s of audio`, lines[2])
	require.Empty(t, strings.Join(lines[3:], ""))
	out, err = exec.Command("script", "-qec", binary+" listen -q - < "+hello, "/dev/null").Output()
	require.NoError(t, err)
	require.Equal(t, []string{strings.TrimSpace(helloText()), ""}, shown(t, string(out), 120))
	require.NotContains(t, string(out), "RTF")
}
