package audio

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	goaudio "github.com/go-audio/audio"
	"github.com/go-audio/wav"
)

// WriteWAV writes mono samples in [-1,1] as a 16-bit WAV file, rounded to nearest and clipped. The file appears under
// its name only when it is whole.
func WriteWAV(path string, pcm []float32, sampleRate int) error {
	if sampleRate < minRate || sampleRate > maxRate {
		return fmt.Errorf("audio: %s: cannot write a sample rate of %d Hz: must be within %d..%d Hz", path, sampleRate, minRate, maxRate)
	}
	if len(pcm) > (math.MaxUint32-64)/2 {
		return fmt.Errorf("audio: %s: %d samples do not fit in a WAV file", path, len(pcm))
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("audio: %s: %w", path, err)
	}
	err = errors.Join(encodeWAV(f, pcm, sampleRate), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("audio: %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

func encodeWAV(w io.WriteSeeker, pcm []float32, sampleRate int) error {
	const pcmTag, block = 1, 1 << 15
	enc := wav.NewEncoder(w, sampleRate, 16, 1, pcmTag)
	buf := goaudio.IntBuffer{Format: &goaudio.Format{NumChannels: 1, SampleRate: sampleRate}, SourceBitDepth: 16}
	for first := true; first || len(pcm) > 0; first = false {
		n := min(len(pcm), block)
		buf.Data = buf.Data[:0]
		for _, x := range pcm[:n] {
			buf.Data = append(buf.Data, int(math.Round(max(-32768, min(32767, float64(x)*32768)))))
		}
		if err := enc.Write(&buf); err != nil {
			return err
		}
		pcm = pcm[n:]
	}
	return enc.Close()
}
