package bench

import "voxtral/models"

// What the model costs, counted from its tensors.

// StepBytes is how many bytes of weights one decoder step reads, however many positions it runs: the matrices of every
// layer and the LM head, with their scales. Norms, which are a ten-thousandth of that, the delay conditioning, which is
// computed once, the one row of the embeddings that a token looks up, and keys and values are not counted.
func StepBytes(m *models.Model) int64 {
	counts := map[string]bool{models.TokEmbeddings: true}
	for i := range m.Config.Decoder.Layers {
		for _, name := range []string{models.WQ, models.WK, models.WV, models.WO, models.W1, models.W2, models.W3} {
			counts[models.DecoderLayer(i, name)] = true
		}
	}
	bytes := int64(0)
	for _, t := range m.Tensors() {
		if counts[t.Name] {
			bytes += t.Bytes
		}
	}
	return bytes
}

// ChunkOps is how many multiplications and additions the matrix products of the encoder and the adapter take for ticks
// of 80 ms: 2 × elements of the matrix × rows, where a tick has 8 rows in the first convolution, 4 in the second and in
// the layers, and 1 in the adapter. Attention, norms and activations are not counted.
func ChunkOps(m *models.Model, ticks int) int64 {
	const frames = 8
	e := m.Config.Encoder
	rows := map[string]int{models.Conv0: frames, models.Conv1: e.Downsample, models.Adapter0: 1, models.Adapter2: 1}
	for i := range e.Layers {
		for _, name := range []string{models.WQ, models.WK, models.WV, models.WO, models.W1, models.W2, models.W3} {
			rows[models.EncoderLayer(i, name)] = e.Downsample
		}
	}
	ops := int64(0)
	for _, t := range m.Tensors() {
		n := int64(2 * ticks * rows[t.Name])
		for _, size := range t.Shape {
			n *= int64(size)
		}
		ops += n
	}
	return ops
}

// WeightBytes is the size of all weights.
func WeightBytes(m *models.Model) int64 {
	bytes := int64(0)
	for _, t := range m.Tensors() {
		bytes += t.Bytes
	}
	return bytes
}
