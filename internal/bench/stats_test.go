package bench

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPercentileByHand(t *testing.T) {
	twenty := make([]float64, 20)
	for i := range twenty {
		twenty[i] = float64(i + 1)
	}
	for p, want := range map[float64]float64{0.5: 10, 0.95: 19, 0.99: 20, 1: 20, 0.05: 1, 0.01: 1, 0.051: 2} {
		require.InDelta(t, want, Percentile(twenty, p), 0, "%v", p)
	}
	require.InDelta(t, 7, Percentile([]float64{7}, 0.5), 0)
	require.Zero(t, Percentile(nil, 0.5))
}

// At least the share p of the values are no larger than the percentile, and fewer than p are smaller.
func TestPercentile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-10, 10), 1, 300).Draw(t, "values")
		p := float64(rapid.IntRange(1, 100).Draw(t, "p")) / 100
		slices.Sort(values)
		got := Percentile(values, p)
		below, upTo := 0, 0
		for _, v := range values {
			if v < got {
				below++
			}
			if v <= got {
				upTo++
			}
		}
		n := float64(len(values))
		require.GreaterOrEqual(t, float64(upTo), p*n-1e-6)
		require.Less(t, float64(below), p*n)
	})
}

func TestMedian(t *testing.T) {
	values := []float64{9, 1, 4}
	require.InDelta(t, 4, Median(values), 0)
	require.Equal(t, []float64{9, 1, 4}, values, "left as they were")
	require.InDelta(t, 2.5, Median([]float64{4, 1, 9, 1}), 0)
	require.Zero(t, Median(nil))
}

// Runs without spread have an interval without width; a single run has none.
func TestRatioIntervalByHand(t *testing.T) {
	iv, ok := RatioInterval([]float64{4, 4, 4}, []float64{1, 1})
	require.True(t, ok)
	require.Equal(t, Interval{0.25, 0.25}, iv)
	_, ok = RatioInterval([]float64{4}, []float64{1, 1})
	require.False(t, ok)
	_, ok = RatioInterval([]float64{4, 4}, []float64{1})
	require.False(t, ok)

	// Of the 9 × 4 outcomes, 2/(1·…·3)-like extremes have a probability above 2.5 %: the interval is the whole range.
	iv, ok = RatioInterval([]float64{1, 3}, []float64{2, 2})
	require.True(t, ok)
	require.Equal(t, Interval{2.0 / 3, 2}, iv)
}

// The interval holds the true ratio about as often as it says, and always the ratio of the means at hand.
func TestRatioIntervalCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const trials, n, truth = 100, 20, 2.0
	held := 0
	for range trials {
		a, b := make([]float64, n), make([]float64, n)
		for i := range n {
			a[i], b[i] = 10+rng.NormFloat64(), truth*(10+rng.NormFloat64())
		}
		iv, ok := RatioInterval(a, b)
		require.True(t, ok)
		again, _ := RatioInterval(a, b)
		require.Equal(t, iv, again)
		r := mean(b) / mean(a)
		require.True(t, iv.Lo <= r && r <= iv.Hi)
		if iv.Lo <= truth && truth <= iv.Hi {
			held++
		}
	}
	require.GreaterOrEqual(t, held, 87)
	require.Less(t, held, 100)
}
