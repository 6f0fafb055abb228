package main

import (
	"errors"
	"fmt"
	"math"
	"os"

	goaudio "github.com/go-audio/audio"
	"github.com/go-audio/wav"

	"voxtral/audio"
	"voxtral/internal/listen"
	"voxtral/internal/subtitle"
	"voxtral/runtime"
)

// recorder keeps the audio as the model hears it: a WAV file, mono, 16 kHz, 16 bit. Its header is right after every
// second, so that the file is whole however the program ends. The first error stops it and is told; the rest goes on.
type recorder struct {
	path  string
	file  *os.File
	enc   *wav.Encoder
	block goaudio.IntBuffer
	since int // samples since the header was right
	tell  func(error)
	err   error
}

// Where a WAV header made by the encoder has its sizes.
const (
	riffSizeAt = 4
	dataSizeAt = 40
	headerSize = 44
)

func newRecorder(path string, tell func(error)) (*recorder, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--save: %w", err)
	}
	const pcm = 1
	r := &recorder{
		path: path, file: f, enc: wav.NewEncoder(f, audio.SampleRate, 16, 1, pcm), tell: tell,
		block: goaudio.IntBuffer{Format: &goaudio.Format{NumChannels: 1, SampleRate: audio.SampleRate}, SourceBitDepth: 16},
	}
	r.add(nil) // the header
	r.stamp()
	return r, nil
}

// add appends samples in [-1,1].
func (r *recorder) add(pcm []float32) {
	if r.err != nil {
		return
	}
	r.block.Data = r.block.Data[:0]
	for _, x := range pcm {
		r.block.Data = append(r.block.Data, int(math.Round(max(-32768, min(32767, float64(x)*32768)))))
	}
	r.fail(r.enc.Write(&r.block))
	if r.since += len(pcm); r.since >= audio.SampleRate {
		r.since = 0
		r.stamp()
	}
}

// stamp makes the header say what is there. A file too long for it says that it goes on to its end.
func (r *recorder) stamp() {
	info, err := r.file.Stat()
	if err != nil {
		r.fail(err)
		return
	}
	data := (info.Size() - headerSize) / 2 * 2
	if data < 0 {
		return // not even the header fits
	}
	size := func(n int64) []byte {
		n = min(n, math.MaxUint32)
		return []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
	}
	_, riffErr := r.file.WriteAt(size(headerSize-8+data), riffSizeAt)
	_, dataErr := r.file.WriteAt(size(data), dataSizeAt)
	r.fail(errors.Join(riffErr, dataErr))
}

// fail tells of the first error, and ends recording.
func (r *recorder) fail(err error) {
	if err == nil || r.err != nil {
		return
	}
	r.err = err
	r.tell(fmt.Errorf("--save: %w: the audio from here on is not kept", err))
}

func (r *recorder) close() {
	r.stamp()
	if err := r.file.Close(); err != nil && r.err == nil {
		r.err = err
		r.tell(fmt.Errorf("--save: %w", err))
	}
}

// savedText keeps the transcript in a file as well. The first error stops it and is told; the rest goes on.
type savedText struct {
	out  liveWriter
	file *os.File
	tell func(error)
	err  error
}

func newSavedText(path string, format subtitle.Format, tell func(error)) (*savedText, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--save-text: %w", err)
	}
	return &savedText{out: newLiveWriter(f, format), file: f, tell: tell}, nil
}

func (s *savedText) try(write func() error) {
	if s.err != nil {
		return
	}
	if s.err = write(); s.err != nil {
		s.tell(fmt.Errorf("--save-text: %w: the text from here on is not kept there", s.err))
	}
}

func (s *savedText) hear(ev runtime.Event, words []subtitle.Word) {
	s.try(func() error { return s.out.hear(ev, words) })
}

func (s *savedText) dropped(d listen.Drop) { s.try(func() error { return s.out.dropped(d) }) }

func (s *savedText) close(report *listen.Report) {
	s.try(func() error { return s.out.end(report) })
	if err := s.file.Close(); err != nil && s.err == nil {
		s.err = err
		s.tell(fmt.Errorf("--save-text: %w", err))
	}
}
