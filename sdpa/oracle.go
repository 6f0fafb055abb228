package sdpa

import "math"

// Attend is the plain reading of attention for one query row, in float64.
//
//	out [QDim], q [QDim]: all query heads of the row, already rotated
//	k, v [capRows, KVDim]: one slot's ring; the row's own key and value are already in it
//	pos: the row's position
//
// out = softmax(q·Kᵀ·Scale)·V over positions First(pos)..pos, taken relative to the true maximum score, so that it is
// finite whenever q, k and v are.
func Attend(s Spec, out, q, k, v []float32, capRows, pos int) {
	first := s.First(pos)
	scores := make([]float64, pos-first+1)
	acc := make([]float64, s.HeadDim)
	for h := range s.QHeads {
		qh := q[h*s.HeadDim : (h+1)*s.HeadDim]
		at := s.KVHead(h) * s.HeadDim
		top := math.Inf(-1)
		for i := range scores {
			row := RingRow(first+i, capRows) * s.KVDim()
			dot := 0.0
			for d, x := range qh {
				dot += float64(x) * float64(k[row+at+d])
			}
			scores[i] = dot * s.Scale()
			top = max(top, scores[i])
		}
		sum := 0.0
		clear(acc)
		for i, score := range scores {
			w := math.Exp(score - top)
			sum += w
			row := RingRow(first+i, capRows) * s.KVDim()
			for d := range acc {
				acc[d] += w * float64(v[row+at+d])
			}
		}
		for d := range acc {
			out[h*s.HeadDim+d] = float32(acc[d] / sum)
		}
	}
}

// Partial is softmax over a part of the positions, as a split-K kernel leaves it: Acc = Σ exp(score − Max)·v and
// Sum = Σ exp(score − Max). An empty part has Max = −Inf and Sum = 0.
type Partial struct {
	Max float64
	Sum float64
	Acc []float64 // [HeadDim]
}

// Merge folds b into a relative to the larger of the two true maxima, so that no exponent is positive and nothing
// overflows, whatever the scores.
func (a *Partial) Merge(b Partial) {
	if b.Sum == 0 {
		return
	}
	top := max(a.Max, b.Max)
	wa, wb := math.Exp(a.Max-top), math.Exp(b.Max-top)
	if a.Sum == 0 {
		wa = 0
	}
	a.Max, a.Sum = top, a.Sum*wa+b.Sum*wb
	for d := range a.Acc {
		a.Acc[d] = a.Acc[d]*wa + b.Acc[d]*wb
	}
}
