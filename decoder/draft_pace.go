package decoder

import (
	"sync"
	"time"
)

// A Pace knows how long steps of each length take, from those that were run, and from that how many guesses are worth
// verifying. What one more position costs depends on the machine: next to nothing where reading the weights dominates, a
// third of a step where they lie in a cache. It is safe for concurrent use; streams of one engine share it.
type Pace struct {
	rows []int // step lengths in positions, ascending, from 1 on

	mu    sync.Mutex
	took  []float64 // seconds of a step of each length; 0: never run
	faith []float64 // share of that which counts, from 1 right after a run down to 0
	kept  float64   // outputs of late
	busy  float64   // seconds that they took
}

const (
	optimism    = 0.04      // cost of one more position while nothing is known about it, in steps of one
	slower      = 1.0 / 8   // weight of a step that took longer than usual: something else may have held it up
	faster      = 1.0 / 2   // weight of one that did not
	outlier     = 4.0       // a step that the system put aside counts as this many times the usual
	forgetting  = 1.0 / 512 // by which lengths that are not run come to look cheaper, so that they are tried again
	paceHistory = 1.0 / 64  // weight of the newest step in the rate of outputs
)

// NewPace returns a pace for steps of these lengths, ascending, the first of which is 1.
func NewPace(rows []int) *Pace {
	return &Pace{rows: rows, took: make([]float64, len(rows)), faith: make([]float64, len(rows))}
}

// Best is the index of the length to run, for guesses of which chance[i] says how likely the i-th is to be reached and right.
// Every second of a step must bring as many outputs as a second does on average.
func (p *Pace) Best(chance []float64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	best, most, worth, sum := 0, 0.0, p.worth(), 0.0
	for i, n := range p.rows {
		if n > len(chance)+1 {
			break
		}
		for j := max(p.rows[max(i-1, 0)], 1) - 1; j < n-1; j++ {
			sum += chance[j]
		}
		if gain := sum - worth*(p.cost(i)-p.cost(0)); gain > most {
			best, most = i, gain
		}
	}
	return best
}

// worth is how many outputs a second is worth.
func (p *Pace) worth() float64 {
	if p.busy == 0 {
		return 1 / p.cost(0)
	}
	return p.kept / p.busy
}

// cost of a step of p.rows[i] positions, in seconds. Between lengths that were run it goes in a straight line; beyond them it
// is as good as it may be, so that it is tried.
func (p *Pace) cost(i int) float64 {
	known := func(j int) float64 { return p.took[j] * p.faith[j] }
	below, above := i, i
	for below >= 0 && p.took[below] == 0 {
		below--
	}
	for above < len(p.took) && p.took[above] == 0 {
		above++
	}
	switch {
	case below == i:
		return known(i)
	case below < 0 && above == len(p.took):
		return 1 + optimism*float64(p.rows[i]-1)
	case below < 0:
		return known(above) * float64(p.rows[i]) / float64(p.rows[above])
	case above == len(p.took):
		return known(below) * (1 + optimism*float64(p.rows[i]-1)) / (1 + optimism*float64(p.rows[below]-1))
	}
	share := float64(p.rows[i]-p.rows[below]) / float64(p.rows[above]-p.rows[below])
	return known(below) + share*(known(above)-known(below))
}

// Ran learns from a step of p.rows[i] positions that gave kept outputs.
func (p *Pace) Ran(i, kept int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := took.Seconds()
	switch was := p.took[i]; {
	case was == 0:
		p.took[i] = t
	case t < was:
		p.took[i] += faster * (t - was)
	default:
		t = min(t, outlier*was)
		p.took[i] += slower * (t - was)
	}
	for j := range p.faith {
		p.faith[j] *= 1 - forgetting
	}
	p.faith[i] = 1
	p.kept += float64(kept) - paceHistory*p.kept
	p.busy += t - paceHistory*p.busy
}
