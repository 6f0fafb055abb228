package runtime

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"voxtral/audio"
	"voxtral/decoder"
	"voxtral/encoder"
	"voxtral/internal/device"
	"voxtral/models"
)

// Options of a session.
type Options struct {
	// Delay is how far the text trails the audio: a multiple of 80 ms from 80 ms to 1.2 s, or 2.4 s. More delay, fewer
	// errors. 0 takes the model's own default.
	Delay time.Duration
	// IgnoreEOS goes on after the model's end-of-stream token, as live audio must. Otherwise the stream ends there.
	IgnoreEOS bool
	// NoSpeculation takes one position at a time even where the audio of more is already there. The tokens are the same
	// either way; only speed differs.
	NoSpeculation bool
	// Trace, when set, sees the output [rows, cols] of every op; first is the first tick or position of the step. It makes
	// the session slow. The slice is only valid during the call.
	Trace func(label string, first, rows, cols int, out []float32)
	// Profile collects the time of every op in Stats.Ops, at some cost in speed.
	Profile bool
}

// ErrFinished is returned when audio is fed to a session that has been finished and not reset.
var ErrFinished = errors.New("runtime: the session is finished: call Reset before feeding more audio")

// chunkTicks are the encoder's step lengths in ticks. Larger steps read the weights less often; the results are the same
// to the bit.
var chunkTicks = [...]int{25, 5, 1}

// runRows are the decoder's step lengths in positions. A step of more than one verifies guessed tokens.
var runRows = [...]int{1, 2, 3, 4, 6, longestRun}

const longestRun = 8

// Session transcribes one stream. It must be used by one goroutine at a time.
type Session struct {
	engine   *Engine
	opt      Options
	schedule decoder.Schedule

	mel     *audio.Mel
	frames  []float32 // mel frames not yet encoded, [n, MelBins]
	halfPCM []byte    // the odd byte of a 16-bit sample split between two Writes
	samples int       // real samples fed

	encState *encoder.State
	decState *decoder.State
	melIn    device.Buffer // F32 [chunkTicks[0]·TickFrames, MelBins]
	encode   [len(chunkTicks)]chunk
	out      decoder.Output           // of the longest run
	prefill  decodeStep               // the whole prompt
	runs     [len(runRows)]decodeStep // by runRows
	drafter  *decoder.Drafter
	encoded  int   // ticks that have gone through the encoder
	decoded  int   // positions that have gone through the decoder
	token    int32 // latest output

	text     *models.Detokenizer
	started  bool // some text other than white space has come out
	events   []Event
	outputs  int // output tokens so far
	ended    bool
	finished bool
	err      error
	stats    Stats
}

type chunk struct {
	ticks int
	clock *encoder.Clock
	program
}

type decodeStep struct {
	clock *decoder.Clock
	program
}

// program is compiled, with the time of each of its ops so far.
type program struct {
	prog    *device.Program
	exec    device.Exec
	profile []time.Duration // nil unless profiling
}

func (s *Session) compile(p *device.Program) (program, error) {
	exec, err := s.engine.dev.Compile(p)
	c := program{prog: p, exec: exec}
	if s.opt.Profile {
		c.profile = make([]time.Duration, len(p.Ops))
	}
	return c, err
}

func (p *program) run(s *Session, step *device.Step, first int) error {
	step.Profile = p.profile
	if s.opt.Trace != nil {
		step.Trace = func(label string, rows, cols int, out []float32) { s.opt.Trace(label, first, rows, cols, out) }
	}
	return p.exec.Run(step)
}

// NewSession allocates the state of one stream.
func (e *Engine) NewSession(opt Options) (*Session, error) {
	delay := e.model.Config.DefaultDelay
	if opt.Delay != 0 {
		var err error
		if delay, err = decoder.DelayTokens(opt.Delay); err != nil {
			return nil, fmt.Errorf("runtime: %w", err)
		}
	}
	s := &Session{engine: e, opt: opt, schedule: decoder.NewSchedule(e.model, delay)}
	if err := s.allocate(); err != nil {
		return nil, errors.Join(fmt.Errorf("runtime: new session: %w", err), s.Close())
	}
	s.Reset()
	return s, nil
}

