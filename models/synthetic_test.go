package models

import (
	"context"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/internal/device"
)

var syntheticFormats = []device.Format{device.BF16, device.Int8, device.Int4}

// A synthetic model opens as any packed model does: every checksum holds, nothing is missing, formats are those that
// Quantize would choose.
func TestSynthetic(t *testing.T) {
	for _, size := range []string{"tiny", "demo"} {
		for _, f := range syntheticFormats {
			path := filepath.Join(t.TempDir(), "m.voxtral")
			require.NoError(t, Synthetic(t.Context(), path, size, SyntheticOptions{Format: f}))
			m := open(t, path)
			require.Equal(t, "synthetic-"+size, m.Name)
			require.Equal(t, syntheticConfigs[size], m.Config)
			require.Equal(t, [2]device.Format{f, defaultHead(f)}, [2]device.Format{m.Meta.Format, m.Meta.Head})
			q := quantizer{opt: QuantizeOptions{Format: f, Head: defaultHead(f)}}
			for _, info := range m.Tensors() {
				format, group := q.target(info.Name, info.Shape)
				require.Equal(t, format, info.Format, info.Name)
				require.Equal(t, group, info.Group, info.Name)
				_, err := m.lookup(info.Name)
				require.NoError(t, err, "checksum")
			}
			require.Equal(t, " ", string(m.Tokenizer.Bytes(1000+' ')))
			words := map[string]bool{}
			for id := 1000; id < m.Tokenizer.VocabSize; id++ {
				words[string(m.Tokenizer.Bytes(id))] = true
			}
			require.Len(t, words, m.Tokenizer.VocabSize-1000, "no token twice")
		}
	}
}

// Weights have mean zero and turn inputs of size one into outputs of size one; norms are one, biases small.
func TestSyntheticValues(t *testing.T) {
	for _, f := range syntheticFormats {
		path := filepath.Join(t.TempDir(), "m.voxtral")
		require.NoError(t, Synthetic(t.Context(), path, "demo", SyntheticOptions{Format: f}))
		m := open(t, path)
		for _, name := range []string{TokEmbeddings, Conv1, EncoderLayer(3, W2), DecoderLayer(1, WQ), DecoderLayer(0, Ada2)} {
			p, err := m.Matrix(name)
			require.NoError(t, err)
			row, n, sum, squares := make([]float32, p.Cols), 0.0, 0.0, 0.0
			for r := range p.Rows {
				p.Dequantize(row, r)
				for _, v := range row {
					n++
					sum += float64(v)
					squares += float64(v) * float64(v)
				}
			}
			require.InDelta(t, 1, math.Sqrt(squares/n*float64(p.Cols)), 0.1, "%s %s", f, name)
			require.Less(t, math.Abs(sum/n), 0.2*math.Sqrt(squares/n), "%s %s", f, name)
		}
		norm, err := m.Vector(DecoderLayer(2, FFNNorm))
		require.NoError(t, err)
		bias, err := m.Vector(EncoderLayer(2, WVBias))
		require.NoError(t, err)
		for i := range norm {
			require.InDelta(t, 1, norm[i], 0)
		}
		for i := range bias {
			require.Less(t, math.Abs(float64(bias[i])), 0.1)
		}
		require.NotEqual(t, bias[0], bias[1])
	}
}

// The same weights come out on every machine, whatever its number of cores; two tensors are never the same.
func TestSyntheticIsDeterministic(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	opt := SyntheticOptions{Format: device.Int4}
	require.NoError(t, Synthetic(t.Context(), a, "demo", opt))
	cores := goruntime.GOMAXPROCS(1)
	err := Synthetic(t.Context(), b, "demo", opt)
	goruntime.GOMAXPROCS(cores)
	require.NoError(t, err)
	x, err := os.ReadFile(a)
	require.NoError(t, err)
	y, err := os.ReadFile(b)
	require.NoError(t, err)
	require.Equal(t, sha256Hex(x), sha256Hex(y))
	m := open(t, a)
	seen := map[string]string{}
	for name, tensor := range m.tensors {
		if len(tensor.shape) > 1 {
			head := string(tensor.part.Data[:64])
			require.Empty(t, seen[head], "%s begins as %s", name, seen[head])
			seen[head] = name
		}
	}
}

// A model in the cache is used again, and written again when it is damaged or of another making.
func TestOpenSynthetic(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache", "voxtral")
	opt := SyntheticOptions{Format: device.Int4}
	get := func(want bool, opt SyntheticOptions) string {
		m, wrote, err := OpenSynthetic(t.Context(), dir, "tiny", opt)
		require.NoError(t, err)
		require.Equal(t, want, wrote)
		require.NoError(t, m.Close())
		return m.Path
	}
	path := get(true, opt)
	require.Equal(t, filepath.Join(dir, "synthetic-tiny-int4-"+packedVersion+".voxtral"), path)
	require.Equal(t, path, get(false, opt))

	require.NoError(t, os.Truncate(path, 1000))
	get(true, opt)
	require.NoError(t, Synthetic(t.Context(), path, "demo", opt))
	get(true, opt)
	get(false, opt)

	seen := map[string]bool{path: true}
	for _, other := range []SyntheticOptions{{Format: device.Int8}, {Format: device.Int4, Head: device.Int4}, {Format: device.Int4, Group: 64}} {
		p := get(true, other)
		require.False(t, seen[p])
		seen[p] = true
	}
}

func TestSyntheticRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.voxtral")
	for want, try := range map[string]func() error{
		"use 4b, demo, tiny":     func() error { return Synthetic(t.Context(), path, "8b", SyntheticOptions{Format: device.Int4}) },
		"use bf16, int8 or int4": func() error { return Synthetic(t.Context(), path, "tiny", SyntheticOptions{}) },
		"group size 48": func() error {
			return Synthetic(t.Context(), path, "tiny", SyntheticOptions{Format: device.Int8, Group: 48})
		},
		context.Canceled.Error(): func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return Synthetic(ctx, path, "tiny", SyntheticOptions{Format: device.Int4})
		},
	} {
		require.ErrorContains(t, try(), want)
		files, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Empty(t, files)
	}
}

// The published architecture has the published number of parameters.
func TestSynthetic4BSize(t *testing.T) {
	s, err := newSynthesizer(t.Context(), "4b", SyntheticOptions{Format: device.Int4})
	require.NoError(t, err)
	values := 0
	for _, tensor := range s.src.tensors {
		values += tensor.part.Rows * tensor.part.Cols
	}
	require.Len(t, s.src.tensors, 711)
	require.InDelta(t, 4.43e9, float64(values), 5e6)
}
