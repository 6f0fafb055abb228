package bench

import (
	"math"
	"math/rand/v2"

	"voxtral/audio"
)

// Speech makes seconds of something like speech, always the same: syllables of a voice whose pitch and formants wander,
// with a hiss before some of them, in phrases with pauses between. Nobody says anything in it, but its level, spectrum
// and rhythm are those of speech.
func Speech(seconds float64) []float32 { return speech(0, seconds) }

// speech makes other noise for every seed.
func speech(seed uint64, seconds float64) []float32 {
	const syllable, phrase = 0.18, 14 // seconds, syllables with the pause
	rng := rand.New(rand.NewPCG(16000, seed))
	pcm := make([]float32, int(seconds*audio.SampleRate))
	var low, high resonator
	var phase, pitch float64
	var hissing bool
	for i := range pcm {
		t := float64(i) / audio.SampleRate
		n, at := int(t/syllable), math.Mod(t, syllable)/syllable
		if i == 0 || n != int(float64(i-1)/audio.SampleRate/syllable) {
			pitch = 95 + 50*rng.Float64()
			low.tune(300+500*rng.Float64(), 80)
			high.tune(900+1500*rng.Float64(), 120)
			hissing = rng.IntN(3) == 0
		}
		if n%phrase >= phrase-3 { // the pause
			continue
		}
		envelope := math.Pow(math.Sin(math.Pi*at), 0.7)
		phase += pitch * (1 - 0.1*at) / audio.SampleRate
		phase -= math.Floor(phase)
		source := 2*phase - 1
		if hissing && at < 0.3 {
			source = rng.NormFloat64()
		}
		pcm[i] = float32(0.6*envelope*(low.next(source)+high.next(source)/2) + 1e-4*rng.NormFloat64())
	}
	for i := range pcm {
		pcm[i] = min(max(pcm[i], -1), 1)
	}
	return pcm
}

// resonator passes a band, with gain 1 at its middle.
type resonator struct{ gain, a, b, y1, y2 float64 }

func (r *resonator) tune(hertz, width float64) {
	radius := math.Exp(-math.Pi * width / audio.SampleRate)
	angle := 2 * math.Pi * hertz / audio.SampleRate
	r.a, r.b = 2*radius*math.Cos(angle), -radius*radius
	r.gain = (1 - radius) * math.Sqrt(1-2*radius*math.Cos(2*angle)+radius*radius)
}

func (r *resonator) next(x float64) float64 {
	y := r.gain*x + r.a*r.y1 + r.b*r.y2
	r.y1, r.y2 = y, r.y1
	return y
}
