package golden

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// Tol is how far a value may lie from the wanted one: |got - want| <= Abs + Rel*|want| + RMS*rms(want), where rms is the
// root mean square of all the wanted values. The last term suits sums, whose error follows the size of the whole vector
// and not of the one value.
type Tol struct {
	Abs, Rel, RMS float64
}

// FP32 is the tolerance of the float32 path at every stage.
var FP32 = Tol{RMS: 1e-4, Rel: 1e-4}

// Report says how two vectors differ.
type Report struct {
	Len      int
	Bad      int     // values outside the tolerance, NaN among them
	First    int     // index of the first bad value, -1 when there is none
	MaxAbs   float64 // largest |got - want|
	MaxRel   float64 // largest |got - want| / |want| where want is not 0
	RelToRMS float64 // MaxAbs / rms(want)
	Cosine   float64 // 1 when both are zero everywhere
	detail   string
}

// OK reports whether every value lies within the tolerance.
func (r Report) OK() bool { return r.Bad == 0 }

func (r Report) String() string {
	return fmt.Sprintf("%d of %d values bad, max abs %.3g, max rel %.3g, max abs/rms %.3g, cosine %.9f%s",
		r.Bad, r.Len, r.MaxAbs, r.MaxRel, r.RelToRMS, r.Cosine, r.detail)
}

// shown is how many bad values a report lists.
const shown = 6

// Compare compares two vectors of equal length.
func Compare(got, want []float32, tol Tol) Report {
	r := Report{Len: len(want), First: -1}
	var gg, ww, gw float64
	for i, w := range want {
		g, w := float64(got[i]), float64(w)
		gg, ww, gw = gg+g*g, ww+w*w, gw+g*w
	}
	rms := math.Sqrt(ww / math.Max(1, float64(len(want))))
	var bad strings.Builder
	for i, w := range want {
		g, w := float64(got[i]), float64(w)
		diff := math.Abs(g - w)
		r.MaxAbs = max(r.MaxAbs, diff)
		if w != 0 {
			r.MaxRel = max(r.MaxRel, diff/math.Abs(w))
		}
		// Written so that a NaN on either side is bad.
		if diff <= tol.Abs+tol.Rel*math.Abs(w)+tol.RMS*rms {
			continue
		}
		if r.Bad == 0 {
			r.First = i
		}
		if r.Bad < shown {
			fmt.Fprintf(&bad, "\n  [%d] got %.9g, want %.9g", i, g, w)
		}
		r.Bad++
	}
	r.detail = bad.String()
	r.RelToRMS = ratio(r.MaxAbs, rms)
	r.Cosine = 1
	if gg != 0 || ww != 0 {
		r.Cosine = ratio(gw, math.Sqrt(gg)*math.Sqrt(ww))
	}
	return r
}

func ratio(a, b float64) float64 {
	if a == 0 {
		return 0
	}
	return a / b
}

// Close fails the test when got is not as long as want or a value lies outside the tolerance, and says how far off it is
// and where it starts. A test that passes logs the measured difference.
func Close(t testing.TB, name string, got, want []float32, tol Tol) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", name, len(got), len(want))
		return
	}
	if len(want) == 0 {
		t.Errorf("%s: nothing to compare", name)
		return
	}
	r := Compare(got, want, tol)
	if !r.OK() {
		t.Errorf("%s: %s", name, r)
		return
	}
	t.Logf("%s: %s", name, r)
}
