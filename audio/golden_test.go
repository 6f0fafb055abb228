package audio

import (
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/internal/golden"
)

func loadGolden(t *testing.T) *golden.File {
	path, err := golden.Path("audio.safetensors")
	require.NoError(t, err)
	g, err := golden.Load(path)
	require.NoError(t, err)
	return g
}

// Frames equal torch.stft's through the reference feature extractor, mirrored ends included, for speech-like sound, noise,
// clicks, a full-scale square wave, quiet and silence.
func TestMelEqualsTorch(t *testing.T) {
	g := loadGolden(t)
	for _, name := range []string{"speech", "noise", "clicks", "square", "quiet", "silence", "short"} {
		m, err := NewMel(128)
		require.NoError(t, err)
		got := m.Flush(m.Write(nil, g.PCM("mel."+name+".pcm")))
		want, _ := g.F32("mel." + name)
		require.Len(t, got, len(want), name)
		golden.Close(t, name, got, want, golden.Tol{Abs: 1e-4})
	}
}

// The whole padded clip of the model goldens: 32 ticks of silence, the audio, then silence to the end.
func TestMelOfPaddedClip(t *testing.T) {
	g := loadGolden(t)
	pcm := append(make([]float32, 32*1280), g.PCM("pcm")...)
	ticks := (len(pcm)+1279)/1280 + 6 + 11
	m, err := NewMel(128)
	require.NoError(t, err)
	frames := m.Flush(m.Write(nil, append(pcm, make([]float32, ticks*1280-len(pcm))...)))
	require.Len(t, frames, ticks*8*128)
	var got []float32
	for _, row := range g.I32("d6.mel.rows") {
		got = append(got, frames[row*128:(row+1)*128]...)
	}
	want, _ := g.F32("d6.mel")
	golden.Close(t, "d6.mel", got, want, golden.Tol{Abs: 1e-4})
}
