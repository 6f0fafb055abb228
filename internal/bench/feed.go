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

// feed is one stream on its way through a session.
type feed struct {
	session  *runtime.Session
	began    time.Time
	progress func(samples int)

	busy       time.Duration   // spent in the session
	ticks      []time.Duration // from a tick's last sample to the end of the call that heard it
	tokens     int
	firstToken time.Duration // after the beginning; 0 until there is one
	firstText  time.Duration
}

func (f *feed) all(ctx context.Context, pcm []float32, mode Mode) error {
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
	for done := range slices.Chunk(pcm, tickSamples) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		heard := time.Now()
		if err := f.call(func() error { return f.session.Feed(done) }); err != nil {
			return err
		}
		f.ticks = append(f.ticks, time.Since(heard))
		f.progress(len(f.ticks) * tickSamples)
	}
	return nil
}

// paced waits for every tick, as one must for a microphone, and takes all that has come in the meantime.
func (f *feed) paced(ctx context.Context, pcm []float32) error {
	for at := 0; at < len(pcm); at = len(f.ticks) * tickSamples {
		if err := sleepUntil(ctx, f.began.Add(time.Duration(len(f.ticks)+1)*tickTime)); err != nil {
			return err
		}
		due := int(time.Since(f.began) / tickTime)
		piece := pcm[at:min(len(pcm), due*tickSamples)]
		if err := f.call(func() error { return f.session.Feed(piece) }); err != nil {
			return err
		}
		done := time.Since(f.began)
		for range slices.Chunk(piece, tickSamples) {
			f.ticks = append(f.ticks, done-time.Duration(len(f.ticks)+1)*tickTime)
		}
		f.progress(len(f.ticks) * tickSamples)
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
		now := time.Since(f.began)
		if f.firstToken == 0 {
			f.firstToken = now
		}
		if f.firstText == 0 && ev.Text != "" {
			f.firstText = now
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
		TimeToFirstText:    optional(f.firstText),
		TimeToFirstToken:   optional(f.firstToken),
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

func optional(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	ms := milliseconds(d)
	return &ms
}
