package decoder

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	testPad  = 32
	testWord = 33
)

// Guesses are tokens that were seen, or pads; the same history gives the same guesses; guessing changes nothing.
func TestDraftProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := rapid.SliceOf(rapid.SampledFrom([]int32{testPad, testPad, testWord, 1000, 1001, 1002})).Draw(t, "history")
		cost := rapid.Float64Range(0, 1).Draw(t, "cost")
		a, b := NewDrafter(testPad, testWord, cost), NewDrafter(testPad, testWord, cost)
		var first, second [8]int32
		for _, token := range history {
			b.Draft(second[:])
			a.Observe(token)
			b.Observe(token)
		}
		n := a.Draft(first[:])
		require.Equal(t, n, b.Draft(second[:]))
		require.Equal(t, first[:n], second[:n])
		for _, token := range first[:n] {
			if token != testPad {
				require.Contains(t, history, token)
			}
		}
		require.Zero(t, a.Draft(nil))
	})
}

// What repeats is learned: silence is guessed to the end, a refrain word by word, and certainty that costs nothing is
// always worth a guess.
func TestDraftLearns(t *testing.T) {
	d := NewDrafter(testPad, testWord, 0.1)
	var run [8]int32
	for range 60 {
		d.Observe(testPad)
	}
	require.Equal(t, 8, d.Draft(run[:]))
	require.Equal(t, [8]int32{testPad, testPad, testPad, testPad, testPad, testPad, testPad, testPad}, run)

	refrain := []int32{testWord, 1000, 1001, testWord, 1002}
	for range 20 {
		for _, token := range refrain {
			d.Observe(token)
		}
	}
	require.Equal(t, 8, d.Draft(run[:]))
	require.Equal(t, refrain, run[:5])
	d.Restart()
	require.Less(t, d.Draft(run[:]), 8, "a new stream does not start inside the refrain")
}

// A guess that never holds is given up.
func TestDraftGivesUp(t *testing.T) {
	d := NewDrafter(testPad, testWord, 0.3)
	for i := range int32(200) {
		d.Observe(testWord)
		d.Observe(1000 + i)
	}
	d.Observe(testWord)
	var run [4]int32
	require.Zero(t, d.Draft(run[:]), "what follows a marker was never the same twice")
}
