package listen

import "slices"

// A pause is a second in which nobody speaks: long enough to be no gap inside a word, and much of it is left before what
// follows.
const pauseFrames = 50

const (
	historyFrames = 500 // 10 s of levels tell how loud silence is here
	reviewFrames  = 25  // how often the threshold follows them
)

// pauses finds pauses from the samples alone: where they are does not depend on how the audio is cut into pieces.
type pauses struct {
	energy    float64 // of the frame so far
	samples   int     // of the frame so far
	levels    [historyFrames]float64
	frames    int     // so far
	threshold float64 // up to here a frame is silence
	floor     float64 // beyond, it stands out, however loud the room is
	silent    int     // frames in a row
	loud      int     // frames in all that stood out
}

// scan takes samples up to the first frame at whose end due says so; it returns how many it has taken.
func (p *pauses) scan(pcm []float32, due func(taken int, pause bool) bool) (taken int, found bool) {
	for taken < len(pcm) {
		n := min(frameSamples-p.samples, len(pcm)-taken)
		for _, x := range pcm[taken : taken+n] {
			p.energy += float64(x) * float64(x)
		}
		taken += n
		if p.samples += n; p.samples < frameSamples {
			break
		}
		p.frame(p.energy / frameSamples)
		p.energy, p.samples = 0, 0
		if due(taken, p.silent >= pauseFrames) {
			return taken, true
		}
	}
	return taken, false
}

func (p *pauses) frame(level float64) {
	p.levels[p.frames%historyFrames] = level
	p.frames++
	if p.frames%reviewFrames == 0 {
		p.floor = floorOf(p.levels[:min(p.frames, historyFrames)])
		p.threshold = min(p.floor, silenceAtMost)
	}
	p.silent++
	if level > p.threshold {
		p.silent = 0
	}
	if level > p.floor {
		p.loud++
	}
}

// silenceAtMost is a mean square that is no silence even if nothing is quieter: -40 dBFS, a quiet voice.
const silenceAtMost = 1e-4

// floorOf is the mean square up to which a frame does not stand out: 6 dB above the quietest tenth. Digital silence has no
// level to compare with: that is -70 dBFS.
func floorOf(levels []float64) float64 {
	const above, least = 4, 1e-7
	sorted := slices.Sorted(slices.Values(levels))
	return max(least, above*sorted[len(sorted)/10])
}