func (s *Session) allocate() (err error) {
	e, dev, cfg := s.engine, s.engine.dev, s.engine.model.Config
	if s.mel, err = audio.NewMel(cfg.Encoder.MelBins); err != nil {
		return err
	}
	prompt := s.schedule.PromptLen()
	// Before the decoder runs, the encoder may be ahead by a prompt not yet complete and two blocks.
	ahead := prompt + 2*chunkTicks[0]
	if s.encState, err = encoder.NewState(dev, e.enc, 1, chunkTicks[0], ahead, e.halfKV); err != nil {
		return err
	}
	if s.decState, err = decoder.NewState(dev, e.dec, 1, max(prompt, longestRun), e.halfKV); err != nil {
		return err
	}
	ada, err := e.adaScales(s.schedule.Delay)
	if err != nil {
		return err
	}
	if err = s.decState.SetAda(dev, 0, ada); err != nil {
		return err
	}
	if s.melIn, err = dev.Alloc(4*chunkTicks[0]*encoder.TickFrames*cfg.Encoder.MelBins, device.HostIO); err != nil {
		return err
	}
	for i, ticks := range chunkTicks {
		s.encode[i] = chunk{ticks: ticks, clock: encoder.NewClock(cfg.Encoder, ticks)}
		if s.encode[i].program, err = s.compile(e.enc.Build(s.encState, s.melIn, ticks)); err != nil {
			return err
		}
	}
	if s.out, err = decoder.NewOutput(dev, longestRun); err != nil {
		return err
	}
	ring := decoder.Audio{Buf: s.encState.Audio, Cap: s.encState.AudioCap}
	if s.prefill, err = s.newDecodeStep(ring, prompt, 1); err != nil {
		return err
	}
	for i, rows := range runRows {
		if s.runs[i], err = s.newDecodeStep(ring, rows, rows); err != nil {
			return err
		}
	}
	s.schedule.Prompt(s.prefill.clock.Tokens())
	t := e.model.Tokenizer
	s.text = t.NewDetokenizer()
	s.drafter = decoder.NewDrafter(int32(t.StreamingPad), int32(t.StreamingWord))
	return nil
}

func (s *Session) newDecodeStep(ring decoder.Audio, rows, heads int) (d decodeStep, err error) {
	d.clock = decoder.NewClock(s.engine.model.Config.Decoder, rows)
	d.program, err = s.compile(s.engine.dec.Build(s.decState, ring, s.out, rows, heads))
	return d, err
}

// Reset forgets the stream and starts a new one with the same options. Events not yet taken are dropped.
func (s *Session) Reset() {
	s.mel.Reset()
	s.frames, s.halfPCM, s.samples = s.frames[:0], nil, 0
	s.encoded, s.decoded, s.outputs = 0, 0, 0
	s.text.Flush()
	s.started, s.ended, s.finished, s.err = false, false, false, nil
	s.drafter.Restart()
	s.events = nil
	s.frames = s.mel.Write(s.frames, make([]float32, s.schedule.Left*encoder.TickSamples))
}

// Close frees the session's memory on the device.
func (s *Session) Close() error {
	var errs []error
	for _, c := range s.encode {
		if c.exec != nil {
			errs = append(errs, c.exec.Close())
		}
	}
	for _, d := range append(s.runs[:], s.prefill) {
		if d.exec != nil {
			errs = append(errs, d.exec.Close())
		}
	}
	if s.encState != nil {
		s.encState.Free()
	}
	if s.decState != nil {
		s.decState.Free()
	}
	if s.melIn != nil {
		s.melIn.Free()
	}
	if s.out.IDs != nil {
		s.out.Free()
	}
	return errors.Join(errs...)
}

// Feed takes mono samples at 16 kHz in [-1, 1], any number at a time, and runs whatever has become complete.
func (s *Session) Feed(pcm []float32) error {
	if s.finished {
		return ErrFinished
	}
	if s.err != nil {
		return s.err
	}
	for i, v := range pcm {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("runtime: sample %d is %v: samples must be finite", s.samples+i, v)
		}
	}
	s.samples += len(pcm)
	return s.advance(pcm)
}

