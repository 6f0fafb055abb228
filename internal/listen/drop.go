package listen

import (
	"slices"
	"time"
)

// Drop is audio that the model does not hear, in the source's time.
type Drop struct {
	Start, End time.Duration
	Silence    bool // nobody spoke there
}

// Losses add up what was dropped.
type Losses struct{ Silence, Sound time.Duration }

// Add counts one drop.
func (l *Losses) Add(d Drop) {
	if d.Silence {
		l.Silence += d.End - d.Start
	} else {
		l.Sound += d.End - d.Start
	}
}

// Silence that is dropped leaves some around it: speech may have begun softly, or be about to.
const (
	keepAfter  = 10 // frames after speech
	keepBefore = 20 // frames before speech
)

// shrink drops audio until a quarter of the limit is free: silence, the oldest first, and when there is not enough of it
// the oldest of all.
func (b *backlog) shrink() {
	excess := b.samples - b.limit*3/4
	gone := make([]bool, len(b.frames))
	silent := quiet(b.frames)
	for i := 0; i < len(silent) && excess > 0; {
		run := i
		for run < len(silent) && silent[run] {
			run++
		}
		for j := i + keepAfter; j < run-keepBefore && excess > 0; j++ {
			gone[j] = true
			excess -= len(b.frames[j].pcm)
		}
		i = max(run, i+1)
	}
	silence := slices.Clone(gone)
	if b.limit/4 < excess { // still above the limit
		for i := 0; i < len(gone) && excess > 0; i++ {
			if !gone[i] {
				gone[i] = true
				excess -= len(b.frames[i].pcm)
			}
		}
	}
	var kept []frame
	for i, f := range b.frames {
		if !gone[i] {
			kept = append(kept, f)
			continue
		}
		b.samples -= len(f.pcm)
		d := Drop{Start: duration(f.start), End: duration(f.start + int64(len(f.pcm))), Silence: silence[i]}
		if n := len(b.drops); n > 0 && b.drops[n-1].End == d.Start && b.drops[n-1].Silence == d.Silence {
			b.drops[n-1].End = d.End
		} else {
			b.drops = append(b.drops, d)
		}
	}
	b.frames = kept
}

// quiet says which frames are silence.
func quiet(frames []frame) []bool {
	levels := make([]float64, len(frames))
	for i, f := range frames {
		for _, x := range f.pcm {
			levels[i] += float64(x) * float64(x) / float64(len(f.pcm))
		}
	}
	threshold := min(floorOf(levels), silenceAtMost)
	silent := make([]bool, len(frames))
	for i, level := range levels {
		silent[i] = level <= threshold
	}
	return silent
}
