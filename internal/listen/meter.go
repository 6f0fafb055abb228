package listen

import (
	"math"
	"sync"
	"time"

	"voxtral/audio"
)

// meter measures the level of audio as it comes in.
type meter struct {
	mu      sync.Mutex
	energy  float64 // smoothed mean square
	at      time.Time
	samples int64
	clipped int64 // samples of clipped pieces
}

const (
	fullScale = 0.999                 // samples beyond have probably been cut
	atOnce    = 3                     // so many of them in a piece are no chance
	smoothed  = audio.SampleRate / 10 // samples that make up the level
	silent    = -90                   // dBFS, the lowest level told
)

func (m *meter) add(pcm []float32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(pcm) > 0 {
		n := min(len(pcm), frameSamples)
		m.piece(pcm[:n])
		pcm = pcm[n:]
	}
}

func (m *meter) piece(pcm []float32) {
	var sum float64
	full := 0
	for _, x := range pcm {
		sum += float64(x) * float64(x)
		if x >= fullScale || x <= -fullScale {
			full++
		}
	}
	keep := math.Exp(-float64(len(pcm)) / smoothed)
	m.energy = keep*m.energy + (1-keep)*sum/float64(len(pcm))
	m.samples += int64(len(pcm))
	if full >= atOnce {
		m.at = time.Now()
		m.clipped += int64(len(pcm))
	}
}

type reading struct {
	level            float64
	clipping         bool
	samples, clipped int64
}

func (m *meter) read() reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reading{
		level:    max(silent, 10*math.Log10(m.energy+1e-12)),
		clipping: !m.at.IsZero() && time.Since(m.at) < time.Second,
		samples:  m.samples, clipped: m.clipped,
	}
}
