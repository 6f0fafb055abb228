// Package bench measures a model on a device: how fast it transcribes, how late its text is, and how close it comes to
// what the machine can do at best.
package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"voxtral/audio"
	"voxtral/internal/device"
	"voxtral/models"
	"voxtral/runtime"
)

const (
	tickSamples = 1280                  // of 16 kHz audio
	tickTime    = 80 * time.Millisecond // the deadline of a tick
	lookAhead   = 40                    // samples that the last mel frame of a tick reaches beyond it (MODEL.md 5.1)

	warmUp      = "warm-up"
	warmUpTime  = 2 * time.Second // of audio
	warmUpSeed  = 1
	chunkTicks  = 25 // the session's longest encoder step
	chunkPasses = 3
)

// Subject is a model on a device, ready to be measured.
type Subject struct {
	Model   *models.Model
	Device  device.Info
	Session *runtime.Session
	Load    Load
	Busy    float64 // the system's load average before the model was loaded

	opt    runtime.Options
	engine *runtime.Engine
}

// Load is what it took to get ready.
type Load struct {
	ModelMS       float64 `json:"model_ms"`   // opening the file
	EngineMS      float64 `json:"engine_ms"`  // weights, checked and put on the device
	SessionMS     float64 `json:"session_ms"` // memory and programs of one stream
	ResidentBytes int64   `json:"resident_bytes"`
}

