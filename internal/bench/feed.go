package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"voxtral/runtime"
)

// Mode is how the audio reaches the session.
type Mode string

// Modes.
const (
	Offline   Mode = "offline"   // a file: all of it at once
	Streaming Mode = "streaming" // a tick of 80 ms at a time, as fast as possible
	Paced     Mode = "paced"     // a tick of 80 ms at a time, when a microphone would have it
)

// ParseMode reads a mode by its name.
func ParseMode(s string) (Mode, error) {
	if m := Mode(s); m == Offline || m == Streaming || m == Paced {
		return m, nil
	}
	return "", fmt.Errorf("mode %s: use %s, %s or %s", s, Offline, Streaming, Paced)
}

// feed takes clips through a session, one after another.
type feed struct {
	session  *runtime.Session
	progress func(samples int) // of the clip

	busy        time.Duration   // spent in the session
	ticks       []time.Duration // from a tick's last sample to the end of the call that heard it
	tokens      int
	firstTokens []float64 // ms after the clip's beginning, of each clip that has any
	firstTexts  []float64

	// of the clip
	began           time.Time
	hasToken, spoke bool
}

func (f *feed) clip(ctx context.Context, pcm []float32, mode Mode) error {
	f.session.Reset()
	f.began, f.hasToken, f.spoke = time.Now(), false, false
	var err error
	switch mode {
	case Offline:
		f.progress(0)
		err = f.call(func() error { return f.session.Feed(pcm) })
	case Streaming:
		err = f.streaming(ctx, pcm)
	case Paced:
		err = f.paced(ctx, pcm)
	}
	if err == nil {
		err = f.call(f.session.Finish)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

func (f *feed) streaming(ctx context.Context, pcm []float32) error {
	at := 0
	for piece := range slices.Chunk(pcm, tickSamples) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		heard := time.Now()
		if err := f.call(func() error { return f.session.Feed(piece) }); err != nil {
			return err
		}
		f.ticks = append(f.ticks, time.Since(heard))
		at += len(piece)
		f.progress(at)
	}
	return nil
}

// paced waits for every tick, as one must for a microphone, and takes all that has come in the meantime.
func (f *feed) paced(ctx context.Context, pcm []float32) error {
	for heard := 0; heard*tickSamples < len(pcm); {
		if err := sleepUntil(ctx, f.began.Add(time.Duration(heard+1)*tickTime)); err != nil {
			return err
		}
		due := int(time.Since(f.began) / tickTime)
		piece := pcm[heard*tickSamples : min(len(pcm), due*tickSamples)]
		if err := f.call(func() error { return f.session.Feed(piece) }); err != nil {
			return err
		}
		done := time.Since(f.began)
		for range slices.Chunk(piece, tickSamples) {
			heard++
			f.ticks = append(f.ticks, done-time.Duration(heard)*tickTime)
		}
		f.progress(min(len(pcm), heard*tickSamples))
	}
	return nil
}

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// call lets the session work and takes what comes out.
func (f *feed) call(work func() error) error {
	began := time.Now()
	err := work()
	for ev := range f.session.Events() {
		f.tokens++
		now := milliseconds(time.Since(f.began))
		if !f.hasToken {
			f.hasToken, f.firstTokens = true, append(f.firstTokens, now)
		}
		if !f.spoke && ev.Text != "" {
			f.spoke, f.firstTexts = true, append(f.firstTexts, now)
		}
	}
	f.busy += time.Since(began)
	return err
}

// measures turns counts into rates.
func (f *feed) measures(d runtime.Stats, audioSeconds float64, cpu time.Duration, stepBytes int64) Measures {
	steps := d.DecoderTime - d.PromptTime
	r := Measures{
		RTF:                f.busy.Seconds() / audioSeconds,
		TimeToFirstText:    optional(f.firstTexts),
		TimeToFirstToken:   optional(f.firstTokens),
		EncoderStepMS:      ratio(milliseconds(d.EncoderTime), float64(d.EncoderSteps)),
		EncoderTickMS:      ratio(milliseconds(d.EncoderTime), float64(d.EncoderTicks)),
		DecoderStepMS:      ratio(milliseconds(steps), float64(d.DecoderSteps)),
		DecoderTokenMS:     ratio(milliseconds(steps), float64(d.Outputs-d.Prompts)),
		TokensPerSecond:    ratio(float64(f.tokens), f.busy.Seconds()),
		GBps:               ratio(float64(stepBytes)*float64(d.DecoderSteps)/1e9, steps.Seconds()),
		CPUPerAudioSeconds: cpu.Seconds() / audioSeconds,
		Acceptance:         d.Acceptance(),
	}
	for _, t := range f.ticks {
		r.ticks = append(r.ticks, milliseconds(t))
	}
	r.Tick = newTicks(r.ticks)
	return r
}

func optional(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	m := Median(values)
	return &m
}
