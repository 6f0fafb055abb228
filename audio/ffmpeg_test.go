package audio

import (
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func ffmpeg(t *testing.T, args ...string) {
	t.Helper()
	said, err := exec.Command("ffmpeg", append([]string{"-nostdin", "-v", "error", "-y"}, args...)...).CombinedOutput()
	require.NoError(t, err, string(said))
}

// likeness is the correlation of two signals at the first shift within 200 ms, since some codecs delay, that makes it
// enough, or else the best there is.
func likeness(a, b []float32, enough float64) (best float64) {
	for shift := range 3200 {
		var ab, aa, bb float64
		for i := 0; i < min(len(a), len(b)-shift); i += 11 {
			x, y := float64(a[i]), float64(b[i+shift])
			ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
		}
		best = math.Max(best, ab/math.Sqrt(aa*bb+1e-12))
		if best > enough {
			break
		}
	}
	return best
}

// Invariant: one recording sounds the same from every container, by path and through a pipe.
func TestContainers(t *testing.T) {
	need(t, "ffmpeg")
	dir := t.TempDir()
	pcm := make([]float32, SampleRate)
	for i := range pcm { // a voice-like glide of harmonics that swells and fades
		t := float64(i) / SampleRate
		for h := 1.0; h < 9; h++ {
			pcm[i] += float32(0.1 / h * math.Sin(2*math.Pi*h*(140*t+30*t*t)) * math.Sin(math.Pi*t))
		}
	}
	source := filepath.Join(dir, "source.wav")
	require.NoError(t, WriteWAV(source, pcm, SampleRate))
	for _, c := range []struct {
		file, container string
		codec           []string
		like            float64
	}{
		{"a.flac", "flac", nil, 0.9999},
		{"a.mp3", "mp3", []string{"-c:a", "libmp3lame"}, 0.99},
		{"untagged.mp3", "mp3", []string{"-c:a", "libmp3lame", "-id3v2_version", "0", "-write_xing", "0"}, 0.99},
		{"vorbis.ogg", "ogg", []string{"-c:a", "libvorbis"}, 0.98},
		{"opus.ogg", "ogg", []string{"-c:a", "libopus"}, 0.98},
		{"a.webm", "webm/matroska", []string{"-c:a", "libopus"}, 0.98},
		{"a.m4a", "mp4", nil, 0.99},
		{"a.aac", "aac", nil, 0.99},
		{"a.au", "au", nil, 0.9999},
		{"a.aiff", "aiff", nil, 0.9999},
		{"a.caf", "caf", nil, 0.9999},
		{"a.w64", "w64", nil, 0.9999},
		{"a.ts", "mpegts", []string{"-c:a", "libmp3lame"}, 0.99},
		{"a.mkv", "webm/matroska", nil, 0.98},
		{"adpcm.wav", "wav", []string{"-c:a", "adpcm_ima_wav"}, 0.99},
		{"alaw.wav", "wav", []string{"-c:a", "pcm_alaw"}, 0.999},
		{"- odd 'name': %d.flac", "flac", nil, 0.9999},
	} {
		t.Run(c.file, func(t *testing.T) {
			path := filepath.Join(dir, c.file)
			ffmpeg(t, append(append([]string{"-i", "file:" + source}, c.codec...), "file:"+path)...)
			got, info, warnings, err := ReadAll(context.Background(), path, Options{})
			require.NoError(t, err)
			require.Empty(t, warnings)
			require.Equal(t, c.container, info.Container)
			require.InDelta(t, len(pcm), len(got), 0.2*SampleRate)
			require.Greater(t, likeness(pcm, got, c.like), c.like)

			data, err := os.ReadFile(path)
			require.NoError(t, err)
			piped, s, err := decode(t, data, Options{Channel: 1})
			require.NoError(t, err)
			require.Equal(t, info.Container, s.Info().Container)
			require.Greater(t, likeness(pcm, piped, c.like), c.like)
			_, _, err = decode(t, data, Options{Channel: 2})
			require.ErrorContains(t, err, "channel 2 asked for, but the audio has 1")
		})
	}
}

// Invariant: garbage behind a known beginning is an error with ffmpeg's words, and audio that ends early is heard as far as
// it goes, with a warning.
func TestContainersBroken(t *testing.T) {
	need(t, "ffmpeg")
	for _, data := range []string{"fLaC", "OggS", "ID3\x04\x00\x00\x00\x00\x00\x00", "\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01", "\x00\x00\x00\x18ftypM4A ", "#!AMR\n", "caff\x00\x01\x00\x00"} {
		_, _, err := decode(t, append([]byte(data), bytes.Repeat([]byte("nothing "), 20)...), Options{})
		require.ErrorContains(t, err, "ffmpeg", "%q", data)
		require.ErrorContains(t, err, "audio: input.wav: ")
		require.NotContains(t, err.Error(), "@ 0x", "no addresses")
	}
	dir := t.TempDir()
	source, path := filepath.Join(dir, "a.wav"), filepath.Join(dir, "a.flac")
	require.NoError(t, WriteWAV(source, sweep(8*SampleRate), SampleRate))
	ffmpeg(t, "-i", source, path)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	got, s, err := decode(t, data[:len(data)*2/3], Options{})
	require.NoError(t, err)
	require.Greater(t, len(got), 4*SampleRate)
	require.NotEmpty(t, s.Warnings())

	_, err = NewStream(context.Background(), broken{bytes.NewReader(data[:len(data)/2])}, "network", Options{})
	if err == nil {
		s, err = NewStream(context.Background(), broken{bytes.NewReader(data[:len(data)/2])}, "network", Options{})
		require.NoError(t, err)
		_, err = s.readAll()
		require.NoError(t, s.Close())
	}
	require.ErrorIs(t, err, errBroken)
}

// Invariant: without ffmpeg, the error says what to install, and WAV still works.
func TestWithoutFFmpeg(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, err := decode(t, []byte("fLaC and so on"), Options{})
	require.ErrorContains(t, err, "flac audio needs the ffmpeg program")
	require.ErrorContains(t, err, "apt install ffmpeg")
	const adpcm = 0x11
	_, _, err = decode(t, riff(chunk("JUNK", nil), fmtChunk(adpcm, 1, 16000, 4), chunk("data", make([]byte, 512))), Options{})
	require.ErrorContains(t, err, "wav audio needs the ffmpeg program")
	_, _, err = decode(t, riff(fmtChunk(tagPCM, 1, 16000, 16), chunk("data", make([]byte, 512))), Options{})
	require.NoError(t, err)
}

// Second opinion: ffmpeg gives every A-law and mu-law code the same level.
func TestG711AgainstFFmpeg(t *testing.T) {
	need(t, "ffmpeg")
	codes := make([]byte, 256)
	for code := range codes {
		codes[code] = byte(code)
	}
	dir := t.TempDir()
	for _, tag := range []int{tagALaw, tagMuLaw} {
		data := riff(fmtChunk(tag, 1, SampleRate, 8), chunk("data", codes))
		in, out := filepath.Join(dir, "in.wav"), filepath.Join(dir, "out.wav")
		require.NoError(t, os.WriteFile(in, data, 0o600))
		ffmpeg(t, "-i", in, "-c:a", "pcm_s16le", out)
		theirs, _, _, err := ReadAll(context.Background(), out, Options{})
		require.NoError(t, err)
		ours, _, _, err := ReadAll(context.Background(), in, Options{})
		require.NoError(t, err)
		require.Equal(t, theirs, ours)
	}
}

// Invariant: the kept end of ffmpeg's messages is bounded and shown as one line.
func TestTail(t *testing.T) {
	var p ffmpegProcess
	require.Empty(t, p.complaint())
	for range 100 {
		_, err := p.stderr.Write([]byte(strings.Repeat("x", 1000) + "\n"))
		require.NoError(t, err)
	}
	_, err := p.stderr.Write([]byte("[aac @ 0x55d8] first\nsecond\n  Last message repeated 1 times\nthird\n\n"))
	require.NoError(t, err)
	require.Equal(t, ": [aac] first; second; third", p.complaint())
	require.LessOrEqual(t, len(p.stderr.kept), 2048)
}
