// Package decoder is the text decoder: prompt schedule, delay conditioning, and the model itself as a Program that runs
// a prompt in one go or one position at a time. Numbers in parentheses refer to MODEL.md.
package decoder

import (
	"fmt"

	"voxtral/internal/device"
	"voxtral/internal/weights"
	"voxtral/models"
	"voxtral/sdpa"
)

// Weights are the decoder's tensors on a device.
type Weights struct {
	cfg    models.DecoderConfig
	embed  device.Weight // [Vocab, Dim], also the LM head
	layers []layer
	norm   device.Vector // [Dim]
	loader *weights.Loader
}

type layer struct {
	attnNorm device.Vector // [Dim]
	qkv      device.Weight // [(Heads + 2·KVHeads)·HeadDim, Dim]
	wo       device.Weight // [Dim, Heads·HeadDim]
	ffnNorm  device.Vector // [Dim]
	gateUp   device.Weight // two parts [Hidden, Dim]
	down     device.Weight // [Dim, Hidden]
}

// Load packs the decoder of m onto dev.
func Load(dev device.Device, m *models.Model) (*Weights, error) {
	l := weights.NewLoader(dev, m)
	w := &Weights{cfg: m.Config.Decoder, loader: l, embed: l.Matrix(models.TokEmbeddings), norm: l.Vector(models.DecoderNorm)}
	for i := range w.cfg.Layers {
		name := func(tensor string) string { return models.DecoderLayer(i, tensor) }
		w.layers = append(w.layers, layer{
			attnNorm: l.Vector(name(models.AttentionNorm)),
			qkv:      l.Matrix(name(models.WQ), name(models.WK), name(models.WV)),
			wo:       l.Matrix(name(models.WO)),
			ffnNorm:  l.Vector(name(models.FFNNorm)),
			gateUp:   l.Matrix(name(models.W1), name(models.W3)),
			down:     l.Matrix(name(models.W2)),
		})
	}
	if err := l.Err(); err != nil {
		l.Free()
		return nil, fmt.Errorf("decoder: %w", err)
	}
	return w, nil
}

// Free returns the device memory of the small tensors.
func (w *Weights) Free() { w.loader.Free() }

func (w *Weights) spec() sdpa.Spec {
	return sdpa.Spec{QHeads: w.cfg.Heads, KVHeads: w.cfg.KVHeads, HeadDim: w.cfg.HeadDim, Window: w.cfg.Window}
}

// State is what the decoder remembers of its streams: key and value rings, and the delay factors. A stream that restarts
// at position 0 needs no clearing.
type State struct {
	slots   int
	k, v    []device.Buffer // per layer [slots, cap, KVHeads·HeadDim], F32 or F16
	half    bool            // F16
	ringCap int             // rows of a ring
	ada     device.Buffer   // F32 [layers, slots, Dim]
	bufs    []device.Buffer
}

// NewState allocates the memory of slots streams that run at most maxRows positions in one step.
// half keeps keys and values in F16.
func NewState(dev device.Device, w *Weights, slots, maxRows int, half bool) (*State, error) {
	st := &State{slots: slots, half: half}
	st.ringCap = (w.spec().RingCap(maxRows) + 63) / 64 * 64
	alloc := func(bytes int) (device.Buffer, error) {
		buf, err := dev.Alloc(bytes, device.State)
		if err != nil {
			st.Free()
			return nil, fmt.Errorf("decoder: KV ring: %w", err)
		}
		st.bufs = append(st.bufs, buf)
		return buf, nil
	}
	for range w.layers {
		var kv [2]device.Buffer
		for i := range kv {
			var err error
			if kv[i], err = alloc(device.RingBytes(slots, st.ringCap, w.spec().KVDim(), half)); err != nil {
				return nil, err
			}
		}
		st.k, st.v = append(st.k, kv[0]), append(st.v, kv[1])
	}
	var err error
	st.ada, err = alloc(4 * len(w.layers) * slots * w.cfg.Dim)
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
