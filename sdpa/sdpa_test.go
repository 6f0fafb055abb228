package sdpa

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func randomSpec(t *rapid.T) Spec {
	kv := rapid.IntRange(1, 3).Draw(t, "kv")
	return Spec{QHeads: kv * rapid.IntRange(1, 4).Draw(t, "group"), KVHeads: kv, HeadDim: 2 * rapid.IntRange(1, 8).Draw(t, "pairs"), Window: rapid.IntRange(1, 9).Draw(t, "window")}
}

func fill(n int, scale float32, rng *rand.Rand) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = scale * float32(rng.NormFloat64())
	}
	return v
}

// Visibility goes by position alone: the result does not depend on the ring's capacity, nor on what lies in rows that the
// query must not see.
func TestAttendIgnoresRingLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := randomSpec(t)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		pos := rapid.IntRange(0, 40).Draw(t, "pos")
		history := fill((pos+1)*s.KVDim(), 1, rng)
		values := fill((pos+1)*s.KVDim(), 1, rng)
		q := fill(s.QDim(), 1, rng)
		var first []float32
		for _, capRows := range []int{s.Window, s.Window + 3, pos + s.Window + 1} {
			k, v := make([]float32, capRows*s.KVDim()), make([]float32, capRows*s.KVDim())
			for i := range k {
				k[i], v[i] = float32(math.NaN()), float32(math.NaN())
			}
			for p := s.First(pos); p <= pos; p++ {
				at := RingRow(p, capRows) * s.KVDim()
				copy(k[at:], history[p*s.KVDim():(p+1)*s.KVDim()])
				copy(v[at:], values[p*s.KVDim():(p+1)*s.KVDim()])
			}
			out := make([]float32, s.QDim())
			Attend(s, out, q, k, v, capRows, pos)
			if first == nil {
				first = out
			}
			require.Equal(t, first, out)
		}
	})
}

// Attention is a mean: with equal values it returns them, whatever the scores, even where exp(score) would overflow.
func TestAttendIsFiniteMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := Spec{QHeads: 4, KVHeads: 2, HeadDim: 8, Window: 16}
	for _, scale := range []float32{0, 1, 1e4} {
		k := fill(16*s.KVDim(), scale, rng)
		v := make([]float32, len(k))
		for i := range v {
			v[i] = float32(i % s.KVDim())
		}
		out := make([]float32, s.QDim())
		Attend(s, out, fill(s.QDim(), scale, rng), k, v, 16, 15)
		for h := range s.QHeads {
			for d := range s.HeadDim {
				require.InDelta(t, float64(s.KVHead(h)*s.HeadDim+d), out[h*s.HeadDim+d], 1e-4)
			}
		}
	}
}

// Merging any split of the positions equals attention over all of them, for scores of any size.
func TestMergeEqualsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		n := rapid.IntRange(1, 30).Draw(t, "positions")
		scale := math.Pow(10, rapid.Float64Range(-2, 6).Draw(t, "log scale"))
		scores, values := make([]float64, n), make([]float64, n)
		for i := range scores {
			scores[i], values[i] = scale*rng.NormFloat64(), rng.NormFloat64()
		}
		part := func(from, to int) Partial {
			p := Partial{Max: math.Inf(-1), Acc: []float64{0}}
			for i := from; i < to; i++ {
				p.Max = max(p.Max, scores[i])
			}
			for i := from; i < to; i++ {
				w := math.Exp(scores[i] - p.Max)
				p.Sum += w
				p.Acc[0] += w * values[i]
			}
			return p
		}
		whole := part(0, n)
		merged := Partial{Max: math.Inf(-1), Acc: []float64{0}}
		for from := 0; from < n; {
			to := rapid.IntRange(from, n).Draw(t, "cut") // empty parts too
			merged.Merge(part(from, to))
			if from == to {
				to++
				merged.Merge(part(from, to))
			}
			from = to
		}
		require.InDelta(t, whole.Acc[0]/whole.Sum, merged.Acc[0]/merged.Sum, 1e-9)
	})
}

// A rotation keeps lengths, and angles add up: position a+b is position a turned by b.
func TestRotaryAnglesAdd(t *testing.T) {
	r := NewRotary(1e6, 16)
	cos, sin := make([]float32, 8), make([]float32, 8)
	for _, pos := range []int{0, 1, 749, 131071, 4_300_000} {
		r.Angles(cos, sin, pos)
		for i, f := range r.Freq {
			require.InDelta(t, 1, float64(cos[i])*float64(cos[i])+float64(sin[i])*float64(sin[i]), 1e-6)
			require.InDelta(t, math.Cos(math.Mod(float64(pos)*f, 2*math.Pi)), float64(cos[i]), 1e-6)
		}
	}
	require.InDelta(t, 1, r.Freq[0], 0)
	require.InDelta(t, math.Pow(1e6, -0.5), r.Freq[4], 1e-15)
}

func TestSpecValidate(t *testing.T) {
	good := Spec{QHeads: 32, KVHeads: 8, HeadDim: 128, Window: 8192}
	require.NoError(t, good.Validate())
	require.Equal(t, 6144, good.QKVDim())
	require.Equal(t, 8192+62, good.RingCap(63))
	for name, s := range map[string]Spec{
		"no heads": {KVHeads: 1, HeadDim: 2, Window: 1}, "uneven groups": {QHeads: 5, KVHeads: 2, HeadDim: 2, Window: 1},
		"odd head": {QHeads: 2, KVHeads: 2, HeadDim: 3, Window: 1}, "no window": {QHeads: 2, KVHeads: 2, HeadDim: 2},
	} {
		require.Error(t, s.Validate(), name)
	}
}
