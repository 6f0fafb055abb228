// Package encoder is the causal audio encoder and the adapter: log-mel frames in, one decoder-sized vector per 80 ms
// tick out. Numbers in parentheses refer to MODEL.md.
package encoder

import (
	"fmt"

	"voxtral/internal/device"
	"voxtral/internal/weights"
	"voxtral/models"
	"voxtral/sdpa"
)

// Geometry of a tick of 80 ms. The engine only ever advances in whole ticks.
const (
	TickSamples = 1280 // 16 kHz samples
	TickFrames  = 8    // mel frames, hop 160
	TickRows    = 4    // encoder rows, after the second convolution's stride of 2
)

// Weights are the encoder's and adapter's tensors on a device.
type Weights struct {
	cfg    models.EncoderConfig
	conv   [2]weights.Linear // [Dim, MelBins·3] and [Dim, Dim·3]
	layers []layer
	norm   device.Vector // [Dim]
	proj   [2]device.Weight
	loader *weights.Loader
}

type layer struct {
	attnNorm device.Vector  // [Dim]
	qkv      weights.Linear // [3·Heads·HeadDim, Dim], biases on q and v
	wo       weights.Linear // [Dim, Heads·HeadDim]
	ffnNorm  device.Vector  // [Dim]
	gateUp   device.Weight  // two parts [Hidden, Dim]
	down     weights.Linear // [Dim, Hidden]
}

// Load packs the encoder of m onto dev.
func Load(dev device.Device, m *models.Model) (*Weights, error) {
	l := weights.NewLoader(dev, m)
	w := &Weights{cfg: m.Config.Encoder, loader: l}
	w.conv = [2]weights.Linear{l.Linear(models.Conv0, models.Conv0Bias), l.Linear(models.Conv1, models.Conv1Bias)}
	for i := range w.cfg.Layers {
		name := func(tensor string) string { return models.EncoderLayer(i, tensor) }
		w.layers = append(w.layers, layer{
			attnNorm: l.Vector(name(models.AttentionNorm)),
			qkv: l.QKV(name(models.WQ), name(models.WK), name(models.WV),
				name(models.WQBias), name(models.WVBias)),
			wo:      l.Linear(name(models.WO), name(models.WOBias)),
			ffnNorm: l.Vector(name(models.FFNNorm)),
			gateUp:  l.Matrix(name(models.W1), name(models.W3)),
			down:    l.Linear(name(models.W2), name(models.W2Bias)),
		})
	}
	w.norm = l.Vector(models.EncoderNorm)
	w.proj = [2]device.Weight{l.Matrix(models.Adapter0), l.Matrix(models.Adapter2)}
	if err := l.Err(); err != nil {
		l.Free()
		return nil, fmt.Errorf("encoder: %w", err)
	}
	return w, nil
}

// Free returns the device memory of the small tensors.
func (w *Weights) Free() { w.loader.Free() }

func (w *Weights) spec() sdpa.Spec {
	return sdpa.Spec{QHeads: w.cfg.Heads, KVHeads: w.cfg.KVHeads, HeadDim: w.cfg.HeadDim, Window: w.cfg.Window}
}

// out is the width of the adapter's vectors, the decoder's Dim.
func (w *Weights) out() int { return w.proj[1].Rows() }
