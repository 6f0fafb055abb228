package audio

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-audio/wav"
	"github.com/stretchr/testify/require"
)

// Invariant: what is written is read back to the bit, clipped to full scale, and no other file is left behind.
func TestWriteWAV(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.wav")
	for _, n := range []int{0, 1, 40000} {
		pcm := sweep(n)
		require.NoError(t, WriteWAV(path, pcm, SampleRate))
		got, info, warnings, err := ReadAll(context.Background(), path, Options{})
		require.NoError(t, err)
		require.Empty(t, warnings)
		require.Equal(t, Info{Container: "wav", Encoding: "pcm_s16", SampleRate: SampleRate, Channels: 1, Frames: int64(n)}, info)
		require.Equal(t, append(pcm, 0), append(got, 0))
	}
	require.NoError(t, WriteWAV(path, []float32{-2, 2}, 48000))
	_, info, _, err := ReadAll(context.Background(), path, Options{})
	require.NoError(t, err)
	require.Equal(t, 48000, info.SampleRate)

	require.ErrorContains(t, WriteWAV(path, nil, 0), "sample rate of 0 Hz")
	require.Error(t, WriteWAV(filepath.Join(dir, "none", "out.wav"), nil, SampleRate))
	require.Error(t, WriteWAV(dir, nil, SampleRate))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// Second opinion: go-audio/wav reads the same integers from the files it reads rightly.
func TestReadAgainstGoAudio(t *testing.T) {
	dir := t.TempDir()
	pcm := sweep(500)
	for _, bits := range []int{16, 24, 32} {
		path := filepath.Join(dir, "in.wav")
		require.NoError(t, os.WriteFile(path, riff(chunk("JUNK", make([]byte, 28)), fmtChunk(tagPCM, 2, SampleRate, bits), chunk("data", encode(bits, pcm))), 0o600))
		f, err := os.Open(path)
		require.NoError(t, err)
		theirs, err := wav.NewDecoder(f).FullPCMBuffer()
		require.NoError(t, err)
		require.NoError(t, f.Close())
		for channel := range 2 {
			ours, _, _, err := ReadAll(context.Background(), path, Options{Channel: channel + 1})
			require.NoError(t, err)
			require.Len(t, ours, theirs.NumFrames())
			for i, x := range ours {
				require.InDelta(t, float64(theirs.Data[2*i+channel])/float64(int64(1)<<(bits-1)), x, 1e-9)
			}
		}
	}
}
