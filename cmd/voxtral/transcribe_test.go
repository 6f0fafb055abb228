package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/audio"
)

// The text is on standard output and ends with one newline; what is said about it is on standard error.
func TestTranscribeText(t *testing.T) {
	r := voxtral(t, "transcribe", hello)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, strings.TrimSpace(r.stdout)+"\n", r.stdout)
	require.Equal(t, helloText(), r.stdout)
	require.Contains(t, r.stderr, "demonstration model")

	quiet := voxtral(t, "transcribe", "--quiet", hello)
	require.Equal(t, exitOK, quiet.code)
	require.Equal(t, r.stdout, quiet.stdout)
	require.Empty(t, quiet.stderr)

	verbose := voxtral(t, "transcribe", "-v", "--threads", "1", "--device", "cpu", "--delay", "480ms", hello)
	require.Equal(t, exitOK, verbose.code)
	require.Equal(t, r.stdout, verbose.stdout, "480 ms is the model's own delay")
	for _, word := range []string{"model ", "device cpu", "threads: 1", "pcm_s16, 16000 Hz", "RTF", "delay 480 ms"} {
		require.Contains(t, verbose.stderr, word)
	}
}

// What the repository says the clip says is what comes out.
func TestHelloIsUnderstood(t *testing.T) {
	readme, err := os.ReadFile("../../examples/README.md")
	require.NoError(t, err)
	text := strings.TrimSpace(helloText())
	require.NotEmpty(t, text)
	require.Contains(t, strings.Join(strings.Fields(string(readme)), " "), text)
}

// The same samples give the same text from a file, from a pipe of known length and from one without end.
func TestStandardInput(t *testing.T) {
	want := voxtral(t, "transcribe", "-q", hello)
	data, err := os.ReadFile(hello)
	require.NoError(t, err)
	r := voxtralReading(t, bytes.NewReader(data), "transcribe", "-q", "-")
	require.Equal(t, want, r)
	r = voxtralReading(t, io.MultiReader(strings.NewReader(endless), bytes.NewReader(speech(t))), "transcribe", "-q", "-")
	require.Equal(t, want, r)

	r = voxtralReading(t, strings.NewReader(""), "transcribe", "-q", "-")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "voxtral: standard input: is empty (0 bytes)\n", r.stderr)
	require.Empty(t, r.stdout)
}

type spanJSON struct {
	Text       string
	Start, End float64
}

type transcriptJSON struct {
	File, Text, Model string
	Duration          float64
	DelayMS           int `json:"delay_ms"`
	Words, Segments   []spanJSON
}

func TestJSON(t *testing.T) {
	text := helloText()
	r := voxtral(t, "transcribe", "-q", "-f", "json", hello, silence(t))
	require.Equal(t, exitOK, r.code, r.stderr)
	lines := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	require.Len(t, lines, 2, "one object a line")
	var doc transcriptJSON
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &doc))
	require.Equal(t, hello, doc.File)
	require.Equal(t, strings.TrimSpace(text), doc.Text)
	require.Equal(t, 480, doc.DelayMS)
	require.NotEmpty(t, doc.Model)
	require.InDelta(t, float64(len(speech(t)))/2/audio.SampleRate, doc.Duration, 0.1)
	require.Equal(t, strings.Fields(doc.Text), texts(doc.Words))
	require.Equal(t, doc.Text, strings.Join(texts(doc.Segments), " "))
	last := 0.0
	for _, w := range doc.Words {
		require.LessOrEqual(t, last, w.Start)
		require.LessOrEqual(t, w.Start, w.End)
		last = w.End
	}
	// A word may be announced a tick or two after the last sample.
	require.LessOrEqual(t, last, doc.Duration+1)
}

func texts(spans []spanJSON) (list []string) {
	for _, s := range spans {
		list = append(list, strings.Fields(s.Text)...)
	}
	return list
}

