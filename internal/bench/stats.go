package bench

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Percentile is the smallest value that at least the share p of all values, 0 < p ≤ 1, do not exceed (nearest rank); 0
// of no values. sorted is in ascending order.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	// A product such as 0.95·20 may come out a little above the whole number that it is.
	rank := int(math.Ceil(p*float64(len(sorted)) - 1e-9))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median is the middle value, or the mean of the two in the middle; 0 of no values.
func Median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	switch n := len(s); {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// ratio of x to y, 0 where y is.
func ratio(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}

// Interval is where a number lies with 95 % confidence.
type Interval struct{ Lo, Hi float64 }

const (
	resamples  = 10_000
	confidence = 0.95
)

// RatioInterval estimates by the bootstrap where mean(b)/mean(a) lies: both sets of runs are drawn from anew, with
// replacement, ten thousand times. The same runs always give the same interval. ok is false if either set has fewer than
// two runs, which say nothing about their spread.
func RatioInterval(a, b []float64) (iv Interval, ok bool) {
	if len(a) < 2 || len(b) < 2 {
		return Interval{}, false
	}
	rng := rand.New(rand.NewPCG(1, 2))
	ratios := make([]float64, resamples)
	for i := range ratios {
		ratios[i] = ratio(resample(rng, b), resample(rng, a))
	}
	slices.Sort(ratios)
	return Interval{Percentile(ratios, (1-confidence)/2), Percentile(ratios, (1+confidence)/2)}, true
}

func resample(rng *rand.Rand, values []float64) float64 {
	sum := 0.0
	for range values {
		sum += values[rng.IntN(len(values))]
	}
	return sum / float64(len(values))
}
