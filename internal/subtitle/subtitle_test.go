package subtitle

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func written(t *testing.T, f Format, tr *Transcript) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, f.Write(&b, tr))
	return b.String()
}

func example() *Transcript {
	return &Transcript{
		File: "a.wav", Text: " R&D <is> fine. Really? ", Duration: 3661*time.Second + 500*ms, Delay: 480 * ms, Model: "demo",
		Words: []Word{{"R&D", 1240 * ms, 1500 * ms}, {"<is>", 1500 * ms, 1800 * ms}, {"fine.", 1800 * ms, 2240 * ms}, {"Really?", 3600 * time.Second, 3661*time.Second + 7*ms}},
	}
}

func TestFormats(t *testing.T) {
	require.Equal(t, "R&D <is> fine. Really?\n", written(t, Text, example()))
	require.Equal(t, "1\n00:00:01,240 --> 00:00:02,240\nR&D <is> fine.\n\n2\n01:00:00,000 --> 01:01:01,007\nReally?\n", written(t, SRT, example()))
	require.Equal(t, "WEBVTT\n\n00:00:01.240 --> 00:00:02.240\nR&amp;D &lt;is&gt; fine.\n\n01:00:00.000 --> 01:01:01.007\nReally?\n", written(t, VTT, example()))
	require.Equal(t, "start\tend\ttext\n1240\t2240\tR&D <is> fine.\n3600000\t3661007\tReally?\n", written(t, TSV, example()))
}

func TestJSON(t *testing.T) {
	out := written(t, JSON, example())
	require.Equal(t, 1, strings.Count(out, "\n"), "one line")
	require.Contains(t, out, `"start":1.240`)
	require.Contains(t, out, `R&D <is>`, "readable without unescaping")
	var doc struct {
		File, Text, Model string
		Duration          float64
		DelayMS           int `json:"delay_ms"`
		Words, Segments   []struct {
			Text       string
			Start, End float64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.Equal(t, "a.wav", doc.File)
	require.Equal(t, "R&D <is> fine. Really?", doc.Text)
	require.Equal(t, 3661.5, doc.Duration)
	require.Equal(t, 480, doc.DelayMS)
	require.Len(t, doc.Words, 4)
	require.Len(t, doc.Segments, 2)
	require.Equal(t, 2.24, doc.Segments[0].End)
}

func TestNothingSaid(t *testing.T) {
	empty := &Transcript{File: "a.wav"}
	require.Equal(t, "\n", written(t, Text, empty))
	require.Empty(t, written(t, SRT, empty))
	require.Equal(t, "WEBVTT\n", written(t, VTT, empty))
	require.Equal(t, "start\tend\ttext\n", written(t, TSV, empty))
	require.Contains(t, written(t, JSON, empty), `"words":[],"segments":[]`)
}

func TestTextCannotBreakTheFormat(t *testing.T) {
	tr := &Transcript{Words: []Word{{"a\tb\r\n\nc", 0, time.Second}, {"-->", time.Second, 2 * time.Second}}}
	require.Equal(t, "start\tend\ttext\n0\t2000\ta b c -->\n", written(t, TSV, tr))
	require.Equal(t, "1\n00:00:00,000 --> 00:00:02,000\na b c -->\n", written(t, SRT, tr))
	require.Equal(t, "WEBVTT\n\n00:00:00.000 --> 00:00:02.000\na b c --&gt;\n", written(t, VTT, tr))
}

func TestParseFormat(t *testing.T) {
	for _, name := range []string{"text", "json", "srt", "vtt", "tsv"} {
		f, err := ParseFormat(name)
		require.NoError(t, err)
		require.Equal(t, Format(name), f)
	}
	_, err := ParseFormat("SRT2")
	require.ErrorContains(t, err, "text, json, srt, vtt or tsv")
	require.Equal(t, ".txt", Text.Ext())
	require.Equal(t, ".srt", SRT.Ext())
}

type brokenPipe struct{}

var errPipe = errors.New("pipe")

func (brokenPipe) Write([]byte) (int, error) { return 0, errPipe }

func TestWriteErrorsAreReported(t *testing.T) {
	for f := range writers {
		require.ErrorIs(t, f.Write(brokenPipe{}, example()), errPipe, f)
	}
	require.Error(t, Format("x").Write(&strings.Builder{}, example()))
}