// Write is Feed for bytes of 16-bit little-endian samples; a sample may be split between two calls.
func (s *Session) Write(p []byte) (int, error) {
	raw := slices.Concat(s.halfPCM, p)
	pcm := make([]float32, len(raw)/2)
	for i := range pcm {
		pcm[i] = float32(int16(uint16(raw[2*i])|uint16(raw[2*i+1])<<8)) / 32768
	}
	if err := s.Feed(pcm); err != nil {
		return 0, err
	}
	s.halfPCM = slices.Clone(raw[2*len(pcm):])
	return len(p), nil
}

// Finish ends the audio: the last tick is filled up, silence follows until the model has said everything, and what is
// left of the text comes out. Audio of no samples has no text.
func (s *Session) Finish() error {
	if s.finished {
		return ErrFinished
	}
	if s.err != nil {
		return s.err
	}
	if s.samples > 0 {
		fill := (encoder.TickSamples - s.samples%encoder.TickSamples) % encoder.TickSamples
		// The last frame of the last tick looks 40 samples ahead, into more silence.
		const lookAhead = 40
		if err := s.advance(make([]float32, fill+s.schedule.RightPad()*encoder.TickSamples+lookAhead)); err != nil {
			return err
		}
	}
	if rest := s.text.Flush(); rest != "" && len(s.events) > 0 {
		s.events[len(s.events)-1].Text += rest
	} else if rest != "" {
		s.events = append(s.events, Event{Index: s.outputs - 1, Token: int(s.token), Text: rest, Time: s.schedule.TextTime(s.outputs - 1)})
	}
	s.finished = true
	return nil
}

// Events takes the events that have come up since the last call.
func (s *Session) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for len(s.events) > 0 {
			ev := s.events[0]
			s.events = s.events[1:]
			if !yield(ev) {
				return
			}
		}
	}
}

// AudioTime is how much real audio has been fed.
func (s *Session) AudioTime() time.Duration {
	return time.Duration(s.samples) * time.Second / audio.SampleRate
}

// Delay is how far the text trails the audio.
func (s *Session) Delay() time.Duration {
	return time.Duration(s.schedule.Delay) * decoder.TickDuration
}

// Ended says that the model has ended the stream with its end-of-stream token; further audio is ignored.
func (s *Session) Ended() bool { return s.ended }

// advance runs every tick that pcm completes. A device error ends the session for good: it never becomes text.
func (s *Session) advance(pcm []float32) error {
	if s.ended {
		return nil
	}
	// The longest chunks first; what does not fill one waits until all of pcm is in. Frames never pile up. The decoder
	// follows once the short chunks are through, so that its runs are not cut short.
	block := chunkTicks[0] * encoder.TickSamples
	for len(pcm) > 0 && !s.ended {
		n := min(block, len(pcm))
		s.frames = s.mel.Write(s.frames, pcm[:n])
		pcm = pcm[n:]
		for i := range s.encode {
			for (i == 0 || len(pcm) == 0) && s.ready() >= s.encode[i].ticks {
				if s.err = s.runEncoder(&s.encode[i]); s.err != nil {
					return s.err
				}
			}
		}
		if s.err = s.runDecoder(len(pcm) > 0); s.err != nil {
			return s.err
		}
	}
	return nil
}

// ready is the number of whole ticks of mel frames at hand.
func (s *Session) ready() int { return len(s.frames) / (encoder.TickFrames * s.mel.Bins()) }

func (s *Session) runEncoder(c *chunk) error {
	began := time.Now()
	n := c.ticks * encoder.TickFrames * s.mel.Bins()
	if err := s.engine.dev.Write(s.melIn, 0, device.F32Bytes(s.frames[:n])); err != nil {
		return fmt.Errorf("runtime: tick %d: %w", s.encoded, err)
	}
	s.frames = s.frames[:copy(s.frames, s.frames[n:])]
	if err := c.run(s, c.clock.At(s.encoded), s.encoded); err != nil {
		return fmt.Errorf("runtime: tick %d: %w", s.encoded, err)
	}
	s.encoded += c.ticks
	s.stats.encoderRun(c.ticks, time.Since(began))
	return nil
}
