package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"voxtral/audio"
	"voxtral/internal/device"
	"voxtral/models"
	"voxtral/runtime"
)

// heard is what one model on one device made of all clips.
type heard struct {
	model, device string
	delay         time.Duration
	clips         []heardClip
}

type heardClip struct {
	text   string
	events []runtime.Event
	audio  time.Duration
	spent  time.Duration
	logits [][]float32 // of every output, only with --kl
}

// hearAll lets each of the runs transcribe all clips: one model after the other, or with --kl both clip by clip. A clip
// that cannot be read ends it: rates over fewer clips than the manifest has would not be comparable.
func hearAll(ctx context.Context, c *console, runs []*evalFlags, clips []evalClip, delay time.Duration) ([]*heard, *divergenceStats, error) {
	if !runs[0].kl {
		var results []*heard
		for _, f := range runs {
			list, _, err := f.together(ctx, c, []*evalFlags{f}, clips, delay)
			if err != nil {
				return nil, nil, err
			}
			results = append(results, list...)
		}
		return results, nil, nil
	}
	return runs[0].together(ctx, c, runs, clips, delay)
}

// together opens the models of all runs at once.
func (f *evalFlags) together(ctx context.Context, c *console, runs []*evalFlags, clips []evalClip, delay time.Duration) (results []*heard, kl *divergenceStats, err error) {
	var hearers []*hearer
	defer func() {
		for _, l := range hearers {
			err = errors.Join(err, l.close())
		}
	}()
	for _, run := range runs {
		l, err := run.engage(c, delay)
		if err != nil {
			return nil, nil, err
		}
		hearers = append(hearers, l)
		name := l.model.Name
		if l.builtIn {
			name += " (built in)"
		}
		results = append(results, &heard{model: name, device: l.dev.Info().Name, delay: l.session.Delay()})
	}
	if f.kl {
		kl = &divergenceStats{}
	}
	c.begin(results[0].model + " on " + results[0].device)
	defer c.end()
	for i, clip := range clips {
		for k, l := range hearers {
			one, err := l.hear(ctx, clip.path)
			if err != nil {
				return nil, nil, err
			}
			results[k].clips = append(results[k].clips, one)
		}
		if kl != nil {
			if err := kl.add(&results[0].clips[i], &results[1].clips[i]); err != nil {
				return nil, nil, err
			}
			results[0].clips[i].logits, results[1].clips[i].logits = nil, nil
		}
		c.progress(int64(i+1), int64(len(clips)), fmt.Sprintf("%d of %d clips", i+1, len(clips)))
	}
	return results, kl, nil
}

// hearer is a model on a device with one session.
type hearer struct {
	model   *models.Model
	builtIn bool
	dev     computer
	engine  *runtime.Engine
	session *runtime.Session
	logits  [][]float32
}

func (f *evalFlags) engage(c *console, delay time.Duration) (l *hearer, err error) {
	l = &hearer{}
	if l.model, l.builtIn, err = openModel(f.model); err != nil {
		return nil, err
	}
	opt := runtime.Options{Delay: delay}
	if f.kl {
		opt.NoSpeculation = true // one row of logits an output, in order
		opt.Trace = func(label string, _, rows, cols int, out []float32) {
			if label == "dec.logits" {
				l.logits = append(l.logits, slices.Clone(out[:rows*cols]))
			}
		}
	}
	l.dev, err = f.open(c, func(dev device.Device) (err error) {
		if l.engine, err = runtime.Open(l.model, dev); err != nil {
			return err
		}
		if l.session, err = l.engine.NewSession(opt); err != nil {
			return errors.Join(err, l.engine.Close())
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, l.model.Close())
	}
	return l, nil
}

func (l *hearer) close() error {
	return errors.Join(l.session.Close(), l.engine.Close(), l.dev.Close(), l.model.Close())
}

// hear transcribes one clip.
func (l *hearer) hear(ctx context.Context, path string) (h heardClip, err error) {
	session := l.session
	l.logits = nil
	stream, err := audio.Open(ctx, path, audio.Options{})
	if err != nil {
		return h, err
	}
	defer func() { _ = stream.Close() }() // only read from
	session.Reset()
	block := make([]float32, blockSamples)
	for err == nil {
		var n int
		n, err = readBlock(stream, block)
		started := time.Now()
		if feedErr := session.Feed(block[:n]); feedErr != nil {
			return h, fmt.Errorf("%s: %w", path, feedErr)
		}
		h.spent += time.Since(started)
		if ctx.Err() != nil {
			return h, context.Cause(ctx)
		}
	}
	if !errors.Is(err, io.EOF) {
		return h, err
	}
	started := time.Now()
	if err := session.Finish(); err != nil {
		return h, fmt.Errorf("%s: %w", path, err)
	}
	h.spent += time.Since(started)
	var text strings.Builder
	for ev := range session.Events() {
		h.events = append(h.events, ev)
		text.WriteString(ev.Text)
	}
	h.text, h.audio, h.logits = text.String(), session.AudioTime(), l.logits
	return h, nil
}
