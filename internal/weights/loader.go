// Package weights carries the tensors of an open model onto a device. The encoder and the decoder both load through it.
package weights

import (
	"voxtral/internal/device"
	"voxtral/models"
)

// Linear is a packed matrix with its optional bias.
type Linear struct {
	W    device.Weight
	Bias device.Vector // zero if the layer has none
}

// Loader loads tensors and remembers the first error, so that a model reads as a list of its tensors.
type Loader struct {
	dev   device.Device
	model *models.Model
	bufs  []device.Buffer
	err   error
}

// NewLoader loads from m onto dev.
func NewLoader(dev device.Device, m *models.Model) *Loader { return &Loader{dev: dev, model: m} }

// Err is the first error met.
func (l *Loader) Err() error { return l.err }

// Free returns the memory of all vectors loaded so far. Packed weights live until the device closes.
func (l *Loader) Free() {
	for _, b := range l.bufs {
		b.Free()
	}
	l.bufs = nil
}

// Matrix packs the named matrices, stacked by rows.
func (l *Loader) Matrix(names ...string) device.Weight {
	if l.err != nil {
		return nil
	}
	desc := device.WeightDesc{Name: names[0]}
	for _, name := range names {
		part, err := l.model.Matrix(name)
		if err != nil {
			l.err = err
			return nil
		}
		desc.Parts = append(desc.Parts, part)
	}
	w, err := l.dev.Pack(desc)
	l.err = err
	return w
}

// Vector uploads the named vector.
func (l *Loader) Vector(name string) device.Vector {
	return l.upload(name, l.host(name))
}

// Linear packs one matrix with its bias.
func (l *Loader) Linear(name, bias string) Linear {
	return Linear{W: l.Matrix(name), Bias: l.Vector(bias)}
}

// QKV packs q, k and v as one matrix. The biases of q and v are laid out with zeros for k between them; empty names
// leave the bias out.
func (l *Loader) QKV(q, k, v, qBias, vBias string) Linear {
	out := Linear{W: l.Matrix(q, k, v)}
	if l.err != nil || qBias == "" {
		return out
	}
	bq, bv := l.host(qBias), l.host(vBias)
	if l.err != nil {
		return out
	}
	bias := make([]float32, out.W.Rows())
	copy(bias, bq)
	copy(bias[len(bias)-len(bv):], bv)
	out.Bias = l.upload(qBias, bias)
	return out
}

func (l *Loader) host(name string) []float32 {
	if l.err != nil {
		return nil
	}
	v, err := l.model.Vector(name)
	l.err = err
	return v
}

func (l *Loader) upload(name string, v []float32) device.Vector {
	if l.err != nil {
		return device.Vector{}
	}
	vec, err := device.NewVector(l.dev, name, v)
	if err != nil {
		l.err = err
		return device.Vector{}
	}
	l.bufs = append(l.bufs, vec.Buf)
	return vec
}
