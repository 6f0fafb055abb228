package amdisa

import "slices"

const (
	// togetherTurn is short, so that waves of different workgroups come between each other at many places.
	togetherTurn = 1 << 8
	// deadlockRounds is how many rounds of all workgroups may pass in which every wave does nothing but sleep.
	deadlockRounds = 1 << 16
)

// LaunchTogether is Launch with all workgroups resident, so that they may wait for each other. They take turns in one
// goroutine, in an order that follows from the kernel alone: atomics and what they publish mean what they say, and every
// run is the same. Waves that all wait for what none of them does, with s_sleep in their loops, are a fault.
func (m *Machine) LaunchTogether(p *Program, kernel string, grid, block [3]int, dynamicLDS int, kernarg []byte) (Stats, error) {
	return m.launch(p, kernel, grid, block, dynamicLDS, kernarg, (*dispatch).runTogether)
}

// runTogether gives the workgroups their rounds, each time beginning with another one.
func (d *dispatch) runTogether() error {
	groups := make([]*group, d.groups())
	for n := range groups {
		groups[n] = newGroup(d)
		groups[n].turn = togetherTurn
		groups[n].start(n)
		defer groups[n].countHits()
	}
	idle := 0
	for first := 0; ; first++ {
		left, sleeping := 0, 0
		var stuck *group
		for i := range groups {
			g := groups[(first+i)%len(groups)]
			switch what, err := g.round(); {
			case err != nil:
				return err
			case what == allAsleep:
				stuck = g
				sleeping++
				left++
			case what == goingOn:
				left++
			}
		}
		switch {
		case left == 0:
			return nil
		case sleeping < left:
			idle = 0
		case idle == deadlockRounds:
			w := stuck.waves[slices.IndexFunc(stuck.waves, func(w *wave) bool { return w.state == asleep })]
			return stuck.fault(w, trap{-1, "deadlock: every wave that has not ended sleeps or waits at a barrier"})
		default:
			idle++
		}
	}
}
