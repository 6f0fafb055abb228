// Package sdpa holds what every attention kernel agrees on: which positions a query sees, where a ring keeps them, how
// grouped heads share keys, and the plain reading of the arithmetic that kernels are tested against.
package sdpa

import (
	"fmt"
	"math"
)

// Spec is the fixed shape of one causal, windowed, grouped-query attention.
type Spec struct {
	QHeads  int // query heads
	KVHeads int // key/value heads; QHeads is a multiple of it
	HeadDim int // elements of a head, even
	Window  int // positions a query sees, itself included
}

// Validate checks that the shape makes sense.
func (s Spec) Validate() error {
	if s.QHeads <= 0 || s.KVHeads <= 0 || s.HeadDim <= 0 || s.Window <= 0 {
		return fmt.Errorf("attention of %d query heads, %d key heads, head dimension %d, window %d: all must be positive", s.QHeads, s.KVHeads, s.HeadDim, s.Window)
	}
	if s.QHeads%s.KVHeads != 0 {
		return fmt.Errorf("%d query heads do not divide over %d key heads", s.QHeads, s.KVHeads)
	}
	if s.HeadDim%2 != 0 {
		return fmt.Errorf("head dimension %d is odd: rotary pairs need an even one", s.HeadDim)
	}
	return nil
}

// QDim is the width of all query heads side by side.
func (s Spec) QDim() int { return s.QHeads * s.HeadDim }

// KVDim is the width of all key (or value) heads side by side.
func (s Spec) KVDim() int { return s.KVHeads * s.HeadDim }

// QKVDim is the width of a fused row: queries, keys, values.
func (s Spec) QKVDim() int { return s.QDim() + 2*s.KVDim() }

// Scale multiplies every score: HeadDim^-½.
func (s Spec) Scale() float64 { return 1 / math.Sqrt(float64(s.HeadDim)) }

// KVHead is the key head that a query head reads.
func (s Spec) KVHead(qHead int) int { return qHead / (s.QHeads / s.KVHeads) }

// First is the oldest position that the query at pos sees. Visibility goes by age alone: the query sees First..pos.
func (s Spec) First(pos int) int { return max(0, pos-s.Window+1) }

// RingCap is the number of ring rows needed when up to chunk rows are appended before any of them attends: the oldest
// key of the first row must survive the append of the last one.
func (s Spec) RingCap(chunk int) int { return s.Window + chunk - 1 }

// RingRow is where a ring of the given capacity keeps a position.
func RingRow(pos, capRows int) int { return pos % capRows }
