package capture

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/gen2brain/malgo"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"voxtral/audio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The device's samples go through callback, ring and resampler as through a plain resampler, and what has been captured
// when the context is cancelled still comes.
func TestMicrophoneDeliversWhatTheCallbackGets(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	var filled []float32 // mono; after the device has stopped it belongs to the test
	var enough atomic.Bool
	source, err := NullMicrophone(func(block []float32, channels int) {
		for i := 0; i < len(block); i += channels {
			x := float32(len(filled)%97)/97 - 0.5
			filled = append(filled, x)
			for c := range channels {
				block[i+c] = x
			}
		}
		if len(filled) > 20_000 && enough.CompareAndSwap(false, true) {
			cancel(stop)
		}
	})(ctx)
	require.NoError(t, err)
	m := source.(*microphone)
	var got []float32
	block := make([]float32, 333)
	for err == nil {
		var n int
		n, err = source.Read(block)
		got = append(got, block[:n]...)
	}
	require.ErrorIs(t, err, stop)
	require.Empty(t, source.Warnings())
	require.Regexp(t, `^.+, \d+ Hz, channels: \d+$`, source.Detail())
	rate := m.rate
	require.NoError(t, source.Close())
	rs, err := audio.NewResampler(rate, audio.SampleRate)
	require.NoError(t, err)
	want := rs.Flush(rs.Write(nil, filled))
	require.InDeltaSlice(t, want, got, 1e-6, "the mean of equal channels may round")
	_, err = source.Read(block)
	require.ErrorIs(t, err, stop)
}

// A device that stops by itself, as one that is pulled out does, ends the audio with one error.
func TestMicrophoneIsPulled(t *testing.T) {
	source, err := NullMicrophone(func([]float32, int) {})(context.Background())
	require.NoError(t, err)
	m := source.(*microphone)
	block := make([]float32, 100)
	_, err = source.Read(block)
	require.NoError(t, err)
	require.NoError(t, m.device.Stop())
	for err == nil {
		_, err = source.Read(block)
	}
	require.ErrorContains(t, err, "unplugged")
	require.NotErrorIs(t, err, io.EOF)
	require.NoError(t, source.Close())
}

// Some sound systems say nothing when a microphone goes: that no samples come is enough.
func TestMicrophoneThatFallsSilent(t *testing.T) {
	source, err := NullMicrophone(func([]float32, int) {})(context.Background())
	require.NoError(t, err)
	m := source.(*microphone)
	block := make([]float32, 100)
	_, err = source.Read(block)
	require.NoError(t, err)
	m.ready.Store(false)
	for err == nil {
		m.empty = max(m.empty, deadAfter-10)
		_, err = source.Read(block)
	}
	require.ErrorContains(t, err, "delivers nothing any more")
	require.NoError(t, source.Close())
}

// Nothing but a real sound system is ever opened unasked: where there is none, that is an error.
func TestNullBackendIsNotAmongTheReal(t *testing.T) {
	require.NotContains(t, realBackends, nullBackend)
	require.NotContains(t, realBackends, malgo.Backend(malgo.BackendNull), "another backend under a wrong name")
	require.NotEmpty(t, realBackends, "an empty list lets miniaudio choose")
	ctx, err := openSystem([]malgo.Backend{nullBackend})
	require.NoError(t, err)
	defer ctx.close()
	null, err := ctx.inputs()
	require.NoError(t, err)
	require.Len(t, null, 1)
	inputs, err := Inputs()
	if err != nil {
		require.ErrorContains(t, err, "no sound system answers")
	}
	for _, input := range inputs {
		require.NotEqual(t, null[0].Name(), input.Name)
	}
}

// ALSA's own silence, and plugins that lead nowhere, are no inputs.
func TestALSACards(t *testing.T) {
	for id, want := range map[string]bool{
		"default": true, "hw:0,0": true, "sysdefault:CARD=PCH": true, "pipewire": true, "null": false, "jack": false, "speex": false, "": false,
	} {
		require.Equal(t, want, alsaCard(id+"\x00hw:"), id)
	}
}

func TestChooseInput(t *testing.T) {
	ctx, err := openSystem([]malgo.Backend{nullBackend})
	require.NoError(t, err)
	defer ctx.close()
	devices, err := ctx.inputs()
	require.NoError(t, err)
	name := devices[0].Name()
	for _, asked := range []string{"", name, "null", "CAPTURE"} {
		got, err := choose(devices, asked)
		require.NoError(t, err, asked)
		require.Equal(t, name, got.Name())
	}
	_, err = choose(devices, "USB")
	require.ErrorContains(t, err, `no input is called "USB": there are `+name)
	_, err = choose(append(devices, devices...), "null")
	require.ErrorContains(t, err, "2 inputs")
	_, err = choose(nil, "")
	require.ErrorContains(t, err, "there is none")
}
