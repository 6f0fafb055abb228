package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// However the text is cut into pieces, the stream is the text without trailing space and one newline.
func TestTextStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.StringMatching(`[ab \n]{0,4}`)).Draw(t, "pieces")
		var out strings.Builder
		stream := textStream{w: &out}
		require.NoError(t, stream.begin())
		for _, piece := range pieces {
			require.NoError(t, stream.add(piece))
			require.Equal(t, strings.TrimRight(out.String(), " \n"), out.String())
		}
		require.NoError(t, stream.end())
		require.Equal(t, strings.TrimRight(strings.Join(pieces, ""), " \n")+"\n", out.String())
	})
}

func TestParseDelay(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"": 0, "80": 80 * time.Millisecond, "480": 480 * time.Millisecond, "1200": 1200 * time.Millisecond, "2400": 2400 * time.Millisecond,
		"480ms": 480 * time.Millisecond, "1.2s": 1200 * time.Millisecond, "2.4s": 2400 * time.Millisecond,
	} {
		d, err := parseDelay(s)
		require.NoError(t, err, s)
		require.Equal(t, want, d, s)
	}
	for _, s := range []string{"0", "-80", "79", "81", "1280", "2320", "2480", "x", "480s", "9999999999999999999", "480 "} {
		_, err := parseDelay(s)
		require.ErrorAs(t, err, new(usageError), s)
	}
}

func TestReadableNumbers(t *testing.T) {
	require.Equal(t, []string{"3.2s", "1m05s", "2h03m"}, []string{shortTime(3200 * time.Millisecond), shortTime(65 * time.Second), shortTime(2*time.Hour + 3*time.Minute)})
	require.Equal(t, []string{"999 bytes", "1.5 kB", "2.00 MB", "4.31 GB"}, []string{byteSize(999), byteSize(1500), byteSize(2e6), byteSize(4.31e9)})
	require.Equal(t, []string{"512", "1.90 M", "4.43 B"}, []string{count(512), count(1.9e6), count(4.43e9)})
}

func TestOutputDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	quiet := silence(t)
	for format, ext := range map[string]string{"text": "txt", "json": "json", "srt": "srt", "vtt": "vtt", "tsv": "tsv"} {
		want := voxtral(t, "transcribe", "-q", "--format", format, hello).stdout
		r := voxtral(t, "transcribe", "-q", "--format", format, "--output-dir", dir, hello, quiet)
		require.Equal(t, result{"", "", exitOK}, r)
		got, err := os.ReadFile(filepath.Join(dir, "hello."+ext))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		require.FileExists(t, filepath.Join(dir, "silence."+ext))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 10, "no temporary files are left")
}

// Two inputs never overwrite each other, nor an output its input: that is found before any work.
func TestOutputCollision(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "hello.mp3")
	r := voxtral(t, "transcribe", "--output-dir", filepath.Join(dir, "out"), hello, other)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, hello)
	require.Contains(t, r.stderr, other)
	require.NoDirExists(t, filepath.Join(dir, "out"))

	data, err := os.ReadFile(hello)
	require.NoError(t, err)
	input := filepath.Join(dir, "odd.txt")
	require.NoError(t, os.WriteFile(input, data, 0o600))
	r = voxtral(t, "transcribe", "--output-dir", dir, input)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "would overwrite the input")
}

func TestOutputDirThatCannotBe(t *testing.T) {
	file := tone(t, "file", 0.1, 0)
	r := voxtral(t, "transcribe", "-q", "--output-dir", filepath.Join(file, "x"), hello)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "--output-dir")
}

func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, format := range []string{"text", "json"} {
		cmd := exec.Command(binary, "transcribe", "-q", "-f", format, hello, hello)
		var errs strings.Builder
		cmd.Stdout, cmd.Stderr = full, &errs
		require.Error(t, cmd.Run())
		require.Equal(t, exitFailed, cmd.ProcessState.ExitCode())
		require.Contains(t, errs.String(), "standard output")
		require.Equal(t, 1, strings.Count(errs.String(), "\n"), "said once, and the next input is not begun")
	}
}
