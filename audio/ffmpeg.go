package audio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// ffmpegProcess is a running ffmpeg whose output is a WAV of 32-bit floats with the input's own rate and channels.
type ffmpegProcess struct {
	out    *bufio.Reader
	cmd    *exec.Cmd
	cancel context.CancelFunc
	stderr tail
	waited bool
	err    error
}

// startFFmpeg decodes the first audio track of path, or of in when path is empty.
func startFFmpeg(ctx context.Context, container, path string, in io.Reader) (*ffmpegProcess, error) {
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, fmt.Errorf("%s audio needs the ffmpeg program, which is not installed: install it "+
			"(apt install ffmpeg, dnf install ffmpeg, brew install ffmpeg) or convert the audio to WAV first", container)
	}
	// The protocol is spelled out, and is the only one allowed, so that neither a path nor a playlist inside the audio can
	// make ffmpeg read anything else.
	source := []string{"-protocol_whitelist", "pipe", "-i", "pipe:0"}
	if path != "" {
		source = []string{"-protocol_whitelist", "file", "-i", "file:" + path}
	}
	args := append([]string{"-nostdin", "-hide_banner", "-loglevel", "error"}, source...)
	args = append(args, "-map", "0:a:0", "-c:a", "pcm_f32le", "-f", "wav", "pipe:1")

	ctx, cancel := context.WithCancel(ctx)
	p := &ffmpegProcess{cmd: exec.CommandContext(ctx, program, args...), cancel: cancel}
	p.cmd.Stdin = in
	p.cmd.Stderr = &p.stderr
	p.cmd.WaitDelay = time.Second
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("starting ffmpeg: %w", err)
	}
	p.out = bufio.NewReaderSize(out, bufferSize)
	return p, nil
}

// wait ends the process's output and returns an error when ffmpeg did not like its input.
func (p *ffmpegProcess) wait() error {
	if p.waited {
		return p.err
	}
	p.waited = true
	err := p.cmd.Wait()
	p.cancel()
	// ffmpeg may stop before its input does: what is then left of the pipe is no fault.
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		p.err = fmt.Errorf("ffmpeg cannot decode it (%w)%s", err, p.complaint())
	} else if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		p.err = fmt.Errorf("ffmpeg: %w", err)
	}
	return p.err
}

// complaint returns the last lines ffmpeg wrote to its error output, in one line, or nothing.
func (p *ffmpegProcess) complaint() string {
	text := strings.ToValidUTF8(address.ReplaceAllString(string(p.stderr.kept), ""), "?")
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "Last message repeated") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return ": " + strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// address is where in memory a part of ffmpeg lives, which its messages tell.
var address = regexp.MustCompile(` @ 0x[0-9a-f]+`)

func (p *ffmpegProcess) close() {
	p.cancel()
	_ = p.wait() // killed: its status says nothing
}

// tail keeps the last bytes written to it.
type tail struct{ kept []byte }

func (t *tail) Write(b []byte) (int, error) {
	const most = 2048
	t.kept = append(t.kept, b[max(0, len(b)-most):]...)
	if over := len(t.kept) - most; over > 0 {
		t.kept = t.kept[:copy(t.kept, t.kept[over:])]
	}
	return len(b), nil
}

// spool copies a pipe to a temporary file, for containers whose index may stand at their end.
func spool(in io.Reader) (path string, remove func(), err error) {
	f, err := os.CreateTemp("", "voxtral-*")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.Remove(f.Name()) } // a temporary file left behind harms nobody
	_, err = io.Copy(f, in)
	if err = errors.Join(err, f.Close()); err != nil {
		remove()
		return "", nil, err
	}
	return f.Name(), remove, nil
}
