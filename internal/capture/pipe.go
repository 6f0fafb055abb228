package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"voxtral/audio"
)

// Raw says how samples without a header are to be read.
type Raw struct {
	Encoding string // one of Encodings
	Rate     int    // Hz
	Channels int
}

// encoding is what a WAV header says of one.
type encoding struct {
	name     string
	tag, bit uint16
}

var encodings = []encoding{
	{"s16le", 1, 16}, {"f32le", 3, 32}, {"u8", 1, 8}, {"s24le", 1, 24}, {"s32le", 1, 32}, {"f64le", 3, 64}, {"alaw", 6, 8}, {"mulaw", 7, 8},
}

// Encodings are the names of raw encodings, as ffmpeg and sox use them.
func Encodings() []string {
	var names []string
	for _, e := range encodings {
		names = append(names, e.name)
	}
	return names
}

// Check finds what cannot be read.
func (r Raw) Check() error {
	const least, most, channels = 4000, 192000, 32 // what a WAV may have
	switch {
	case !slices.Contains(Encodings(), r.Encoding):
		return fmt.Errorf("raw encoding %q is unknown: use %s", r.Encoding, strings.Join(Encodings(), ", "))
	case r.Rate < least || r.Rate > most:
		return fmt.Errorf("a sample rate of %d Hz: want %d to %d", r.Rate, least, most)
	case r.Channels < 1 || r.Channels > channels:
		return fmt.Errorf("%d channels: want 1 to %d", r.Channels, channels)
	}
	return nil
}

// header is that of a WAV without an end, which raw samples can follow.
func (r Raw) header() []byte {
	e := encodings[slices.Index(Encodings(), r.Encoding)]
	frame := r.Channels * int(e.bit) / 8
	var b bytes.Buffer
	b.WriteString("RIFF\xff\xff\xff\xffWAVEfmt ")
	for _, field := range []any{
		uint32(16), e.tag, uint16(r.Channels), uint32(r.Rate), uint32(r.Rate * frame), uint16(frame), e.bit,
	} {
		_ = binary.Write(&b, binary.LittleEndian, field) // to memory
	}
	b.WriteString("data")
	_ = binary.Write(&b, binary.LittleEndian, uint32(math.MaxUint32))
	return b.Bytes()
}

// Pipe is audio from a reader, in a container or, with raw, without one. channel is that of audio.Options.
func Pipe(r io.Reader, name string, raw *Raw, channel int) Open {
	return func(ctx context.Context) (Source, error) {
		if raw != nil {
			if err := raw.Check(); err != nil {
				return nil, fmt.Errorf("%w", err)
			}
			r = io.MultiReader(bytes.NewReader(raw.header()), r)
		}
		s, err := audio.NewStream(ctx, r, name, audio.Options{Channel: channel})
		if err != nil {
			return nil, err
		}
		return &piped{Stream: s}, nil
	}
}

func (p *piped) Detail() string {
	info := p.Info()
	return fmt.Sprintf("%s %s, %d Hz, channels: %d", info.Container, info.Encoding, info.SampleRate, info.Channels)
}
