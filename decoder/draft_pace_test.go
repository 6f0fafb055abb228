package decoder

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var testRows = []int{1, 2, 3, 4, 6, 8}

// machine runs a thousand steps whose guesses come true with a fixed chance and returns the lengths that were run.
func machine(p *Pace, each float64, cost func(rows int) time.Duration) []int {
	chance := make([]float64, 7)
	all := 1.0
	for i := range chance {
		all *= each
		chance[i] = all
	}
	var lengths []int
	owed := 0.0 // outputs not given yet, so that they come out even
	for range 1000 {
		i := p.Best(chance)
		owed++
		for _, c := range chance[:testRows[i]-1] {
			owed += c
		}
		p.Ran(i, int(owed), cost(testRows[i]))
		owed -= float64(int(owed))
		lengths = append(lengths, testRows[i])
	}
	return lengths
}

// speed is the outputs of steps of these lengths over the time that they take.
func speed(lengths []int, each float64, cost func(rows int) time.Duration) float64 {
	outputs, seconds := 0.0, 0.0
	for _, n := range lengths {
		for i := range n {
			outputs += math.Pow(each, float64(i))
		}
		seconds += cost(n).Seconds()
	}
	return outputs / seconds
}

// Steps bring as many outputs a second as the best length would, or nearly, whether a position more costs nothing or a whole
// step, and also when the machine changes.
func TestPaceFindsTheBestLength(t *testing.T) {
	for _, c := range []struct {
		name        string
		first, more time.Duration
		each        float64
	}{
		{"memory", 100 * time.Millisecond, time.Millisecond, 0.8},
		{"arithmetic", time.Millisecond, time.Millisecond, 0.6},
		{"certainty", time.Millisecond, 700 * time.Microsecond, 1},
		{"cache", 210 * time.Microsecond, 60 * time.Microsecond, 0.7},
		{"nothing to guess", 100 * time.Millisecond, 20 * time.Millisecond, 0.01},
	} {
		p := NewPace(testRows)
		for _, cost := range []func(int) time.Duration{
			func(rows int) time.Duration { return c.first + time.Duration(rows-1)*c.more },
			func(int) time.Duration { return c.first },
			func(rows int) time.Duration { return time.Duration(rows) * c.first },
		} {
			best := 0.0
			for _, n := range testRows {
				best = max(best, speed([]int{n}, c.each, cost))
			}
			for range 5 {
				machine(p, c.each, cost)
			}
			require.Greater(t, speed(machine(p, c.each, cost), c.each, cost), 0.9*best, c.name)
		}
	}
}

// A length is never longer than the guesses at hand, and no history breaks that.
func TestPaceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewPace(testRows)
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			chance := rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 7).Draw(t, "chance")
			i := p.Best(chance)
			require.LessOrEqual(t, testRows[i], len(chance)+1)
			p.Ran(i, rapid.IntRange(1, testRows[i]).Draw(t, "kept"), time.Duration(rapid.IntRange(0, 1e9).Draw(t, "took")))
		}
	})
}
