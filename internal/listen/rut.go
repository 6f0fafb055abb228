package listen

// rut notices a model that has stopped writing although there is sound: after long streams some models give nothing but
// pads from then on. Healthy runs of pads over speech stay below 165 outputs. Where the sound is no speech a restart does
// no harm but costs work, so each one that brings no text doubles the patience.
type rut struct {
	outputs int // without text, in a row
	loud    int // frames with sound when the run began
	wait    int // outputs without text that are too many
}

const (
	rutOutputs     = 250                        // 20 s
	framesPerTick  = tickSamples / frameSamples // of 20 ms
	longestRutWait = 64 * rutOutputs            // 21 min
)

// hear takes an output; loud is the number of frames with sound so far.
func (r *rut) hear(text bool, loud int) {
	if text {
		*r = rut{loud: loud}
		return
	}
	r.outputs++
}

// stuck says whether the session should start afresh: for long no text, over sound in at least half of that time.
func (r *rut) stuck(loud int) bool {
	wait := max(r.wait, rutOutputs)
	if r.outputs < wait {
		return false
	}
	found := loud-r.loud >= r.outputs*framesPerTick/2
	if found {
		r.wait = min(2*wait, longestRutWait)
	}
	r.outputs, r.loud = 0, loud
	return found
}
