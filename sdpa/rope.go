package sdpa

import "math"

// Rotary is the table of angular steps of one rotary embedding: pair i turns by Freq[i] radians a position.
type Rotary struct {
	Freq []float64 // [HeadDim/2]
}

// NewRotary gives Freq[i] = theta^(−2i/headDim).
func NewRotary(theta float64, headDim int) Rotary {
	f := make([]float64, headDim/2)
	for i := range f {
		f[i] = math.Pow(theta, -2*float64(i)/float64(headDim))
	}
	return Rotary{Freq: f}
}

// Angles writes cos and sin [HeadDim/2] of a position. The product is formed in float64: at position 10⁶ a float32 angle
// would already be off by 0.06 rad.
func (r Rotary) Angles(cos, sin []float32, pos int) {
	for i, f := range r.Freq {
		s, c := math.Sincos(float64(pos) * f)
		cos[i], sin[i] = float32(c), float32(s)
	}
}
