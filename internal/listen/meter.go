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
	samples int64
	energy  float64 // smoothed mean square
	clipped time.Time
}

const (
	fullScale = 0.999                 // samples beyond have probably been cut
	attack    = audio.SampleRate / 10 // samples over which the level is smoothed
	silent    = -90                   // dBFS, the lowest level told
)

func (m *meter) add(pcm []float32) {
	var sum float64
	full := 0
	for _, x := range pcm {
		sum += float64(x) * float64(x)
		if x >= fullScale || x <= -fullScale {
			full++
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.samples += int64(len(pcm))
	keep := math.Exp(-float64(len(pcm)) / attack)
	m.energy = keep*m.energy + (1-keep)*sum/float64(len(pcm))
	const some = 3 // one loud click is no reason to warn
	if full >= some {
		m.clipped = time.Now()
	}
}

func (m *meter) read() (level float64, clipping bool, samples int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	level = max(silent, 10*math.Log10(m.energy+1e-12))
	return level, !m.clipped.IsZero() && time.Since(m.clipped) < time.Second, m.samples
}
