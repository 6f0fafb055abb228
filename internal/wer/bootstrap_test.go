package wer

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The interval is that of the normal approximation where this holds: many clips with independent errors.
func TestBootstrapWidth(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const clips, words, p = 400, 20, 0.2
	list := make([]Counts, clips)
	var sum Counts
	for i := range list {
		list[i].Ref = words
		for range words {
			if rng.Float64() < p {
				list[i].Sub++
			}
		}
		sum = sum.Add(list[i])
	}
	got, ok := Bootstrap(list, 1)
	require.True(t, ok)
	half := 1.96 * math.Sqrt(p*(1-p)/(clips*words))
	require.InDelta(t, sum.Rate()-half, got.Low, half/4)
	require.InDelta(t, sum.Rate()+half, got.High, half/4)

	again, _ := Bootstrap(list, 1)
	require.Equal(t, got, again, "one seed, one interval")
	other, _ := Bootstrap(list, 2)
	require.NotEqual(t, got, other)

	// What two systems share cancels: one error more in every clip is a difference without spread.
	worse := make([]Counts, clips)
	for i, c := range list {
		c.Ins++
		worse[i] = c
	}
	d, ok := BootstrapDifference(worse, list, 1)
	require.True(t, ok)
	require.InDelta(t, 1.0/words, d.Low, 1e-12)
	require.InDelta(t, 1.0/words, d.High, 1e-12)

	_, ok = Bootstrap(list[:1], 1)
	require.False(t, ok)
}
