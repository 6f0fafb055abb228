// Package capture brings live audio to one form, mono at 16 kHz: a microphone, standard input as WAV or as raw samples, and
// whatever ffmpeg opens.
package capture

import (
	"context"
	"errors"
	"io"

	"voxtral/audio"
)

// Source is audio that is still being made. It belongs to one goroutine.
type Source interface {
	// Read waits until there are samples in [-1,1], mono at 16 kHz, and returns those that are ready; io.EOF after the
	// last. When the context with which the source was opened is cancelled, its cause is in the error.
	Read(dst []float32) (int, error)
	// Detail describes the audio as it comes in.
	Detail() string
	// Warnings are what the user should know about the audio, complete once Read has returned an error.
	Warnings() []string
	Close() error
}

// Open opens a source that ends when the context is cancelled.
type Open func(context.Context) (Source, error)

// piped is audio that comes through a pipe in a container.
type piped struct {
	*audio.Stream
	ended func(error) error // what Read returns at the end of the pipe; may be nil
	close func()            // may be nil
}

func (p *piped) Read(dst []float32) (int, error) {
	n, err := p.Stream.Read(dst)
	if p.ended != nil && errors.Is(err, io.EOF) {
		err = p.ended(err)
	}
	return n, err
}

func (p *piped) Close() error {
	if p.close != nil {
		p.close()
	}
	return p.Stream.Close()
}
