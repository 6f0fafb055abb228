package capture

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/audio"
)

// read takes all of a source.
func read(t *testing.T, open Open) (pcm []float32, warnings []string) {
	t.Helper()
	source, err := open(context.Background())
	require.NoError(t, err)
	block := make([]float32, 100)
	for err == nil {
		var n int
		n, err = source.Read(block)
		pcm = append(pcm, block[:n]...)
	}
	require.ErrorIs(t, err, io.EOF)
	warnings = source.Warnings()
	require.NoError(t, source.Close())
	return pcm, warnings
}

// Every encoding gives half of full scale, to its own precision.
func TestRawEncodings(t *testing.T) {
	half := map[string]string{
		"s16le": "\x00\x40", "f32le": "\x00\x00\x00\x3f", "u8": "\xc0", "s24le": "\x00\x00\x40", "s32le": "\x00\x00\x00\x40",
		"f64le": "\x00\x00\x00\x00\x00\x00\xe0\x3f", "alaw": "\xba", "mulaw": "\x8f",
	}
	require.Len(t, half, len(Encodings()))
	for _, name := range Encodings() {
		raw := &Raw{Encoding: name, Rate: audio.SampleRate, Channels: 2}
		require.NoError(t, raw.Check())
		pcm, warnings := read(t, Pipe(bytes.NewReader(bytes.Repeat([]byte(half[name]), 2*500)), "pipe", raw, 0))
		require.Empty(t, warnings, name)
		require.Len(t, pcm, 500, name)
		require.InDelta(t, 0.5, pcm[0], 0.02, name)
	}
	_, warnings := read(t, Pipe(bytes.NewReader([]byte{0, 0, 0}), "pipe", &Raw{Encoding: "s16le", Rate: 16000, Channels: 1}, 0))
	require.Len(t, warnings, 1, "a half sample")
	for _, raw := range []Raw{{"s16be", 16000, 1}, {"s16le", 0, 1}, {"s16le", 1 << 20, 1}, {"s16le", 16000, 0}, {"s16le", 16000, 33}} {
		require.Error(t, raw.Check(), raw)
		_, err := Pipe(bytes.NewReader(nil), "pipe", &raw, 0)(context.Background())
		require.Error(t, err, raw)
	}
}

// A reader that fails is an error after what it has given, and so is a context that ends.
func TestPipeBreaksOff(t *testing.T) {
	broken := errors.New("broken")
	raw := &Raw{Encoding: "u8", Rate: audio.SampleRate, Channels: 1}
	source, err := Pipe(io.MultiReader(bytes.NewReader(make([]byte, 300)), failing{broken}), "pipe", raw, 0)(context.Background())
	require.NoError(t, err)
	block, total := make([]float32, 100), 0
	for err == nil {
		var n int
		n, err = source.Read(block)
		total += n
	}
	require.ErrorIs(t, err, broken)
	require.Equal(t, 300, total)
	require.NoError(t, source.Close())

	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	source, err = Pipe(r, "pipe", raw, 0)(ctx)
	require.NoError(t, err)
	cancel(broken)
	_, err = source.Read(block)
	require.ErrorIs(t, err, broken)
	require.NoError(t, source.Close())
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
