package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The saved audio is what was heard, to the bit, and the saved text what was printed.
func TestListenSave(t *testing.T) {
	dir := t.TempDir()
	wav := filepath.Join(dir, "talk.wav")
	data, err := os.ReadFile(hello)
	require.NoError(t, err)
	for _, format := range []string{"text", "json", "srt", "vtt"} {
		text := filepath.Join(dir, format)
		r := voxtralReading(t, wavOf(speech(t)), "listen", "-q", "-f", format, "--save", wav, "--save-text", text, "-")
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Empty(t, r.stderr)
		written, err := os.ReadFile(text)
		require.NoError(t, err)
		require.Equal(t, r.stdout, string(written))
		kept, err := os.ReadFile(wav)
		require.NoError(t, err)
		require.Equal(t, data, kept)
	}
}

// After Ctrl-C the text is that of all audio that was heard: the delay is drained, whatever was in flight.
func TestListenInterruptIsDrained(t *testing.T) {
	for _, word := range []string{"She", "children", "garden"} {
		wav := filepath.Join(t.TempDir(), "talk.wav")
		r := interrupted(t, word, speech(t), "listen", "-q", "--save", wav, "-")
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Empty(t, r.stderr)
		require.Equal(t, result{r.stdout, "", exitOK}, voxtral(t, "transcribe", "-q", wav))
	}
}

// The file is whole, header and all, even when the program is killed.
func TestListenKilledKeepsAudio(t *testing.T) {
	dir := t.TempDir()
	wav, text := filepath.Join(dir, "talk.wav"), filepath.Join(dir, "talk.txt")
	cmd := exec.Command(binary, "listen", "-q", "--save", wav, "--save-text", text, "-")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = stdin.Write(append([]byte(endless), speech(t)...))
	require.NoError(t, err)
	heard := make([]byte, len("She said that the children"))
	for n := 0; n < len(heard); {
		k, err := out.Read(heard[n:])
		require.NoError(t, err)
		n += k
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	r := voxtral(t, "transcribe", wav)
	require.Equal(t, exitOK, r.code)
	require.NotContains(t, r.stderr, "warning")
	require.Contains(t, r.stdout, "She")
	written, err := os.ReadFile(text)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(written), string(heard)), "the file is written before the pipe")
}

// A full disk is said once; the text comes, what was kept stays, and the exit code tells.
func TestListenFullDisk(t *testing.T) {
	for _, flag := range []string{"--save", "--save-text"} {
		r := voxtralReading(t, wavOf(speech(t)), "listen", "-q", flag, "/dev/full", "-")
		require.Equal(t, exitFailed, r.code)
		require.Equal(t, helloText(), r.stdout)
		require.Contains(t, r.stderr, "voxtral: "+flag+": write /dev/full: no space left on device")
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)

		r = voxtralReading(t, wavOf(speech(t)), "listen", "-q", flag, "/nowhere/talk", "-")
		require.Equal(t, exitFailed, r.code)
		require.Empty(t, r.stdout)
		require.Equal(t, "voxtral: "+flag+": open /nowhere/talk: no such file or directory\n", r.stderr)
	}
}

// A disk that becomes full leaves a valid file of what was written before.
func TestRecorderFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "talk.wav")
	var told []error
	r, err := newRecorder(path, func(err error) { told = append(told, err) })
	require.NoError(t, err)
	r.add(make([]float32, 20000))
	r.fail(errors.New("no space left on device"))
	r.add(make([]float32, 20000))
	r.fail(errors.New("again"))
	r.close()
	require.Len(t, told, 1)
	require.ErrorContains(t, told[0], "--save: no space left on device")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, data, headerSize+2*20000)
	require.Equal(t, []byte{0x40, 0x9c, 0, 0}, data[dataSizeAt:headerSize])
	require.Equal(t, []byte{0x64, 0x9c, 0, 0}, data[riffSizeAt:riffSizeAt+4])
}

func TestListenDoesNotOverwriteItsInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "talk.wav")
	data, err := os.ReadFile(hello)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	for _, flag := range []string{"--save", "--save-text"} {
		f, err := os.Open(path)
		require.NoError(t, err)
		r := voxtralReading(t, f, "listen", flag, path, "-")
		require.NoError(t, f.Close())
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.stderr, path)
	}
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, data, kept)
	r := voxtralReading(t, bytes.NewReader(data), "listen", "--save", "same", "--save-text", "same", "-")
	require.Equal(t, exitUsage, r.code)
	require.NoFileExists(t, "same")
}
