package audio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Invariant: a long pipe at a rate that shares little with 16 kHz loses and gains no sample (R15 was 995 s at 22.05 kHz).
func TestR15LongRecording(t *testing.T) {
	const rate, seconds = 22050, 99
	block := encode(16, tone(rate, rate, 441, 0.5))
	readers := make([]io.Reader, 1+seconds)
	readers[0] = bytes.NewReader(riff(fmtChunk(tagPCM, 1, rate, 16), bare("data", rate*2*seconds, nil)))
	for i := range seconds {
		readers[1+i] = bytes.NewReader(block)
	}
	s, err := NewStream(context.Background(), io.MultiReader(readers...), "long.wav", Options{})
	require.NoError(t, err)
	_, total := s.Position()
	require.Equal(t, int64(rate*seconds), total)
	pcm, err := s.readAll()
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Empty(t, s.Warnings())
	require.Len(t, pcm, SampleRate*seconds)
	// Every block starts the tone anew at the same phase, so the last second is like the first.
	want := tone(SampleRate-1000, SampleRate, 441, 0.5)
	require.InDeltaSlice(t, want, pcm[len(pcm)-SampleRate:len(pcm)-1000], 1e-4)
}

// Invariant: samples come as soon as the pipe has brought them; nothing waits for a buffer to fill.
func TestStreamIsLive(t *testing.T) {
	r, w := io.Pipe()
	pcm := sweep(500)
	go func() {
		_, _ = w.Write(riff(fmtChunk(tagPCM, 1, SampleRate, 16), bare("data", 0xFFFFFFFF, nil)))
		_, _ = w.Write(encode(16, pcm[:3])) // and the pipe stays open
	}()
	s, err := NewStream(context.Background(), r, "live", Options{})
	require.NoError(t, err)
	_, total := s.Position()
	require.Equal(t, int64(-1), total)
	require.Equal(t, int64(-1), s.Info().Frames)
	got := make([]float32, 100)
	n, err := s.Read(got)
	require.NoError(t, err)
	require.Equal(t, pcm[:3], got[:n])
	n, err = s.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, s.Close())
	_, err = s.Read(got)
	require.Error(t, err)
	require.NoError(t, w.Close())
}

// Invariant: a cancelled context ends a read that waits for an idle pipe, with the context's error.
func TestStreamCancel(t *testing.T) {
	for _, head := range [][]byte{nil, riff(fmtChunk(tagPCM, 1, SampleRate, 16), bare("data", 0xFFFFFFFF, nil)), []byte("OggS a page that never comes")} {
		if head != nil && sniff(head) == "ogg" {
			need(t, "ffmpeg")
		}
		r, w := io.Pipe()
		go func() { _, _ = w.Write(head) }()
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(50*time.Millisecond, cancel)
		s, err := NewStream(ctx, r, "idle", Options{})
		if err == nil {
			_, err = s.Read(make([]float32, 100))
			require.NoError(t, s.Close())
		}
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "audio: idle: ")
		require.NoError(t, w.Close())
	}
}

// Invariant: an input that breaks is an error that says so, never a shorter audio.
func TestStreamBreaks(t *testing.T) {
	whole := riff(fmtChunk(tagPCM, 1, SampleRate, 16), chunk("data", encode(16, sweep(500))))
	for _, n := range []int{0, 5, 20, 40, 44, 500} {
		s, err := NewStream(context.Background(), broken{bytes.NewReader(whole[:n])}, "network", Options{})
		if err == nil {
			_, err = s.readAll()
			require.NoError(t, s.Close())
		}
		require.ErrorIs(t, err, errBroken, "after %d bytes", n)
		require.ErrorContains(t, err, "audio: network: ")
	}
}

// Invariant: what is no audio file is one error that names it.
func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "empty.wav")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := Open(context.Background(), path, Options{})
	require.ErrorContains(t, err, "audio: "+path+": is empty (0 bytes)")
	_, err = Open(context.Background(), dir, Options{})
	require.ErrorContains(t, err, dir+": is a directory")
	_, err = Open(context.Background(), filepath.Join(dir, "none.wav"), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, _, _, err = ReadAll(context.Background(), os.DevNull, Options{})
	require.ErrorContains(t, err, "is empty")
	require.NoError(t, os.WriteFile(path, []byte("just some words, and more of them"), 0o600))
	_, err = Open(context.Background(), path, Options{})
	require.ErrorContains(t, err, "no audio file this program knows")
	require.False(t, errors.Is(err, io.EOF))
}
