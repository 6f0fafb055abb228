package wer

import (
	"math/rand/v2"
	"slices"
)

// Interval is a 95 % interval of a rate or of a difference of rates.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// resamples is how often clips are drawn. With 2000 the ends of the interval move by about a fiftieth of its width from
// one seed to another.
const resamples = 2000

// Bootstrap draws as many clips as there are, with replacement, again and again, and returns the middle 95 % of the rates
// over all of them. Clips, not words, are drawn: errors within a clip depend on each other. Fewer than two clips have
// no interval.
func Bootstrap(clips []Counts, seed uint64) (Interval, bool) {
	return bootstrap(len(clips), seed, func(draw []int) float64 { return rate(clips, draw) })
}

// BootstrapDifference is Bootstrap for the rate of a less that of b on the same clips. Both see the same draws, so what
// makes a clip hard for both cancels.
func BootstrapDifference(a, b []Counts, seed uint64) (Interval, bool) {
	return bootstrap(len(a), seed, func(draw []int) float64 { return rate(a, draw) - rate(b, draw) })
}

func rate(clips []Counts, draw []int) float64 {
	var sum Counts
	for _, i := range draw {
		sum = sum.Add(clips[i])
	}
	return sum.Rate()
}

func bootstrap(n int, seed uint64, statistic func(draw []int) float64) (Interval, bool) {
	if n < 2 {
		return Interval{}, false
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	draw, values := make([]int, n), make([]float64, resamples)
	for i := range values {
		for j := range draw {
			draw[j] = rng.IntN(n)
		}
		values[i] = statistic(draw)
	}
	slices.Sort(values)
	return Interval{values[resamples/40], values[resamples-1-resamples/40]}, true
}
