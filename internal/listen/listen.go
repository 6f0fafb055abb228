// Package listen takes audio that is still being made through a session: one goroutine reads the source, the caller's runs
// the model, and between them lies a backlog of bounded length. A source that cannot be kept waiting loses audio when the
// backlog is full, the oldest silence first; every loss is told, and times stay those of the source.
package listen

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"voxtral/audio"
	"voxtral/internal/capture"
	"voxtral/runtime"
)

const (
	tickSamples = 1280                   // one output of the model
	tickTime    = 80 * time.Millisecond  // as long
	longestFeed = 25 * tickSamples       // the session's longest encoder step
	idlePeriod  = 100 * time.Millisecond // longest time between two calls of Idle while the source is quiet
)

// Session is what the loop needs of a runtime.Session.
type Session interface {
	Feed(pcm []float32) error
	Finish() error
	Reset()
	Events() iter.Seq[runtime.Event]
}

// Options of a run. Heard, Dropped and Idle are called by the goroutine of Run and may be nil.
type Options struct {
	Open capture.Open
	// MaxLag is how much audio may wait for the model before some is dropped. 0 drops nothing: the source is kept waiting.
	MaxLag time.Duration
	// Restart is how much audio the session hears before it starts afresh at the next pause, and Limit how much at most. The
	// words are not cut: the session is finished first, and hears on where it has ended. 0 never does.
	Restart, Limit time.Duration
	// Restarted is told of a session that started afresh because it was stuck: sound, and no text for long.
	Restarted func(at time.Duration)
	// Tap sees all audio as it comes in, before anything is dropped. It is called by another goroutine, one call at a time.
	Tap func(pcm []float32)
	// Heard takes the model's outputs; their times are those of the source. Its error ends the run.
	Heard func(runtime.Event) error
	// Dropped is told of audio that the model does not hear, before it hears what follows.
	Dropped func(Drop) error
	// Idle is called after every step and ten times a second in between.
	Idle func(Status)
}

// Report is what a run has been.
type Report struct {
	Status
	Detail   string   // of the audio as it came in
	Warnings []string // of the source
	// SourceErr is why the audio ended, nil at its regular end and when the context was cancelled.
	SourceErr error
}

// Run listens until the source ends or ctx is cancelled; then what has come in until then is heard to its end. It returns
// errors of opening the source, of the session and of Heard. The session must be fresh.
func Run(ctx context.Context, session Session, opt Options) (*Report, error) {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	source, err := opt.Open(inner)
	if err != nil {
		return nil, err
	}
	l := &loop{session: session, opt: opt, backlog: newBacklog(opt.MaxLag)}
	report := &Report{Detail: source.Detail()}
	var pump sync.WaitGroup
	pump.Go(func() {
		err := l.pump(inner, source)
		report.Warnings = source.Warnings()
		if !errors.Is(err, io.EOF) && ctx.Err() == nil {
			report.SourceErr = err
		}
		l.backlog.end()
	})
	err = l.hear()
	stop()
	pump.Wait()
	if closeErr := source.Close(); report.SourceErr == nil && ctx.Err() == nil && err == nil {
		report.SourceErr = closeErr
	}
	if err != nil {
		report.SourceErr = nil // the source was stopped
	}
	report.Status = l.status()
	return report, err
}

// loop is the state of one run.
type loop struct {
	session Session
	opt     Options
	backlog *backlog
	meter   meter

	clock   timeline
	pauses  pauses
	fed     int64 // samples that the session has heard since it started
	heard   int64 // samples heard in all
	outputs int   // of sessions before
	latest  int   // index of the latest output
	joint   bool  // the next text begins a session's: it needs the space that a session leaves out there
	spoke   bool  // there has been text
	anew    int   // restarts
	mute    rut
	busy    time.Duration
	late    int // ticks
	worst   time.Duration
	lost    Losses
}

// pump moves audio from the source to the backlog and returns why it ends.
func (l *loop) pump(ctx context.Context, source capture.Source) error {
	block := make([]float32, longestFeed)
	for {
		n, err := source.Read(block)
		if n > 0 {
			if l.opt.Tap != nil {
				l.opt.Tap(block[:n])
			}
			l.meter.add(block[:n])
			l.backlog.push(ctx, block[:n], time.Now())
		}
		if err != nil {
			return err
		}
	}
}

