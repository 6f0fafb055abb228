package audio

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

const (
	melWindow = 400 // samples per frame, also the length of the DFT
	melHop    = 160 // samples between frames: 10 ms
	melFreqs  = melWindow/2 + 1

	melFloor = 1e-10     // power below which the logarithm is not taken
	melRange = 1.5 - 8.0 // log10: the fixed reference level less eight decades
)

// Mel turns 16 kHz mono PCM into log-mel frames of a fixed number of bins, incrementally: any split of the input gives
// bit-equal frames. Frame t is centred on sample 160t of the signal, which is reflected at both ends.
type Mel struct {
	bins   int
	hann   [melWindow]float64
	first  []int       // [bins] lowest DFT bin of each filter
	weight [][]float64 // [bins] a filter's weights from its lowest DFT bin on
	fft    *fourier.FFT

	window [melWindow]float64 // samples of the next frame
	filled int                // samples of window that are known
	begun  bool               // the first frame, whose left half is a reflection, has been emitted
	seq    [melWindow]float64
	coef   [melFreqs]complex128
	power  [melFreqs]float64
}

// NewMel returns a log-mel front end with 1..256 Slaney filters over 0..8 kHz.
func NewMel(bins int) (*Mel, error) {
	if bins < 1 || bins > 256 {
		return nil, fmt.Errorf("audio: cannot make %d mel bins: must be within 1..256", bins)
	}
	m := &Mel{bins: bins, fft: fourier.NewFFT(melWindow)}
	for i := range m.hann {
		m.hann[i] = 0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/melWindow)
	}
	m.first, m.weight = slaneyFilters(bins)
	m.Reset()
	return m, nil
}

// Bins returns the number of values per frame.
func (m *Mel) Bins() int { return m.bins }

// Reset forgets the signal so far.
func (m *Mel) Reset() {
	m.filled = melWindow / 2
	m.begun = false
}

// Write appends to dst every frame [bins] that pcm completes, and returns the extended slice. Frame t is complete once
// samples up to 160t+200 (exclusive) are known.
func (m *Mel) Write(dst, pcm []float32) []float32 {
	for _, x := range pcm {
		m.window[m.filled] = float64(x)
		m.filled++
		if m.filled == melWindow {
			dst = m.emit(dst)
		}
	}
	return dst
}

// Flush ends the signal of n samples and appends what makes floor(n/160) frames in all: at most one frame whose end is
// reflected. The frame centred on or after the last whole hop is dropped, as the model's reference does. Flush resets m.
func (m *Mel) Flush(dst []float32) []float32 {
	// A frame is due when at least one hop of samples follows its centre.
	if m.filled-melWindow/2 >= melHop {
		last := m.filled - 1
		for i := m.filled; i < melWindow; i++ {
			m.window[i] = m.window[2*last-i]
		}
		dst = m.emit(dst)
	}
	m.Reset()
	return dst
}

func (m *Mel) emit(dst []float32) []float32 {
	if !m.begun {
		// window[0] would be sample 200 of the reflection, not known yet; the periodic Hann window is zero there.
		m.begun = true
		m.window[0] = 0
		for i := 1; i < melWindow/2; i++ {
			m.window[melWindow/2-i] = m.window[melWindow/2+i]
		}
	}
	for i, w := range m.hann {
		m.seq[i] = w * m.window[i]
	}
	m.fft.Coefficients(m.coef[:], m.seq[:])
	for i, c := range m.coef {
		m.power[i] = real(c)*real(c) + imag(c)*imag(c)
	}
	for bin, first := range m.first {
		var sum float64
		for i, w := range m.weight[bin] {
			sum += w * m.power[first+i]
		}
		level := max(math.Log10(max(sum, melFloor)), melRange)
		dst = append(dst, float32((level+4)/4))
	}
	m.filled = copy(m.window[:], m.window[melHop:])
	return dst
}

// slaneyFilters returns triangular filters spaced evenly on Slaney's mel scale (linear to 1 kHz, logarithmic above) and
// normalised to equal area, as the DFT bins and weights that are not zero.
func slaneyFilters(bins int) (first []int, weight [][]float64) {
	const (
		linear   = 200.0 / 3 // Hz per mel below the knee
		knee     = 1000.0    // Hz
		kneeMel  = knee / linear
		nyquist  = SampleRate / 2
		binWidth = float64(SampleRate) / melWindow
	)
	step := math.Log(6.4) / 27 // natural logarithm of frequency per mel above the knee
	top := kneeMel + math.Log(nyquist/knee)/step
	edge := make([]float64, bins+2) // Hz
	for i := range edge {
		mel := top * float64(i) / float64(bins+1)
		if mel < kneeMel {
			edge[i] = linear * mel
		} else {
			edge[i] = knee * math.Exp(step*(mel-kneeMel))
		}
	}
	first = make([]int, bins)
	weight = make([][]float64, bins)
	for b := range bins {
		low, mid, high := edge[b], edge[b+1], edge[b+2]
		for i := range melFreqs {
			hz := float64(i) * binWidth
			w := min((hz-low)/(mid-low), (high-hz)/(high-mid)) * 2 / (high - low)
			if w <= 0 {
				continue
			}
			if weight[b] == nil {
				first[b] = i
			}
			weight[b] = append(weight[b], w)
		}
	}
	return first, weight
}