// Open loads a model onto a device and times it. Options.Delay, NoSpeculation and Profile are heeded; streams go on
// after the end-of-stream token, so that every run does the same work.
func Open(open func() (*models.Model, error), dev device.Device, opt runtime.Options) (*Subject, error) {
	s := &Subject{Device: dev.Info(), Busy: loadAverage(), opt: opt}
	s.opt.IgnoreEOS = true
	for _, step := range []struct {
		ms *float64
		do func() error
	}{
		{&s.Load.ModelMS, func() (err error) { s.Model, err = open(); return err }},
		{&s.Load.EngineMS, func() (err error) { s.engine, err = runtime.Open(s.Model, dev); return err }},
		{&s.Load.SessionMS, func() (err error) { s.Session, err = s.engine.NewSession(s.opt); return err }},
	} {
		began := time.Now()
		if err := step.do(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		*step.ms = milliseconds(time.Since(began))
	}
	s.Load.ResidentBytes = residentMemory("VmRSS")
	return s, nil
}

// Close closes session, engine and model. The device stays the caller's.
func (s *Subject) Close() error {
	var errs []error
	if s.Session != nil {
		errs = append(errs, s.Session.Close())
	}
	if s.engine != nil {
		errs = append(errs, s.engine.Close())
	}
	if s.Model != nil {
		errs = append(errs, s.Model.Close())
	}
	return errors.Join(errs...)
}

// Options of a measurement.
type Options struct {
	Mode   Mode
	Repeat int // runs, 1 or more
	// Hardware is the device beyond what the model needs of it; nil: there are no fractions, and nothing of its memory.
	Hardware Hardware
	// Progress tells what is going on, and how much of it is done; may be nil.
	Progress func(what string, done, total int)
	Commit   string // of the program
}

// Hardware is what a device tells of itself.
type Hardware interface {
	// Probe measures what it can do at best; it is called after every run.
	Probe(ctx context.Context) (Machine, error)
	// Memory is what the device holds in memory of its own; nil if it has none.
	Memory() *DeviceMemory
	// Attention is the policy by which attention kernels were chosen, and what it chose, a line for each shape.
	Attention() (policy string, chosen []string)
}

// Measure runs the subject over the clips, each 16 kHz mono and a stream of its own, again and again, each time in a new
// session. A warm-up on other audio comes first and is not counted.
func Measure(ctx context.Context, s *Subject, clips [][]float32, opt Options) (*Report, error) {
	for i, pcm := range clips {
		if len(pcm) == 0 {
			return nil, fmt.Errorf("bench: clip %d has no audio", i)
		}
	}
	if len(clips) == 0 {
		return nil, errors.New("bench: there is no audio")
	}
	if opt.Progress == nil {
		opt.Progress = func(string, int, int) {}
	}
	m := &measurement{Subject: s, clips: clips, opt: opt}
	if err := m.all(ctx); err != nil {
		return nil, err
	}
	return m.report(), nil
}

type measurement struct {
	*Subject
	clips    [][]float32
	opt      Options
	chunk    Chunk
	runs     []Measures
	machine  Machine // the best of all probes
	memory   *DeviceMemory
	peakRSS  int64
	profiles []map[string]time.Duration
}

func (m *measurement) all(ctx context.Context) error {
	mode := m.opt.Mode
	if mode == Paced {
		mode = Streaming // nobody need wait
	}
	if _, err := m.run(ctx, [][]float32{speech(warmUpSeed, warmUpTime.Seconds())}, mode, warmUp); err != nil {
		return err
	}
	if err := m.encoderChunks(ctx); err != nil {
		return err
	}
	for i := range m.opt.Repeat {
		if err := m.renew(); err != nil {
			return err
		}
		r, err := m.run(ctx, m.clips, m.opt.Mode, fmt.Sprintf("run %d of %d", i+1, m.opt.Repeat))
		if err != nil {
			return err
		}
		if i == 0 {
			m.peakRSS = residentMemory("VmHWM") // before the probe, which takes memory of its own
		}
		if m.opt.Hardware != nil {
			m.memory = m.opt.Hardware.Memory()
			m.opt.Progress("probe", i, m.opt.Repeat)
			machine, err := m.opt.Hardware.Probe(ctx)
			if err != nil {
				return err
			}
			r.PeakGBps = machine.ReadBandwidth / 1e9
			r.BandwidthFraction = ratio(r.GBps, r.PeakGBps)
			m.machine.best(machine)
		}
		m.runs = append(m.runs, r)
	}
	return nil
}

// renew begins a new session: one that had heard the clips before would guess their tokens.
func (m *measurement) renew() error {
	err := m.Session.Close()
	m.Session = nil
	if err == nil {
		m.Session, err = m.engine.NewSession(m.Subject.opt)
	}
	return err
}

// run transcribes every clip once.
func (m *measurement) run(ctx context.Context, clips [][]float32, mode Mode, what string) (Measures, error) {
	total, before := samples(clips), 0
	f := feed{session: m.Session, progress: func(done int) { m.opt.Progress(what, before+done, total) }}
	stats, cpu := m.Session.Stats(), cpuTime()
	for _, pcm := range clips {
		if err := f.clip(ctx, pcm, mode); err != nil {
			return Measures{}, err
		}
		before += len(pcm)
	}
	cpu = cpuTime() - cpu
	after := m.Session.Stats()
	if what != warmUp && after.Ops != nil {
		m.profiles = append(m.profiles, since(after.Ops, stats.Ops))
	}
	return f.measures(delta(after, stats), seconds(clips), cpu, StepBytes(m.Model)), nil
}

// encoderChunks times the encoder's longest step alone: the first ticks of a stream, during which the decoder has only
// the prompt to do, and that after the encoder.
func (m *measurement) encoderChunks(ctx context.Context) error {
	left := m.Model.Config.LeftPad
	pcm := speech(warmUpSeed, 10)[:((left/chunkTicks+1)*chunkTicks-left)*tickSamples+lookAhead]
	var times []float64
	for i := range chunkPasses {
		m.opt.Progress("encoder", i, chunkPasses)
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		m.Session.Reset()
		before := m.Session.Stats()
		if err := m.Session.Feed(pcm); err != nil {
			return err
		}
		d := delta(m.Session.Stats(), before)
		m.chunk.Ticks = d.EncoderTicks / max(d.EncoderSteps, 1)
		times = append(times, milliseconds(d.EncoderTime)/float64(max(d.EncoderSteps, 1)))
	}
	m.chunk.MS = Median(times)
	m.chunk.Ops = ChunkOps(m.Model, m.chunk.Ticks)
	return nil
}

func delta(after, before runtime.Stats) runtime.Stats {
	after.EncoderTime -= before.EncoderTime
	after.EncoderSteps -= before.EncoderSteps
	after.EncoderTicks -= before.EncoderTicks
	after.DecoderTime -= before.DecoderTime
	after.DecoderSteps -= before.DecoderSteps
	after.DecoderRows -= before.DecoderRows
	after.PromptTime -= before.PromptTime
	after.Prompts -= before.Prompts
	after.Outputs -= before.Outputs
	return after
}

func since(after, before map[string]time.Duration) map[string]time.Duration {
	d := make(map[string]time.Duration, len(after))
	for op, t := range after {
		d[op] = t - before[op]
	}
	return d
}

func samples(clips [][]float32) int {
	n := 0
	for _, pcm := range clips {
		n += len(pcm)
	}
	return n
}

func seconds(clips [][]float32) float64 { return float64(samples(clips)) / audio.SampleRate }

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
