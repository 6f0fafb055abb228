// Package audio turns files and pipes into what the model hears: mono PCM at 16 kHz, and its log-mel frames. WAV is read
// here; other containers go through the ffmpeg program.
package audio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// SampleRate is what the model hears, in Hz.
const SampleRate = 16000

const (
	bufferSize  = 64 << 10 // bytes held between the input and its decoder
	blockFrames = 4096     // most frames decoded at once
)

// Options say how an input becomes one channel.
type Options struct {
	Channel int // 0 takes the mean of all channels, n >= 1 only channel n, an error when there are fewer
}

// Info describes an input as it was found.
type Info struct {
	Container  string // "wav", "mp3", "webm/matroska", ...
	Encoding   string // "pcm_s16", "pcm_mulaw", ..., or "ffmpeg" when that program decodes it
	SampleRate int    // Hz
	Channels   int
	Frames     int64 // samples per channel; -1 when unknown until the end
}

// Stream is one input being decoded. It belongs to one goroutine, except Position.
type Stream struct {
	ctx    context.Context
	name   string
	opt    Options
	info   Info
	wav    *wavReader
	ffmpeg *ffmpegProcess // nil for WAV
	rs     *Resampler
	close  []func()

	frames  []float32 // [blockFrames*channels] interleaved
	mono    []float32 // [blockFrames]
	pending []float32 // at 16 kHz, not yet returned
	next    int       // into pending
	err     error     // what Read returns once pending is empty

	done, total     atomic.Int64
	inSum, mixedSum float64 // energy per channel and after mixing
	warnings        []string
}

// Open decodes a file, or standard input when path is "-". The caller must Close the stream.
func Open(ctx context.Context, path string, opt Options) (*Stream, error) {
	if path == "-" {
		return NewStream(ctx, os.Stdin, "standard input", opt)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("audio: %w", err)
	}
	stat, err := f.Stat()
	if err == nil && stat.IsDir() {
		err = errors.New("is a directory, not an audio file")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("audio: %s: %w", path, err), f.Close())
	}
	if !stat.Mode().IsRegular() {
		s, err := NewStream(ctx, f, path, opt)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		s.close = append(s.close, func() { _ = f.Close() }) // only read from
		return s, nil
	}
	return open(ctx, f, path, path, opt, func() { _ = f.Close() })
}

// NewStream decodes a reader that need not seek; name stands for it in errors. When the context is cancelled or the
// stream closed, at most one read of r may still be in progress. The caller must Close the stream.
func NewStream(ctx context.Context, r io.Reader, name string, opt Options) (*Stream, error) {
	c := newCancelReader(ctx, r)
	return open(ctx, c, name, "", opt, c.close)
}

// open sniffs the container and prepares its decoder. path is empty for a pipe. done is called when the stream closes, or
// now when it cannot be opened.
func open(ctx context.Context, r io.Reader, name, path string, opt Options, done func()) (*Stream, error) {
	s := &Stream{ctx: ctx, name: name, opt: opt, close: []func(){done}}
	if err := s.begin(bufio.NewReaderSize(r, bufferSize), path); err != nil {
		return nil, errors.Join(s.fail(err), s.Close())
	}
	return s, nil
}

func (s *Stream) fail(err error) error {
	if s.ctx.Err() != nil {
		err = context.Cause(s.ctx)
	}
	return fmt.Errorf("audio: %s: %w", s.name, err)
}

func (s *Stream) begin(r *bufio.Reader, path string) error {
	if s.opt.Channel < 0 {
		return fmt.Errorf("channel %d asked for: channels count from 1, and 0 mixes all", s.opt.Channel)
	}
	container, err := identify(r)
	if err != nil {
		return err
	}
	s.info = Info{Container: container}
	native := container == "wav" || container == "rf64"
	if native && !foreignWAV(r) {
		s.wav, err = newWAVReader(r)
		if err != nil {
			return err
		}
		s.info.Encoding = s.wav.encoding
	} else if err := s.beginFFmpeg(r, path); err != nil {
		return err
	}
	return s.prepare()
}

