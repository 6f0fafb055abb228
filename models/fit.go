package models

import (
	"math"

	"voxtral/internal/device"
)

// grid is a range of integer codes, with the places in it where the search puts the largest element of a group. A
// target outside the range clips; either sign is tried where the range is lopsided.
type grid struct {
	lo, hi  float32
	targets []float32
}

var (
	// On Gaussian rows these ten come within 1 % of two hundred evenly spaced targets.
	int4Grid = grid{-8, 7, []float32{-7.4, -8, -8.6, -9.3, -10.2, 6.4, 7, 7.6, 8.3, 9.2}}
	int8Grid = grid{-128, 127, []float32{127, -128, 126.3, -127.3}}
)

// fit chooses the scale of one group and writes the codes. It minimises Σ w·(x − scale·code)², where w weighs each
// element. For every target the codes are rounded, the best scale for those codes follows by least squares and is
// rounded to F16 as it will be stored, and the codes are rounded again for it. ok is false if no finite F16 scale
// reaches the group's values.
func (g *grid) fit(codes, x, w []float32) (scale uint16, ok bool) {
	var peak float32
	for _, v := range x {
		if abs(v) > abs(peak) {
			peak = v
		}
	}
	best := float32(math.Inf(1))
	for _, target := range g.targets {
		if peak == 0 {
			break
		}
		half, s := g.refit(x, w, target/peak)
		if s == 0 {
			continue
		}
		if err := g.loss(x, w, s); err < best {
			best, scale = err, half
		}
	}
	if scale == 0 { // all zero, or too small for F16, or too large
		clear(codes)
		return 0, abs(peak) < 1
	}
	inv := 1 / device.HalfToFloat(scale)
	for i, v := range x {
		codes[i] = g.round(v * inv)
	}
	return scale, true
}

// refit rounds to codes with the inverse scale inv and returns the least-squares scale for them, as F16 and as the
// value it stands for; zero if there is none.
func (g *grid) refit(x, w []float32, inv float32) (half uint16, scale float32) {
	var num, den float32
	for i, v := range x {
		q := g.round(v * inv)
		wq := w[i] * q
		num += wq * v
		den += wq * q
	}
	if den == 0 {
		return 0, 0
	}
	half = device.FloatToHalf(num / den)
	scale = device.HalfToFloat(half)
	if math.IsInf(float64(scale), 0) {
		return 0, 0
	}
	return half, scale
}

func (g *grid) loss(x, w []float32, scale float32) float32 {
	inv := 1 / scale
	var sum float32
	for i, v := range x {
		e := v - scale*g.round(v*inv)
		sum += w[i] * e * e
	}
	return sum
}

// round clamps to the grid and rounds to the nearest whole number. Adding and taking away 1.5·2²³ leaves no room for
// fractions, which is several times faster than the library's rounding, as these branches are than min and max.
func (g *grid) round(v float32) float32 {
	const noFraction = 3 << 22
	if v < g.lo {
		return g.lo
	}
	if v > g.hi {
		return g.hi
	}
	return float32(v+noFraction) - noFraction
}

func abs(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// weigh fills w with √(σ² + x²) relative to σ, where σ² is the row's mean square: large weights count for somewhat more, as
// they carry more of the output, but a heavy tail does not decide alone. On the demonstration model this comes closest
// to the unquantized one: mean divergence of the predictions 0.0119, against 0.0124 for the weight σ² + x².
func weigh(w, x []float32) {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	inv := float32(0)
	if sum > 0 {
		inv = float32(float64(len(x)) / sum)
	}
	for i, v := range x {
		w[i] = float32(math.Sqrt(float64(1 + float32(v*inv)*v)))
	}
}
