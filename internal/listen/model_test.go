package listen_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"voxtral/audio"
	"voxtral/cpu"
	"voxtral/internal/capture"
	"voxtral/internal/listen"
	"voxtral/models"
	"voxtral/runtime"
)

const hello = "../../examples/hello.wav"

// newSession opens the built-in model for live audio.
func newSession(t *testing.T) *runtime.Session {
	t.Helper()
	model, err := models.Demo()
	require.NoError(t, err)
	dev, err := cpu.Open(0)
	require.NoError(t, err)
	engine, err := runtime.Open(model, dev)
	require.NoError(t, err)
	session, err := engine.NewSession(runtime.Options{IgnoreEOS: true})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, session.Close())
		require.NoError(t, engine.Close())
		require.NoError(t, dev.Close())
		require.NoError(t, model.Close())
	})
	return session
}

// tokens hears a recording at once.
func tokens(t *testing.T, session *runtime.Session, pcm []float32) (events []runtime.Event) {
	t.Helper()
	session.Reset()
	require.NoError(t, session.Feed(pcm))
	require.NoError(t, session.Finish())
	for ev := range session.Events() {
		events = append(events, ev)
	}
	require.NotEmpty(t, events)
	return events
}

func live(t *testing.T, session *runtime.Session, opt listen.Options) (events []runtime.Event, report *listen.Report) {
	t.Helper()
	session.Reset()
	opt.Heard = func(ev runtime.Event) error { events = append(events, ev); return nil }
	report, err := listen.Run(context.Background(), session, opt)
	require.NoError(t, err)
	require.NoError(t, report.SourceErr)
	require.Empty(t, report.Warnings)
	return events, report
}

// ragged returns pieces of odd sizes.
type ragged struct {
	r   io.Reader
	rng *rand.Rand
}

func (r *ragged) Read(p []byte) (int, error) { return r.r.Read(p[:min(len(p), 1+r.rng.IntN(5000))]) }

// However a pipe cuts the audio, and with or without a header: the tokens, their margins and times are those of the whole
// recording.
func TestPipeEqualsFile(t *testing.T) {
	session := newSession(t)
	pcm, _, _, err := audio.ReadAll(context.Background(), hello, audio.Options{})
	require.NoError(t, err)
	want := tokens(t, session, pcm)
	file, err := os.ReadFile(hello)
	require.NoError(t, err)
	samples := file[bytes.Index(file, []byte("data"))+8:]
	raw := &capture.Raw{Encoding: "s16le", Rate: audio.SampleRate, Channels: 1}
	for name, open := range map[string]capture.Open{
		"whole":         capture.Pipe(bytes.NewReader(file), "pipe", nil, 0),
		"byte by byte":  capture.Pipe(iotest.OneByteReader(bytes.NewReader(file)), "pipe", nil, 0),
		"ragged":        capture.Pipe(&ragged{bytes.NewReader(file), rand.New(rand.NewPCG(1, 2))}, "pipe", nil, 0),
		"raw":           capture.Pipe(bytes.NewReader(samples), "pipe", raw, 0),
		"raw and odd":   capture.Pipe(iotest.HalfReader(&ragged{bytes.NewReader(samples), rand.New(rand.NewPCG(3, 4))}), "pipe", raw, 0),
		"with its tail": capture.Pipe(iotest.DataErrReader(bytes.NewReader(samples)), "pipe", raw, 0),
	} {
		got, report := live(t, session, listen.Options{Open: open})
		require.Equal(t, want, got, name)
		require.Equal(t, report.Heard, report.Captured, name)
		require.Zero(t, report.Lost.Silence+report.Lost.Sound, name)
	}
}

