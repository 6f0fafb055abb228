package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"voxtral/audio"
	"voxtral/internal/subtitle"
	"voxtral/models"
	"voxtral/runtime"
)

const (
	blockSamples = 25 * 1280              // 2 s: the session's longest encoder step
	patience     = 200 * time.Millisecond // a live source is not kept waiting for a full block
	tick         = 80 * time.Millisecond  // unit of a model's default delay
)

// transcriber runs inputs through one session, one after another.
type transcriber struct {
	session *runtime.Session
	model   *models.Model
	channel int
	console *console
	// interrupted says, once, that the audio ends here because the user wants it to.
	interrupted func()
}

// transcribe returns what was heard in an input. text, when set, gets the text as it is decoded. When reading fails or
// is interrupted half-way, what was heard until then is returned with the error; the transcript is nil when nothing was.
func (t *transcriber) transcribe(ctx context.Context, in input, text *textStream) (*subtitle.Transcript, error) {
	stream, err := audio.Open(ctx, in.path, audio.Options{Channel: t.channel})
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }() // only read from
	started := time.Now()
	if text != nil {
		if err := text.begin(); err != nil {
			return nil, err
		}
	}
	t.console.begin(in.name)
	defer t.console.end()
	t.session.Reset()
	h := &hearing{session: t.session, words: t.session.Words(), text: text}
	readErr, err := t.feed(ctx, stream, h, started)
	if readErr != nil && ctx.Err() != nil {
		t.interrupted()
	}
	if err == nil {
		err = h.finish()
	}
	if text != nil {
		if endErr := text.end(); err == nil { // before messages, which may share its terminal
			err = endErr
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.name, err)
	}
	t.console.end()
	t.describe(stream, h, in.name, time.Since(started), readErr)
	if t.session.AudioTime() == 0 && readErr != nil {
		return nil, readErr
	}
	return &subtitle.Transcript{
		File: in.path, Text: h.all.String(), Duration: t.session.AudioTime(), Delay: t.session.Delay(), Model: t.model.Name, Words: h.list,
	}, readErr
}

// feed gives the session all of the stream. It tells failures of the input from failures of the session.
func (t *transcriber) feed(ctx context.Context, stream *audio.Stream, h *hearing, started time.Time) (readErr, err error) {
	block := make([]float32, blockSamples)
	for readErr == nil {
		var n int
		n, readErr = readBlock(stream, block)
		if err := t.session.Feed(block[:n]); err != nil {
			return nil, err
		}
		if err := h.take(); err != nil {
			return nil, err
		}
		done, total := stream.Position()
		heard, spent := t.session.AudioTime(), time.Since(started)
		t.console.progress(done, total, fmt.Sprintf("%s  RTF %.3f", shortTime(heard), spent.Seconds()/max(heard.Seconds(), 1e-3)))
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx), nil
	case errors.Is(readErr, io.EOF):
		return nil, nil
	}
	return readErr, nil
}

// readBlock fills the block unless the source is slow, as live audio is, or ends.
func readBlock(stream *audio.Stream, block []float32) (n int, err error) {
	for begun := time.Now(); n < len(block) && err == nil && (n == 0 || time.Since(begun) < patience); {
		var k int
		k, err = stream.Read(block[n:])
		n += k
	}
	return n, err
}

// describe prints what there is to say about an input once it has been heard.
func (t *transcriber) describe(stream *audio.Stream, h *hearing, name string, spent time.Duration, readErr error) {
	for _, warning := range stream.Warnings() {
		t.console.warn(name, warning)
	}
	heard := t.session.AudioTime()
	if errors.Is(readErr, errInterrupted) {
		t.console.warn(name, fmt.Sprintf("interrupted: the transcript ends at %s", shortTime(heard)))
	}
	const tail = 3 * time.Second // silence at the end is nothing to warn of
	if t.session.Ended() && heard-h.last > tail {
		t.console.warn(name, fmt.Sprintf("the model ended the text at %s of %s", shortTime(h.last), shortTime(heard)))
	}
	info := stream.Info()
	t.console.detail("%s: %s %s, %d Hz, channels: %d", name, info.Container, info.Encoding, info.SampleRate, info.Channels)
	t.console.detail("%s: %.2f s of audio in %.2f s, RTF %.3f", name, heard.Seconds(), spent.Seconds(), spent.Seconds()/max(heard.Seconds(), 1e-3))
}

// hearing collects a session's events.
type hearing struct {
	session *runtime.Session
	words   *runtime.Words
	text    *textStream // may be nil
	all     strings.Builder
	list    []subtitle.Word
	last    time.Duration // of the latest event
}

// take takes the events that have come up.
func (h *hearing) take() error {
	for ev := range h.session.Events() {
		h.last = ev.Time
		h.all.WriteString(ev.Text)
		h.add(h.words.Add(ev))
		if h.text != nil {
			if err := h.text.add(ev.Text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *hearing) finish() error {
	if err := h.session.Finish(); err != nil {
		return err
	}
	if err := h.take(); err != nil {
		return err
	}
	h.add(h.words.Flush())
	return nil
}

func (h *hearing) add(words []runtime.Word) {
	for _, w := range words {
		h.list = append(h.list, subtitle.Word(w))
	}
}
