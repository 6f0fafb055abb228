package wer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Invariant: only the words count, not case, punctuation or the kind of apostrophe; a hyphen parts words.
func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		"Hello, World!":                "hello world",
		"Don't — stop; the dog’s here": "don't stop the dog's here",
		"'quoted' \"words\"":           "quoted words",
		"twenty-one and/or two":        "twenty one and or two",
		"Größe 3.14 ÉTÉ":               "größe 314 été",
		" \t\n":                        "",
		"... '' -":                     "",
	} {
		require.Equal(t, strings.Fields(want), append([]string{}, Normalize(in)...), in)
	}
}

// Invariant: the counts are those of the cheapest alignment.
func TestCompute(t *testing.T) {
	for _, c := range []struct {
		ref, hyp string
		want     Counts
	}{
		{"a b c", "a b c", Counts{0, 0, 0, 3}},
		{"a b c", "a x c", Counts{1, 0, 0, 3}},
		{"a b c", "a c", Counts{0, 1, 0, 3}},
		{"a c", "a b c", Counts{0, 0, 1, 2}},
		{"a b c d", "", Counts{0, 4, 0, 4}},
		{"", "a b", Counts{0, 0, 2, 0}},
		{"", "", Counts{}},
		{"a b c d e", "b c x e f", Counts{1, 1, 1, 5}},
	} {
		require.Equal(t, c.want, Compute(strings.Fields(c.ref), strings.Fields(c.hyp)), "%q %q", c.ref, c.hyp)
	}
}

// Invariant: the rate is edits per reference word, over sums of clips as over one.
func TestRate(t *testing.T) {
	c := Counts{1, 2, 3, 12}
	require.InDelta(t, 0.5, c.Rate(), 1e-12)
	require.InDelta(t, 0.5, c.Add(c).Rate(), 1e-12)
	require.InDelta(t, 2, Counts{Ins: 2}.Rate(), 1e-12)
	require.Zero(t, Counts{}.Rate())
	require.Equal(t, "50.00 % WER (1 substituted, 2 deleted, 3 inserted of 12 words)", c.String())
}

// Invariants: the distance is symmetric (deletions and insertions change places), the length difference is what is
// inserted less what is deleted, and it obeys the triangle inequality.
func TestComputeIsADistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 12)
		x, y, z := words.Draw(t, "x"), words.Draw(t, "y"), words.Draw(t, "z")
		xy, yx := Compute(x, y), Compute(y, x)
		require.Equal(t, xy.Errors(), yx.Errors())
		require.Equal(t, len(y)-len(x), xy.Ins-xy.Del)
		require.LessOrEqual(t, Compute(x, z).Errors(), xy.Errors()+Compute(y, z).Errors())
		require.Zero(t, Compute(x, x).Errors())
		require.Equal(t, len(x), xy.Ref)
	})
}
