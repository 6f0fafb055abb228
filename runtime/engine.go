// Package runtime is the public API: an Engine holds a model on a device, a Session transcribes one stream of audio.
//
// An Engine is immutable and shared; any number of sessions may run on it. A Session belongs to one goroutine. There is
// one path for files and live audio: feed samples in pieces of any size, take the events, finish. How the audio was cut
// into pieces never changes a token or a time.
package runtime

import (
	"fmt"
	"sync"

	"voxtral/decoder"
	"voxtral/encoder"
	"voxtral/internal/device"
	"voxtral/models"
)

// Engine is a model's weights on one device.
type Engine struct {
	dev   device.Device
	model *models.Model
	enc   *encoder.Weights
	dec   *decoder.Weights
	// halfKV keeps keys and values in F16: beside quantised weights only, whose error is far larger.
	halfKV bool
	pace   *decoder.Pace // of decoder steps by runRows

	mu  sync.Mutex
	ada map[int][]float32 // by delay in ticks: F32 [Layers, Dim]
}

// Open puts the weights of m on dev. Both stay the caller's to close, after the engine and its sessions.
func Open(m *models.Model, dev device.Device) (*Engine, error) {
	enc, err := encoder.Load(dev, m)
	if err != nil {
		return nil, fmt.Errorf("runtime: %s: %w", m.Name, err)
	}
	dec, err := decoder.Load(dev, m)
	if err != nil {
		enc.Free()
		return nil, fmt.Errorf("runtime: %s: %w", m.Name, err)
	}
	wq, err := m.Matrix(models.DecoderLayer(0, models.WQ))
	if err != nil {
		return nil, fmt.Errorf("runtime: %s: %w", m.Name, err)
	}
	return &Engine{dev: dev, model: m, enc: enc, dec: dec, halfKV: wq.Format.Grouped(), pace: decoder.NewPace(runRows[:]), ada: map[int][]float32{}}, nil
}

// Model is the model that the engine runs.
func (e *Engine) Model() *models.Model { return e.model }

// Close frees the engine's own memory on the device. All sessions must have been closed.
func (e *Engine) Close() error {
	e.enc.Free()
	e.dec.Free()
	return nil
}

// adaScales returns the decoder's factors for a delay, computed once.
func (e *Engine) adaScales(delay int) ([]float32, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ada, ok := e.ada[delay]; ok {
		return ada, nil
	}
	ada, err := decoder.AdaScales(e.model, delay)
	if err == nil {
		e.ada[delay] = ada
	}
	return ada, err
}
