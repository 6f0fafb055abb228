package encoder

import (
	"fmt"

	"voxtral/internal/device"
)

// State is what the encoder remembers of its streams: convolution tails, key and value rings, and the ring of adapter
// vectors that the decoder reads. A stream that restarts at position 0 needs no clearing.
type State struct {
	slots    int
	tails    [2]device.Buffer // F32 [slots, 2, MelBins] and [slots, 1, Dim]
	k, v     []device.Buffer  // per layer [slots, cap, KVHeads·HeadDim], F32 or F16
	half     bool             // F16
	ringCap  int              // rows of a key or value ring
	Audio    device.Buffer    // F32 [slots, AudioCap, decoder Dim]
	AudioCap int              // ticks kept
	bufs     []device.Buffer
}

// NewState allocates the memory of slots streams that advance by at most maxTicks at a time and keep at least audioTicks
// adapter vectors. half keeps keys and values in F16.
func NewState(dev device.Device, w *Weights, slots, maxTicks, audioTicks int, half bool) (*State, error) {
	st := &State{slots: slots, AudioCap: audioTicks, half: half}
	st.ringCap = roundUp(w.spec().RingCap(maxTicks*TickRows), 64)
	alloc := func(what string, bytes int) (buf device.Buffer, err error) {
		if buf, err = dev.Alloc(bytes, device.State); err != nil {
			st.Free()
			return nil, fmt.Errorf("encoder: %s: %w", what, err)
		}
		st.bufs = append(st.bufs, buf)
		return buf, nil
	}
	var err error
	for i, elems := range []int{2 * w.cfg.MelBins, w.cfg.Dim} {
		if st.tails[i], err = alloc("convolution tail", 4*slots*elems); err != nil {
			return nil, err
		}
	}
	for range w.layers {
		var kv [2]device.Buffer
		for i := range kv {
			if kv[i], err = alloc("KV ring", device.RingBytes(slots, st.ringCap, w.spec().KVDim(), half)); err != nil {
				return nil, err
			}
		}
		st.k, st.v = append(st.k, kv[0]), append(st.v, kv[1])
	}
	st.Audio, err = alloc("audio ring", device.RingBytes(slots, st.AudioCap, w.out(), false))
	if err != nil {
		return nil, err
	}
	return st, nil
}

// Free returns the memory.
func (st *State) Free() {
	for _, b := range st.bufs {
		b.Free()
	}
	st.bufs = nil
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