// identify names the container that r begins with.
func identify(r *bufio.Reader) (string, error) {
	head, err := r.Peek(12)
	if err == nil && sniff(head) == "" {
		head, err = r.Peek(sniffLen)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if len(head) == 0 {
		return "", errors.New("is empty (0 bytes)")
	}
	container := sniff(head)
	if container == "" {
		return "", fmt.Errorf("is no audio file this program knows (it begins with % x); raw samples need a WAV header", head[:min(8, len(head))])
	}
	return container, nil
}

func (s *Stream) beginFFmpeg(r *bufio.Reader, path string) (err error) {
	in := io.Reader(r)
	if path == "" && s.info.Container == "mp4" {
		var remove func()
		path, remove, err = spool(r)
		if err != nil {
			return err
		}
		s.close = append(s.close, remove)
	}
	if path != "" {
		in = nil
	}
	s.ffmpeg, err = startFFmpeg(s.ctx, s.info.Container, path, in)
	if err != nil {
		return err
	}
	s.close = append(s.close, s.ffmpeg.close)
	s.info.Encoding = "ffmpeg"
	s.wav, err = newWAVReader(s.ffmpeg.out)
	if err == nil {
		return nil
	}
	if failed := s.ffmpeg.wait(); failed != nil {
		return failed
	}
	return fmt.Errorf("ffmpeg finds no audio in it%s", s.ffmpeg.complaint())
}

// prepare sets up what follows the decoder.
func (s *Stream) prepare() (err error) {
	w := s.wav
	s.info.SampleRate, s.info.Channels, s.info.Frames = w.rate, w.channels, w.frames()
	s.total.Store(w.frames())
	if s.opt.Channel > w.channels {
		return fmt.Errorf("channel %d asked for, but the audio has %d", s.opt.Channel, w.channels)
	}
	if s.rs, err = NewResampler(w.rate, SampleRate); err != nil {
		return err
	}
	block := max(1, blockFrames/w.channels)
	s.frames = make([]float32, block*w.channels)
	s.mono = make([]float32, block)
	return nil
}

// Read decodes up to len(dst) samples in [-1,1], mono at 16 kHz. It waits until there is at least one, then returns what
// is ready; after the last it returns 0 and io.EOF.
func (s *Stream) Read(dst []float32) (n int, err error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for s.next == len(s.pending) {
		if s.err != nil {
			return 0, s.err
		}
		s.advance()
	}
	n = copy(dst, s.pending[s.next:])
	s.next += n
	return n, nil
}

// advance decodes one block into pending, or sets err.
func (s *Stream) advance() {
	s.pending, s.next = s.pending[:0], 0
	if err := s.ctx.Err(); err != nil {
		s.err = s.fail(err)
		return
	}
	n, err := s.wav.read(s.frames)
	switch {
	case err == nil:
		s.done.Add(int64(n))
		s.mix(s.frames[:n*s.info.Channels])
		s.pending = s.rs.Write(s.pending, s.mono[:n])
	case errors.Is(err, io.EOF):
		s.pending = s.rs.Flush(s.pending)
		s.err = s.finish()
	default:
		s.err = s.fail(err)
	}
	for i, x := range s.pending {
		s.pending[i] = max(-1, min(1, x)) // the filter may overshoot full scale
	}
}

// mix writes one channel, or the mean of all, of interleaved frames to mono.
func (s *Stream) mix(frames []float32) {
	channels := s.info.Channels
	if s.opt.Channel > 0 || channels == 1 {
		at := max(0, s.opt.Channel-1)
		for i := range len(frames) / channels {
			s.mono[i] = frames[i*channels+at]
		}
		return
	}
	for i := range len(frames) / channels {
		var sum, energy float64
		for _, x := range frames[i*channels : (i+1)*channels] {
			sum += float64(x)
			energy += float64(x) * float64(x)
		}
		mean := sum / float64(channels)
		s.mono[i] = float32(mean)
		s.mixedSum += mean * mean
		s.inSum += energy / float64(channels)
	}
}

// finish is called at the end of the audio and returns what Read reports from then on.
func (s *Stream) finish() error {
	frames := s.done.Load()
	s.info.Frames = frames
	s.total.Store(frames)
	// Channels in opposite phase leave nothing for the model to hear.
	const cancelled = 1e-3
	if s.inSum > 0 && s.mixedSum < cancelled*s.inSum {
		s.warnings = append(s.warnings, "the channels cancel one another when mixed: choose a single channel")
	}
	if s.ffmpeg == nil {
		return io.EOF
	}
	if err := s.ffmpeg.wait(); err != nil {
		return s.fail(err)
	}
	complaint := s.ffmpeg.complaint()
	if complaint == "" {
		return io.EOF
	}
	if frames == 0 {
		return s.fail(fmt.Errorf("ffmpeg decoded nothing%s", complaint))
	}
	s.warnings = append(s.warnings, "ffmpeg complained"+complaint)
	return io.EOF
}

// Info returns what is known of the input; Frames is exact once Read has returned io.EOF.
func (s *Stream) Info() Info { return s.info }

// Warnings returns what the caller should tell the user, such as audio that is cut off. It is complete after io.EOF.
func (s *Stream) Warnings() []string {
	return append(append([]string(nil), s.wav.warnings...), s.warnings...)
}

// Position returns the input frames consumed and expected, -1 when unknown. It may be called from any goroutine.
func (s *Stream) Position() (done, total int64) { return s.done.Load(), s.total.Load() }

// Close stops decoding and releases the input, except a reader given to NewStream.
func (s *Stream) Close() error {
	for _, release := range s.close { // the input first, so that ffmpeg does not wait for it
		release()
	}
	s.close = nil
	if s.err == nil {
		s.err = fmt.Errorf("audio: %s: %w", s.name, os.ErrClosed)
	}
	return nil
}

// ReadAll decodes a whole input as Open does, and returns its samples, description and warnings.
func ReadAll(ctx context.Context, path string, opt Options) ([]float32, Info, []string, error) {
	s, err := Open(ctx, path, opt)
	if err != nil {
		return nil, Info{}, nil, err
	}
	pcm, err := s.readAll()
	return pcm, s.Info(), s.Warnings(), errors.Join(err, s.Close())
}

func (s *Stream) readAll() ([]float32, error) {
	var pcm []float32
	var block [blockFrames]float32
	for {
		n, err := s.Read(block[:])
		pcm = append(pcm, block[:n]...)
		if errors.Is(err, io.EOF) {
			return pcm, nil
		}
		if err != nil {
			return pcm, err
		}
	}
}
