package listen

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"voxtral/audio"
	"voxtral/internal/capture"
	"voxtral/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paper is a session that only notes what it is fed: an event for every tick.
type paper struct {
	fed      []float32   // since the start
	before   [][]float32 // of sessions before
	events   []runtime.Event
	told     int
	feed     func() error // before every feed; may be nil
	finished bool
	mute     bool
}

func (p *paper) Feed(pcm []float32) error {
	if p.feed != nil {
		if err := p.feed(); err != nil {
			return err
		}
	}
	p.fed = append(p.fed, pcm...)
	for ; (p.told+1)*tickSamples <= len(p.fed); p.told++ {
		p.events = append(p.events, runtime.Event{Index: p.told, Time: time.Duration(p.told+1) * tickTime})
	}
	return nil
}

func (p *paper) Finish() error {
	p.finished = true
	last := runtime.Event{Index: p.told, Text: "end", Time: duration(int64(len(p.fed)))}
	if p.mute {
		last.Text = ""
	}
	p.events = append(p.events, last)
	return nil
}

func (p *paper) Reset() {
	p.before = append(p.before, p.fed)
	p.fed, p.told, p.events = nil, 0, nil
}

func (p *paper) Events() iter.Seq[runtime.Event] {
	return func(yield func(runtime.Event) bool) {
		for len(p.events) > 0 {
			ev := p.events[0]
			p.events = p.events[1:]
			if !yield(ev) {
				return
			}
		}
	}
}

// script is a source that delivers pieces; then it ends with err, or when its context is cancelled.
type script struct {
	ctx    context.Context
	pieces [][]float32
	err    error // nil waits for the context
	closed bool
}

func (s *script) open(ctx context.Context) (capture.Source, error) {
	s.ctx = ctx
	return s, nil
}

func (s *script) Read(dst []float32) (int, error) {
	if len(s.pieces) > 0 && len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	if len(s.pieces) > 0 {
		n := copy(dst, s.pieces[0])
		s.pieces[0] = s.pieces[0][n:]
		return n, nil
	}
	if s.err != nil {
		return 0, s.err
	}
	<-s.ctx.Done()
	return 0, context.Cause(s.ctx)
}

func (s *script) Detail() string     { return "pieces" }
func (s *script) Warnings() []string { return []string{"a warning"} }
func (s *script) Close() error       { s.closed = true; return nil }

// However the audio comes, all of it is heard once and in order.
func TestAllIsHeard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []float32 {
			return slices.Repeat([]float32{float32(rapid.IntRange(-9, 9).Draw(t, "value")) / 10}, rapid.IntRange(1, 20000).Draw(t, "samples"))
		}), 0, 8).Draw(t, "pieces")
		all := join(pieces...)
		var tapped []float32
		var events []runtime.Event
		session, source := &paper{}, &script{pieces: slices.Clone(pieces), err: io.EOF}
		report, err := Run(context.Background(), session, Options{
			Open: source.open, Tap: func(pcm []float32) { tapped = append(tapped, pcm...) },
			Heard: func(ev runtime.Event) error { events = append(events, ev); return nil },
		})
		require.NoError(t, err)
		require.Equal(t, all, session.fed)
		require.Equal(t, all, tapped)
		require.True(t, session.finished)
		require.True(t, source.closed)
		require.Len(t, events, len(all)/tickSamples+1)
		require.Equal(t, duration(int64(len(all))), report.Heard)
		require.Equal(t, report.Heard, report.Captured)
		require.NoError(t, report.SourceErr)
		require.Equal(t, []string{"a warning"}, report.Warnings)
		require.Zero(t, report.Lost.Silence+report.Lost.Sound)
	})
}

// A source that breaks off leaves what it has given.
func TestSourceBreaksOff(t *testing.T) {
	broken := errors.New("pulled")
	session := &paper{}
	report, err := Run(context.Background(), session, Options{Open: (&script{pieces: [][]float32{sound(3, 0.1)}, err: broken}).open})
	require.NoError(t, err)
	require.Len(t, session.fed, 3*audio.SampleRate)
	require.True(t, session.finished)
	require.ErrorIs(t, report.SourceErr, broken)
}

// Cancelling ends the audio, not the text.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	session := &paper{}
	said := ""
	report, err := Run(ctx, session, Options{
		Open: (&script{pieces: [][]float32{sound(1, 0.1)}}).open,
		Heard: func(ev runtime.Event) error {
			said += ev.Text
			return nil
		},
		Idle: func(s Status) {
			if s.Heard == time.Second {
				cancel()
			}
		},
	})
	require.NoError(t, err)
	require.NoError(t, report.SourceErr)
	require.Len(t, session.fed, audio.SampleRate)
	require.Equal(t, "end", said)
}

// Errors of the session and of the output stop the source, even one that is being kept waiting.
func TestErrorsStopTheSource(t *testing.T) {
	failure := errors.New("failure")
	for name, run := range map[string]func(*script) (*Report, error){
		"session": func(s *script) (*Report, error) {
			return Run(context.Background(), &paper{feed: func() error { return failure }}, Options{Open: s.open})
		},
		"output": func(s *script) (*Report, error) {
			return Run(context.Background(), &paper{}, Options{Open: s.open, Heard: func(runtime.Event) error { return failure }})
		},
	} {
		source := &script{pieces: [][]float32{sound(30, 0.1)}}
		report, err := run(source)
		require.ErrorIs(t, err, failure, name)
		require.NoError(t, report.SourceErr, name)
		require.True(t, source.closed, name)
	}
	_, err := Run(context.Background(), &paper{}, Options{Open: func(context.Context) (capture.Source, error) { return nil, failure }})
	require.ErrorIs(t, err, failure)
}

// A model that is too slow for a source that does not wait: what is dropped is told and counted, the rest is heard, and
// times are those of the source.
func TestSlowModel(t *testing.T) {
	var drops []Drop
	all := join(sound(1, 0.1), sound(2, 0), sound(8, 0.1))
	open := make(chan struct{})
	pieces := slices.Collect(slices.Chunk(all, 1600))
	// The model hears the first piece until all others have come.
	session := &paper{feed: func() error {
		<-open
		time.Sleep(2 * tickTime)
		return nil
	}}
	seen := 0
	var last runtime.Event
	report, err := Run(context.Background(), session, Options{
		Open: (&script{pieces: pieces, err: io.EOF}).open, MaxLag: 4 * time.Second,
		Tap: func(pcm []float32) {
			if seen += len(pcm); seen == len(all) {
				close(open)
			}
		},
		Heard:   func(ev runtime.Event) error { last = ev; return nil },
		Dropped: func(d Drop) error { drops = append(drops, d); return nil },
	})
	require.NoError(t, err)
	require.Equal(t, report.Lost.Silence, length(drops, true))
	require.Equal(t, report.Lost.Sound, length(drops, false))
	require.Positive(t, report.Lost.Silence)
	require.Positive(t, report.Lost.Sound)
	require.Equal(t, 11*time.Second, report.Captured)
	require.Equal(t, 11*time.Second, report.Heard+report.Lost.Silence+report.Lost.Sound)
	require.Equal(t, 11*time.Second, last.Time)
	require.Positive(t, report.Late)
}
