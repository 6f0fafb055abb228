package audio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// need skips the test when a program is missing. The gate sets VOXTRAL_CI=1, where nothing may be skipped.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Getenv("VOXTRAL_CI") == "1" {
		t.Fatalf("this test needs %s: apt install %s", program, program)
	}
	t.Skipf("this test needs %s: apt install %s", program, program)
}

func le(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// bare is a chunk without a pad byte, of a stated size.
func bare(id string, size int64, body []byte) []byte {
	return cat([]byte(id), le(uint32(size)), body)
}

func chunk(id string, body []byte) []byte {
	return cat(bare(id, int64(len(body)), body), make([]byte, len(body)%2))
}

func riff(chunks ...[]byte) []byte {
	body := cat(append([][]byte{[]byte("WAVE")}, chunks...)...)
	return cat([]byte("RIFF"), le(uint32(len(body))), body)
}

func fmtBody(tag, channels, rate, bits int) []byte {
	align := channels * ((bits + 7) / 8)
	return le(uint16(tag), uint16(channels), uint32(rate), uint32(rate*align), uint16(align), uint16(bits))
}

func fmtChunk(tag, channels, rate, bits int) []byte {
	return chunk("fmt ", fmtBody(tag, channels, rate, bits))
}

func extensible(tag, channels, rate, bits, valid int) []byte {
	return chunk("fmt ", cat(fmtBody(tagExtensible, channels, rate, bits), le(uint16(22), uint16(valid), uint32(0), uint16(tag)), extensibleTail))
}

// encode writes samples as integers of 8, 16, 24 or 32 bits.
func encode(bits int, pcm []float32) []byte {
	var b bytes.Buffer
	for _, x := range pcm {
		v := int64(math.Round(float64(x) * math.Pow(2, float64(bits-1))))
		if bits == 8 {
			v += 128
		}
		b.Write(le(v)[:bits/8])
	}
	return b.Bytes()
}

// sweep is a signal whose values are whole multiples of 1/128, so that every integer encoding holds them exactly.
func sweep(n int) []float32 {
	pcm := make([]float32, n)
	for i := range pcm {
		t := float64(i) / float64(n)
		pcm[i] = float32(math.Round(100*math.Sin(40*t*(1+t))) / 128)
	}
	return pcm
}

func tone(n, rate int, hz, amplitude float64) []float32 {
	pcm := make([]float32, n)
	for i := range pcm {
		pcm[i] = float32(amplitude * math.Sin(2*math.Pi*hz*float64(i)/float64(rate)))
	}
	return pcm
}

func interleave(channels ...[]float32) []float32 {
	pcm := make([]float32, 0, len(channels)*len(channels[0]))
	for i := range channels[0] {
		for _, c := range channels {
			pcm = append(pcm, c[i])
		}
	}
	return pcm
}

// decode reads a whole input through a pipe that gives a few bytes at a time.
func decode(t testing.TB, data []byte, opt Options) ([]float32, *Stream, error) {
	t.Helper()
	s, err := NewStream(context.Background(), &dribble{data: data}, "input.wav", opt)
	if err != nil {
		return nil, nil, err
	}
	pcm, err := s.readAll()
	require.NoError(t, s.Close())
	return pcm, s, err
}

// dribble gives 1, 2, 3, ... 97, 1, 2, ... bytes.
type dribble struct {
	data []byte
	step int
}

func (d *dribble) Read(p []byte) (int, error) {
	if len(d.data) == 0 {
		return 0, io.EOF
	}
	d.step = d.step%97 + 1
	n := copy(p[:min(d.step, len(p))], d.data)
	d.data = d.data[n:]
	return n, nil
}

func resampled(t testing.TB, from int, pcm []float32) []float32 {
	t.Helper()
	r, err := NewResampler(from, SampleRate)
	require.NoError(t, err)
	return r.Flush(r.Write(nil, pcm))
}

// decibels is the level of a signal relative to another.
func decibels(signal, reference float64) float64 {
	return 20 * math.Log10(math.Max(signal, 1e-12)/reference)
}

func rms(pcm []float32) float64 {
	var sum float64
	for _, x := range pcm {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum / float64(len(pcm)))
}

var errBroken = errors.New("cable pulled")

// broken fails after some bytes.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errBroken
	}
	return n, err
}