// Restarts in pauses are places in the audio, not in the pipe: every cut gives the same tokens at the same times, each
// session those of its own part alone.
func TestRestartsEqualParts(t *testing.T) {
	session := newSession(t)
	pcm, _, _, err := audio.ReadAll(context.Background(), hello, audio.Options{})
	require.NoError(t, err)
	part := slices.Concat(pcm, make([]float32, 2*audio.SampleRate))
	raw := &capture.Raw{Encoding: "f32le", Rate: audio.SampleRate, Channels: 1}
	var samples bytes.Buffer
	for range 3 {
		require.NoError(t, binary.Write(&samples, binary.LittleEndian, part))
	}
	opt := listen.Options{Open: capture.Pipe(bytes.NewReader(samples.Bytes()), "pipe", raw, 0), Restart: 4 * time.Second}
	want, report := live(t, session, opt)
	require.Equal(t, 3, report.Restarts)
	one := text(tokens(t, session, part))
	require.NotEmpty(t, one)
	require.Equal(t, one+" "+one+" "+one, text(want))
	opt.Open = capture.Pipe(&ragged{bytes.NewReader(samples.Bytes()), rand.New(rand.NewPCG(7, 8))}, "pipe", raw, 0)
	got, _ := live(t, session, opt)
	require.Equal(t, want, got)
}

// Other rates and channels are brought to the model's as those of files are.
func TestRawIsResampled(t *testing.T) {
	session := newSession(t)
	rng := rand.New(rand.NewPCG(5, 6))
	raw := capture.Raw{Encoding: "f32le", Rate: 44100, Channels: 2}
	var samples bytes.Buffer
	left := make([]float32, 3*raw.Rate)
	for i := range left {
		left[i] = 0.3 * (2*rng.Float32() - 1)
		require.NoError(t, binary.Write(&samples, binary.LittleEndian, []float32{left[i], 0})) // a dead channel
	}
	for channel, scale := range []float32{0: 0.5, 1: 1} {
		mono := make([]float32, len(left))
		for i, x := range left {
			mono[i] = x * scale
		}
		rs, err := audio.NewResampler(raw.Rate, audio.SampleRate)
		require.NoError(t, err)
		want := rs.Flush(rs.Write(nil, mono))
		var got []float32
		_, report := live(t, session, listen.Options{
			Open: capture.Pipe(&ragged{bytes.NewReader(samples.Bytes()), rng}, "pipe", &raw, channel),
			Tap:  func(pcm []float32) { got = append(got, pcm...) },
		})
		require.Equal(t, want, got)
		require.Equal(t, 3*time.Second, report.Heard)
	}
}

// A clip that a microphone hears in real time, at its own rate and from all its channels: the tokens are those of what was
// captured, and the words those of the clip.
func TestMicrophoneEqualsFile(t *testing.T) {
	session := newSession(t)
	pcm, _, _, err := audio.ReadAll(context.Background(), hello, audio.Options{})
	require.NoError(t, err)
	source, err := capture.NullMicrophone(func([]float32, int) {})(context.Background())
	require.NoError(t, err)
	detail := strings.Fields(source.Detail())
	require.NoError(t, source.Close())
	rate, err := strconv.Atoi(detail[len(detail)-4])
	require.NoError(t, err)
	rs, err := audio.NewResampler(audio.SampleRate, rate)
	require.NoError(t, err)
	clip := rs.Flush(rs.Write(nil, pcm))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	microphone := capture.NullMicrophone(func(block []float32, channels int) {
		for i := 0; i < len(block); i += channels {
			if len(clip) == 0 {
				cancel()
				return
			}
			for c := range channels {
				block[i+c] = clip[0]
			}
			clip = clip[1:]
		}
	})
	var captured []float32
	var events []runtime.Event
	session.Reset()
	report, err := listen.Run(ctx, session, listen.Options{
		Open: microphone, MaxLag: time.Minute,
		Tap:   func(pcm []float32) { captured = append(captured, pcm...) },
		Heard: func(ev runtime.Event) error { events = append(events, ev); return nil },
	})
	require.NoError(t, err)
	require.NoError(t, report.SourceErr)
	require.Empty(t, report.Warnings)
	require.Zero(t, report.Lost.Silence+report.Lost.Sound)
	require.GreaterOrEqual(t, len(captured), len(pcm)-1)
	require.Equal(t, tokens(t, session, captured), events)
	require.Equal(t, text(tokens(t, session, pcm)), text(events))
}

func text(events []runtime.Event) string {
	var all strings.Builder
	for _, ev := range events {
		all.WriteString(ev.Text)
	}
	return strings.TrimSpace(all.String())
}
