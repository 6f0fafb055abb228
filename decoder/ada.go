package decoder

import (
	"fmt"
	"math"

	"voxtral/internal/device"
	"voxtral/models"
)

// AdaScales computes the delay's factors, F32 [Layers, Dim] (7.1): ada_l = B_l · GELU(A_l · t), where t is the sinusoidal
// embedding of the delay in ticks. They depend on nothing else, so a stream computes them once.
func AdaScales(m *models.Model, delay int) ([]float32, error) {
	cfg := m.Config.Decoder
	t := timeEmbedding(cfg.Dim, float64(delay))
	out := make([]float32, 0, cfg.Layers*cfg.Dim)
	for i := range cfg.Layers {
		mid, err := apply(m, models.DecoderLayer(i, models.Ada0), t)
		if err != nil {
			return nil, fmt.Errorf("decoder: %w", err)
		}
		for j, v := range mid {
			mid[j] = 0.5 * v * math.Erfc(-v/math.Sqrt2)
		}
		ada, err := apply(m, models.DecoderLayer(i, models.Ada2), mid)
		if err != nil {
			return nil, fmt.Errorf("decoder: %w", err)
		}
		for _, v := range ada {
			out = append(out, float32(v))
		}
	}
	return out, nil
}

// timeEmbedding is cos(t·f_i) for the first half, sin(t·f_i) for the second, f_i = 10000^(−i / (dim/2)).
func timeEmbedding(dim int, t float64) []float64 {
	half := dim / 2
	e := make([]float64, dim)
	for i := range half {
		s, c := math.Sincos(t * math.Pow(10000, -float64(i)/float64(half)))
		e[i], e[half+i] = c, s
	}
	return e
}

// apply multiplies a stored matrix with a vector, in float64.
func apply(m *models.Model, name string, x []float64) ([]float64, error) {
	part, err := m.Matrix(name)
	if err != nil {
		return nil, err
	}
	if part.Cols != len(x) {
		return nil, fmt.Errorf("tensor %q has %d columns, want %d", name, part.Cols, len(x))
	}
	y := make([]float64, part.Rows)
	row := make([]float32, part.Cols)
	for r := range y {
		part.Dequantize(row, r)
		for i, w := range row {
			y[r] += float64(w) * x[i]
		}
	}
	return y, nil
}

// SetAda writes a stream's factors, F32 [Layers, Dim] as AdaScales gives them, into its slot.
func (st *State) SetAda(dev device.Device, slot int, ada []float32) error {
	dim := len(ada) / len(st.k)
	for l := range st.k {
		at := 4 * (l*st.slots + slot) * dim
		if err := dev.Write(st.ada, at, device.F32Bytes(ada[l*dim:(l+1)*dim])); err != nil {
			return fmt.Errorf("decoder: delay factors: %w", err)
		}
	}
	return nil
}
