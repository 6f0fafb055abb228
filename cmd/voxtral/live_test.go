package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"voxtral/audio"
)

// A reader that has seen enough ends the program without complaint.
func TestClosedStandardOutput(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	cmd := exec.Command(binary, "transcribe", "-q", hello, hello)
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &errs
	require.Error(t, cmd.Run())
	require.NoError(t, w.Close())
	require.Empty(t, errs.String())
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, status.Signaled() && status.Signal() == syscall.SIGPIPE, "%v", cmd.ProcessState)
}

// live starts the program on a pipe, gives it the clip without ending the input, and returns when it has taken most of
// it: a pipe and the reader's buffers hold less than four seconds.
func live(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.Command(binary, args...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	_, err = io.WriteString(stdin, endless)
	require.NoError(t, err)
	clip := speech(t)
	for sent := 0; sent < 20*2*audio.SampleRate; sent += len(clip) {
		_, err = stdin.Write(clip)
		require.NoError(t, err)
	}
	return cmd, stdout, stderr
}

// Ctrl-C ends the audio, not the transcript: what was heard is written down.
func TestInterrupt(t *testing.T) {
	cmd, stdout, stderr := live(t, "transcribe", "-")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), stderr)
	require.Equal(t, strings.TrimSpace(stdout.String())+"\n", stdout.String())
	require.Greater(t, len(stdout.String()), 10)
	require.Contains(t, stderr.String(), "voxtral: warning: standard input: interrupted: the transcript ends at ")
}

func TestInterruptWritesFiles(t *testing.T) {
	dir := t.TempDir()
	cmd, stdout, stderr := live(t, "transcribe", "-q", "-f", "json", "-o", dir, "-", hello)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
	require.Empty(t, stdout.String()+stderr.String())
	data, err := os.ReadFile(filepath.Join(dir, "stdin.json"))
	require.NoError(t, err)
	var doc transcriptJSON
	require.NoError(t, json.Unmarshal(data, &doc))
	require.NotEmpty(t, doc.Text)
	require.Greater(t, doc.Duration, 10.0)
	require.NoFileExists(t, filepath.Join(dir, "hello.json"), "what comes after the interrupted input is left")
}

// Text comes while the audio is still coming.
func TestTextIsStreamed(t *testing.T) {
	cmd := exec.Command(binary, "transcribe", "-q", "-")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	_, err = stdin.Write(append([]byte(endless), append(speech(t), make([]byte, 4*2*audio.SampleRate)...)...))
	require.NoError(t, err)
	got := make(chan string)
	go func() {
		first := make([]byte, 1)
		_, _ = io.ReadFull(stdout, first)
		got <- string(first)
	}()
	select {
	case first := <-got:
		require.NotEmpty(t, strings.TrimSpace(first))
	case <-time.After(time.Minute):
		t.Fatal("no text while the input is open")
	}
	require.NoError(t, stdin.Close())
	_, err = io.ReadAll(stdout)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
}

// The first Ctrl-C cannot help where the system does not return, as when a named pipe waits for its writer; more do.
func TestFurtherInterruptQuits(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	cmd := exec.Command(binary, "transcribe", "-v", fifo)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	begun := make([]byte, 1)
	_, err = io.ReadFull(stderr, begun)
	require.NoError(t, err, "signals are handled once there are messages")
	ended := make(chan error)
	go func() {
		_, _ = io.ReadAll(stderr)
		ended <- cmd.Wait()
	}()
	for {
		_ = cmd.Process.Signal(os.Interrupt) // signals that come too fast are one
		select {
		case err := <-ended:
			require.Error(t, err)
			require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
