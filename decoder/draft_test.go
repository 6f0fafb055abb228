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

// Guesses are tokens that were seen or hinted at, or pads; none is likelier than the one before it; the same history gives
// the same guesses; guessing changes nothing.
func TestDraftProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SampledFrom([]int32{testPad, testPad, testWord, 1000, 1001, 1002})
		history := rapid.SliceOf(tokens).Draw(t, "history")
		a, b := NewDrafter(testPad, testWord), NewDrafter(testPad, testWord)
		var first, second [8]int32
		var chance, again [8]float64
		seen := append([]int32{testPad}, history...)
		for _, token := range history {
			b.Draft(second[:], again[:])
			a.Observe(token)
			b.Observe(token)
			if rapid.IntRange(0, 3).Draw(t, "rejected") == 0 {
				hints := make([]Hint, rapid.IntRange(1, 7).Draw(t, "hints"))
				for i := range hints {
					hints[i] = Hint{tokens.Draw(t, "before"), tokens.Draw(t, "in"), rapid.Int32Range(2000, 2009).Draw(t, "out")}
					seen = append(seen, hints[i].Out)
				}
				a.Hints(hints)
				b.Hints(hints)
			}
		}
		a.Draft(first[:], chance[:])
		b.Draft(second[:], again[:])
		require.Equal(t, first, second)
		require.Equal(t, chance, again)
		last := 1.0
		for i, token := range first {
			require.Contains(t, seen, token)
			require.Positive(t, chance[i])
			require.LessOrEqual(t, chance[i], last)
			last = chance[i]
		}
	})
}

// What repeats is learned: silence is guessed to the end, a refrain word by word.
func TestDraftLearns(t *testing.T) {
	d := NewDrafter(testPad, testWord)
	var run [8]int32
	var chance [8]float64
	for range 60 {
		d.Observe(testPad)
	}
	d.Draft(run[:], chance[:])
	require.Equal(t, [8]int32{testPad, testPad, testPad, testPad, testPad, testPad, testPad, testPad}, run)
	require.Greater(t, chance[7], 0.5)

	refrain := []int32{testWord, 1000, 1001, testWord, 1002}
	for range 20 {
		for _, token := range refrain {
			d.Observe(token)
		}
	}
	d.Draft(run[:], chance[:])
	require.Equal(t, refrain, run[:5])
	require.Greater(t, chance[4], 0.3)
	d.Restart()
	d.Draft(run[:], chance[:])
	require.Less(t, chance[7], 0.3, "a new stream does not start inside the refrain")
}

// A guess that never holds is given up.
func TestDraftGivesUp(t *testing.T) {
	d := NewDrafter(testPad, testWord)
	for i := range int32(200) {
		d.Observe(testWord)
		d.Observe(1000 + i)
	}
	d.Observe(testWord)
	var run [1]int32
	var chance [1]float64
	d.Draft(run[:], chance[:])
	require.Less(t, chance[0], 0.1, "what follows a marker was never the same twice")
}

// Hints that hold are believed against habit, also a step later; those that never do are not.
func TestDraftBelievesHints(t *testing.T) {
	for _, holds := range []bool{true, false} {
		d := NewDrafter(testPad, testWord)
		var run [3]int32
		var chance [3]float64
		hint := func(i int32) {
			d.Hints([]Hint{{testPad, testPad, 1000 + i}, {testPad, testWord, 2000 + i}})
		}
		for i := range int32(100) {
			hint(i)
			if holds {
				d.Observe(1000 + i)
				d.Observe(2000 + i)
			} else {
				d.Observe(testPad)
				d.Observe(testPad)
			}
		}
		hint(100)
		d.Draft(run[:], chance[:])
		if holds {
			require.Equal(t, []int32{1100, 2100}, run[:2])
			require.Greater(t, chance[1], 0.9)
			d.Observe(1100)
			d.Draft(run[:], chance[:])
			require.Equal(t, int32(2100), run[0])
		} else {
			require.Equal(t, []int32{testPad, testPad}, run[:2])
		}
	}
}