// SRT, VTT and TSV carry the same cues, and together they say what the text says.
func TestSubtitles(t *testing.T) {
	text := strings.Fields(helloText())
	arrow := regexp.MustCompile(`^(\d\d):(\d\d):(\d\d)[.,](\d{3}) --> (\d\d):(\d\d):(\d\d)[.,](\d{3})$`)
	var times [2][]string
	for i, format := range []string{"srt", "vtt"} {
		r := voxtral(t, "transcribe", "-q", "--format", format, hello)
		require.Equal(t, exitOK, r.code, r.stderr)
		body := r.stdout
		if format == "vtt" {
			require.True(t, strings.HasPrefix(body, "WEBVTT\n\n"))
			body = body[len("WEBVTT\n\n"):]
		}
		var said []string
		for n, block := range strings.Split(strings.TrimSpace(body), "\n\n") {
			lines := strings.Split(block, "\n")
			if format == "srt" {
				require.Equal(t, fmt.Sprint(n+1), lines[0])
				lines = lines[1:]
			}
			require.Regexp(t, arrow, lines[0])
			times[i] = append(times[i], strings.ReplaceAll(lines[0], ",", "."))
			for _, line := range lines[1:] {
				said = append(said, strings.Fields(line)...)
			}
		}
		require.Equal(t, text, said, format)
	}
	require.Equal(t, times[0], times[1])

	r := voxtral(t, "transcribe", "-q", "--format", "tsv", hello)
	rows := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	require.Equal(t, "start\tend\ttext", rows[0])
	require.Len(t, rows[1:], len(times[0]))
	require.Regexp(t, `^\d+\t\d+\t[^\t]+$`, rows[1])
}

func TestSeveralFiles(t *testing.T) {
	one := helloText()
	r := voxtral(t, "transcribe", hello, hello)
	require.Equal(t, "==> "+hello+" <==\n"+one+"\n==> "+hello+" <==\n"+one, r.stdout)
	r = voxtral(t, "transcribe", "-q", hello, hello)
	require.Equal(t, one+one, r.stdout)
	require.Empty(t, r.stderr)
}

// One bad file is an error of its own; the others are transcribed, and the exit code tells.
func TestFailingFileAmongGoodOnes(t *testing.T) {
	text := helloText()
	bad := filepath.Join(t.TempDir(), "bad.wav")
	require.NoError(t, os.WriteFile(bad, []byte("no audio at all"), 0o600))
	r := voxtral(t, "transcribe", "-q", bad, hello, "missing.wav", hello)
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, text+text, r.stdout)
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], bad)
	require.Contains(t, lines[1], "missing.wav")
	for _, line := range lines {
		require.True(t, strings.HasPrefix(line, "voxtral: "), line)
	}
}

// Audio in which nobody speaks is no error.
func TestSilence(t *testing.T) {
	path := silence(t)
	r := voxtral(t, "transcribe", "-q", path)
	require.Equal(t, result{"\n", "", exitOK}, r)
	r = voxtral(t, "transcribe", "-q", "-f", "srt", path)
	require.Equal(t, result{"", "", exitOK}, r)
	empty := tone(t, "empty.wav", 0, 0)
	require.Equal(t, result{"\n", "", exitOK}, voxtral(t, "transcribe", "-q", empty))
}

func TestChannel(t *testing.T) {
	text := helloText()
	require.Equal(t, text, voxtral(t, "transcribe", "-q", "--channel", "1", hello).stdout)
	r := voxtral(t, "transcribe", "-q", "--channel", "2", hello)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "channel 2")
}

func TestWarningsNameTheFile(t *testing.T) {
	data, err := os.ReadFile(hello)
	require.NoError(t, err)
	cut := filepath.Join(t.TempDir(), "cut.wav")
	require.NoError(t, os.WriteFile(cut, data[:len(data)-1000], 0o600))
	r := voxtral(t, "transcribe", cut)
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.stderr, "voxtral: warning: "+cut+": ")
	require.Empty(t, voxtral(t, "transcribe", "-q", cut).stderr)
}
