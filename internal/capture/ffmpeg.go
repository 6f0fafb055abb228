package capture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"voxtral/audio"
)

// URL is audio that the ffmpeg program opens: a radio station, a camera, a file. Unlike a file that is transcribed, the
// user names the protocol, so all that this ffmpeg knows are allowed.
func URL(url string, channel int) Open {
	return func(ctx context.Context) (Source, error) {
		program, err := exec.LookPath("ffmpeg")
		if err != nil {
			return nil, errors.New("a URL needs the ffmpeg program, which is not installed: install it " +
				"(apt install ffmpeg, dnf install ffmpeg, brew install ffmpeg)")
		}
		ctx, cancel := context.WithCancel(ctx)
		cmd := exec.CommandContext(ctx, program, "-nostdin", "-hide_banner", "-loglevel", "error",
			"-i", url, "-map", "0:a:0", "-c:a", "pcm_f32le", "-flush_packets", "1", "-f", "wav", "pipe:1")
		var complaint lastLines
		cmd.Stderr = &complaint
		cmd.WaitDelay = time.Second
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			cancel()
			return nil, fmt.Errorf("ffmpeg: %w", err)
		}
		p := &piped{}
		wait := sync.OnceValue(func() error { return complaint.explain(cmd.Wait(), url) })
		p.close = func() {
			cancel()
			_ = wait() // killed: its status says nothing
		}
		p.ended = func(end error) error {
			if err := wait(); err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", url, err)
			}
			return end
		}
		// An ffmpeg that cannot open the URL says so and ends before its first byte.
		first := bufio.NewReader(out)
		if _, err := first.Peek(1); err != nil {
			err = p.ended(errors.New("ffmpeg found no audio in " + url))
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			cancel()
			return nil, err
		}
		if p.Stream, err = audio.NewStream(ctx, first, url, audio.Options{Channel: channel}); err != nil {
			p.close()
			return nil, err
		}
		return p, nil
	}
}

// lastLines keeps the end of what ffmpeg says.
type lastLines struct{ kept []byte }

func (l *lastLines) Write(b []byte) (int, error) {
	const most = 2048
	l.kept = append(l.kept, b...)
	l.kept = l.kept[max(0, len(l.kept)-most):]
	return len(b), nil
}

// address is where in memory a part of ffmpeg lives, which its messages tell.
var address = regexp.MustCompile(` @ 0x[0-9a-f]+`)

// explain is a failure of ffmpeg in its own words, in one line and without the URL that it repeats.
func (l *lastLines) explain(err error, url string) error {
	if err == nil {
		return nil
	}
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(string(l.kept), "?")) {
		line = strings.TrimPrefix(address.ReplaceAllString(strings.TrimSpace(line), ""), url+": ")
		if line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return fmt.Errorf("ffmpeg: %w", err)
	}
	return fmt.Errorf("ffmpeg: %s", strings.Join(lines[max(0, len(lines)-2):], "; "))
}