// hear feeds the session from the backlog until the source has ended and all is heard.
func (l *loop) hear() error {
	for {
		batch, more := l.backlog.take(idlePeriod)
		for _, d := range batch.drops {
			l.lost.Add(d)
			if l.opt.Dropped != nil {
				if err := l.opt.Dropped(d); err != nil {
					return err
				}
			}
		}
		if len(batch.pcm) > 0 {
			if err := l.feed(batch); err != nil {
				return err
			}
		} else if !more {
			break
		}
		if l.opt.Idle != nil {
			l.opt.Idle(l.status())
		}
	}
	if err := l.work(l.session.Finish); err != nil {
		return err
	}
	return l.take()
}

func (l *loop) feed(b batch) error {
	for at := 0; at < len(b.pcm); {
		n, anew := l.pauses.scan(b.pcm[at:], func(taken int, pause bool) bool {
			heard := duration(l.fed + int64(taken))
			return l.opt.Restart > 0 && pause && heard >= l.opt.Restart || l.opt.Limit > 0 && heard >= l.opt.Limit
		})
		l.clock.at(l.fed, b.start+int64(at))
		if err := l.work(func() error { return l.session.Feed(b.pcm[at : at+n]) }); err != nil {
			return err
		}
		at += n
		l.fed += int64(n)
		if err := l.take(); err != nil {
			return err
		}
		stuck := !anew && l.mute.stuck(l.pauses.loud)
		if stuck && l.opt.Restarted != nil {
			l.opt.Restarted(duration(b.start + int64(at)))
		}
		if anew || stuck {
			if err := l.restart(b.start + int64(at)); err != nil {
				return err
			}
		}
	}
	l.account(b.arrivals)
	return nil
}

// restart finishes the session and begins a new one with the source's sample start.
func (l *loop) restart(start int64) error {
	if err := l.work(l.session.Finish); err != nil {
		return err
	}
	if err := l.take(); err != nil {
		return err
	}
	l.session.Reset()
	l.clock, l.fed, l.outputs, l.joint = timeline{start: start}, 0, l.latest+1, l.spoke
	l.anew++
	return nil
}

// account notes how late the audio has been heard.
func (l *loop) account(arrivals []arrival) {
	now := time.Now()
	for _, a := range arrivals {
		before := l.heard / tickSamples
		l.heard += int64(a.samples)
		lag := now.Sub(a.at)
		l.worst = max(l.worst, lag)
		if lag > tickTime {
			l.late += int(l.heard/tickSamples - before)
		}
	}
}

// work times the session.
func (l *loop) work(do func() error) error {
	began := time.Now()
	defer func() { l.busy += time.Since(began) }()
	return do()
}

// take hands on what the session has said, in the source's time.
func (l *loop) take() error {
	for ev := range l.session.Events() {
		ev.Time = l.clock.source(ev.Time)
		ev.Index += l.outputs
		l.latest = ev.Index
		l.mute.hear(ev.Text != "", l.pauses.loud)
		if ev.Text != "" {
			if l.joint {
				ev.Text = " " + ev.Text
			}
			l.joint, l.spoke = false, true
		}
		if l.opt.Heard != nil {
			if err := l.opt.Heard(ev); err != nil {
				return err
			}
		}
	}
	return nil
}

// Status is where a run stands.
type Status struct {
	Captured time.Duration // audio that has come from the source
	Heard    time.Duration // audio that the model has heard
	Busy     time.Duration // time that the model took for it
	Lag      time.Duration // age of the oldest audio that waits for the model
	WorstLag time.Duration // longest time from audio's arrival until it had been heard
	Late     int           // ticks of 80 ms that had not been heard 80 ms after they were complete
	Lost     Losses
	Restarts int
	Level    float64       // loudness of the latest audio in dBFS, at least -90
	Clipping bool          // samples of the last second lay at full scale
	Clipped  time.Duration // audio in which they did, by pieces of 20 ms
}

// RTF is seconds of work for a second of audio.
func (s Status) RTF() float64 { return s.Busy.Seconds() / max(s.Heard.Seconds(), 1e-3) }

func (l *loop) status() Status {
	m := l.meter.read()
	return Status{
		Captured: duration(m.samples), Heard: duration(l.heard), Busy: l.busy, Lag: l.backlog.lag(time.Now()), WorstLag: l.worst, Late: l.late,
		Lost: l.lost, Restarts: l.anew, Level: m.level, Clipping: m.clipping, Clipped: duration(m.clipped),
	}
}

func duration(samples int64) time.Duration {
	return time.Duration(samples) * time.Second / audio.SampleRate
}
