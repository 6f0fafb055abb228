package listen

import (
	"time"

	"voxtral/audio"
)

// timeline tells the source's time of what the session has heard, which lacks what was dropped. It forgets cuts that lie
// before the latest time asked for: outputs come in order.
type timeline struct {
	start int64 // the source's sample that is the session's first
	cuts  []cut
}

// cut is a place from which on the session's samples are so many behind the source's.
type cut struct{ fed, skipped int64 }

// at notes that the session's sample fed is the source's sample start.
func (t *timeline) at(fed, start int64) {
	skipped := start - fed
	if n := len(t.cuts); n > 0 && t.cuts[n-1].skipped == skipped || n == 0 && skipped == t.start {
		return
	}
	t.cuts = append(t.cuts, cut{fed, skipped})
}

// source turns a time of the session into one of the source. A time at a cut is the end of what came before it.
func (t *timeline) source(heard time.Duration) time.Duration {
	samples := int64(heard) * audio.SampleRate / int64(time.Second)
	skipped, last := t.start, -1
	for i, c := range t.cuts {
		if c.fed < samples {
			skipped, last = c.skipped, i
		}
	}
	if last > 0 {
		t.cuts = t.cuts[last:]
	}
	return heard + duration(skipped)
}
