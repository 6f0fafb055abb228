package device

import (
	"errors"
	"fmt"

	"voxtral/sdpa"
)

// Op is one of the ops below. A value produced for a row depends only on that row, its weights and its slot's state,
// never on how many other rows run beside it nor on the number of threads: results are the same to the bit for any
// split of a stream into steps.
type Op interface {
	Label() string
	Out() Tensor // what Step.Trace shows
	check() error
	// reads returns the row set whose slots (below slots, if > 0) and tokens (below vocab, if > 0) the op indexes with.
	reads() (set *RowSet, slots, vocab int)
	// checkRun checks a step's run of rows of one slot.
	checkRun(from, rows int) error
}

// Name is the label of an op, such as "dec.3.attn".
type Name string

// Label returns the name.
func (n Name) Label() string { return string(n) }

func (n Name) checkRun(int, int) error { return nil }

// Activation is applied by Linear after the bias.
type Activation uint8

// Activations.
const (
	NoAct  Activation = iota
	GELU              // x·Φ(x), with the exact error function
	SwiGLU            // the weight has two equal parts: silu(first)·second, the output has half the rows of the weight
)

// EmbedAdd computes Y[r] = Table[token[r]] + Audio[slot[r]][pos[r] mod cap]; sums in F32.
type EmbedAdd struct {
	Name
	Rows  *RowSet
	Y     Tensor // [rows, D]
	Table Weight // [vocab, D]
	Audio Ring   // width D, F32
}

// RMSNorm computes Y[r] = X[r] · (mean(X[r]²) + Eps)^-½ · Gain, all in F32, times (1 + Ada[slot[r]]) if Ada is given.
type RMSNorm struct {
	Name
	Rows *RowSet // the rows' slots; only with Ada
	Y, X Tensor  // [n, D]; may be the same
	Gain Tensor  // [1, D]
	Ada  Tensor  // [slots, D] or left out
	Eps  float32
}

// Linear computes Y = act(X · Wᵀ + Bias) + Residual. Accumulates in F32 or better; X and Y do not overlap, Residual may be Y.
type Linear struct {
	Name
	Y        Tensor // [n, W.Rows], for SwiGLU [n, W.Rows/2]
	X        Tensor // [n, W.Cols]
	W        Weight
	Bias     Tensor // [1, W.Rows] or left out
	Residual Tensor // as Y, or left out
	Act      Activation
}

// RopeAppend rotates q and k of every row by its position's angles and appends k and v to the slot's rings. Pairs are
// adjacent: (x0, x1) → (x0·cos − x1·sin, x0·sin + x1·cos) with angle i for pair i of each head.
type RopeAppend struct {
	Name
	Rows *RowSet
	Spec sdpa.Spec
	QKV  Tensor // [rows, QKVDim]; q is rotated in place, k and v may be left as they are
	K, V Ring   // width KVDim
}

// Attention computes Y[r] = softmax(q·Kᵀ·scale)·V over the positions that sdpa.Spec lets row r see, in its slot's rings.
type Attention struct {
	Name
	Rows *RowSet
	Spec sdpa.Spec
	Y    Tensor // [rows, QDim]
	QKV  Tensor // [rows, QKVDim], only q is read
	K, V Ring   // width KVDim, Cap ≥ Window + rows of a slot in this step − 1
}

// ConvWindow lays out the inputs of a causal 1-D convolution of kernel 3 so that it becomes a Linear: output row t holds
// Y[t][3c+j] = x[t·Stride + j − (3−Stride)][c], where negative times of the first row reach into the slot's tail, or are
// zero at the start of the stream (pos 0). Then the tail takes the slot's last 3−Stride input rows.
type ConvWindow struct {
	Name
	Rows   *RowSet // input rows, for each slot a multiple of Stride
	Y      Tensor  // [rows/Stride, 3·C]
	X      Tensor  // [rows, C]
	Tail   Tensor  // [slots·(3−Stride), C]
	Stride int     // 1 or 2
}

// RingWrite stores To[slot[r]][pos[r] mod cap] = X[r].
type RingWrite struct {
	Name
	Rows *RowSet
	X    Tensor // [rows, width]
	To   Ring   // F32
}

// Argmax finds the largest logit of each row, the lowest id among equals. A row with a NaN gives id −1.
type Argmax struct {
	Name
	X   Tensor // [n, vocab]
	IDs Tensor // [n, 1], int32
	Top Tensor // [n, 2]: the largest logit and the next one (−Inf with a vocabulary of one)
}

// Out returns the tensor that the op produces.
func (o *EmbedAdd) Out() Tensor { return o.Y }

// Out returns the tensor that the op produces.
func (o *RMSNorm) Out() Tensor { return o.Y }

// Out returns the tensor that the op produces.
func (o *Linear) Out() Tensor { return o.Y }

// Out returns the rotated queries with keys and values.
func (o *RopeAppend) Out() Tensor { return o.QKV }

// Out returns the tensor that the op produces.
func (o *Attention) Out() Tensor { return o.Y }

// Out returns the tensor that the op produces.
func (o *ConvWindow) Out() Tensor { return o.Y }

// Out returns the rows that were written.
func (o *RingWrite) Out() Tensor { return o.X }

// Out returns the two largest logits.
func (o *Argmax) Out() Tensor { return o.Top }

func (o *EmbedAdd) reads() (*RowSet, int, int) { return o.Rows, o.Audio.Slots, o.Table.Rows() }
func (o *RMSNorm) reads() (*RowSet, int, int) {
	if o.Ada.IsZero() {
		return nil, 0, 0
	}
	return o.Rows, o.Ada.Rows, 0
}
func (o *Linear) reads() (*RowSet, int, int)     { return nil, 0, 0 }
func (o *RopeAppend) reads() (*RowSet, int, int) { return o.Rows, o.K.Slots, 0 }
func (o *Attention) reads() (*RowSet, int, int)  { return o.Rows, o.K.Slots, 0 }
func (o *ConvWindow) reads() (*RowSet, int, int) { return o.Rows, o.Tail.Rows / (3 - o.Stride), 0 }
func (o *RingWrite) reads() (*RowSet, int, int)  { return o.Rows, o.To.Slots, 0 }
func (o *Argmax) reads() (*RowSet, int, int)     { return nil, 0, 0 }

func (o *EmbedAdd) check() error {
	if o.Rows == nil {
		return errNoRows
	}
	if !o.Rows.HasTokens {
		return fmt.Errorf("row set %s carries no tokens", o.Rows.Name)
	}
	if o.Table == nil || o.Table.Cols() != o.Y.Cols || o.Audio.Width != o.Y.Cols {
		return fmt.Errorf("embedding table, audio ring and output differ in width")
	}
	if o.Audio.Half {
		return fmt.Errorf("the audio ring must be F32")
	}
	return first(shape("output", o.Y, o.Rows.Rows, o.Y.Cols), ring("audio", o.Audio, o.Y.Cols))
}

func (o *RMSNorm) check() error {
	if err := first(shape("output", o.Y, o.X.Rows, o.X.Cols), shape("input", o.X, o.X.Rows, o.X.Cols), shape("gain", o.Gain, 1, o.X.Cols)); err != nil {
		return err
	}
	if o.Ada.IsZero() {
		return nil
	}
	if o.Rows == nil || o.Rows.Rows != o.X.Rows {
		return fmt.Errorf("an ada scale needs the row set of its %d rows", o.X.Rows)
	}
	return shape("ada", o.Ada, o.Ada.Rows, o.X.Cols)
}

func (o *Linear) check() error {
	if o.W == nil {
		return fmt.Errorf("no weight")
	}
	n := o.W.Rows()
	if err := first(shape("input", o.X, o.X.Rows, o.W.Cols()), optional("bias", o.Bias, 1, n)); err != nil {
		return err
	}
	if o.Act == SwiGLU {
		if n%2 != 0 {
			return fmt.Errorf("SwiGLU over %d rows: want two equal parts", n)
		}
		n /= 2
	}
	if o.Y.overlaps(o.X) {
		return fmt.Errorf("output and input share elements of %s", o.X.Mem.Name)
	}
	return first(shape("output", o.Y, o.X.Rows, n), optional("residual", o.Residual, o.X.Rows, n))
}

func (o *RopeAppend) checkRun(_, rows int) error { return ringHolds(o.Spec, o.K, rows) }
func (o *Attention) checkRun(_, rows int) error  { return ringHolds(o.Spec, o.K, rows) }

func ringHolds(s sdpa.Spec, k Ring, rows int) error {
	if need := s.RingCap(rows); k.Cap < need {
		return fmt.Errorf("ring of %d rows is too short: window %d and %d rows in a step need %d", k.Cap, s.Window, rows, need)
	}
	return nil
}

func (o *ConvWindow) checkRun(from, rows int) error {
	if from%o.Stride != 0 || rows%o.Stride != 0 {
		return fmt.Errorf("its %d rows from row %d on are no multiples of stride %d", rows, from, o.Stride)
	}
	return nil
}

func (o *RopeAppend) check() error {
	if o.Rows == nil {
		return errNoRows
	}
	if o.Rows.RotaryDim != o.Spec.HeadDim {
		return fmt.Errorf("row set %s has rotary dimension %d, heads have %d", o.Rows.Name, o.Rows.RotaryDim, o.Spec.HeadDim)
	}
	return attentionShapes(o.Spec, o.Rows, o.QKV, o.K, o.V)
}

func (o *Attention) check() error {
	if o.Rows == nil {
		return errNoRows
	}
	return first(attentionShapes(o.Spec, o.Rows, o.QKV, o.K, o.V), shape("output", o.Y, o.Rows.Rows, o.Spec.QDim()))
}

func attentionShapes(s sdpa.Spec, rows *RowSet, qkv Tensor, k, v Ring) error {
	if err := first(s.Validate(), shape("qkv", qkv, rows.Rows, s.QKVDim()), ring("keys", k, s.KVDim()), ring("values", v, s.KVDim())); err != nil {
		return err
	}
	if k.Slots != v.Slots || k.Cap != v.Cap || k.Half != v.Half {
		return fmt.Errorf("key ring [%d, %d] (half: %t) and value ring [%d, %d] (half: %t) differ", k.Slots, k.Cap, k.Half, v.Slots, v.Cap, v.Half)
	}
	return ringHolds(s, k, (rows.Rows+k.Slots-1)/k.Slots)
}

func (o *ConvWindow) check() error {
	if o.Rows == nil {
		return errNoRows
	}
	if o.Stride != 1 && o.Stride != 2 {
		return fmt.Errorf("stride %d, want 1 or 2", o.Stride)
	}
	if o.Rows.Rows%o.Stride != 0 {
		return fmt.Errorf("%d rows are no multiple of stride %d", o.Rows.Rows, o.Stride)
	}
	if o.Tail.Rows%(3-o.Stride) != 0 {
		return fmt.Errorf("tail has %d rows, want a multiple of %d", o.Tail.Rows, 3-o.Stride)
	}
	c := o.X.Cols
	return first(shape("input", o.X, o.Rows.Rows, c), shape("output", o.Y, o.Rows.Rows/o.Stride, 3*c), shape("tail", o.Tail, o.Tail.Rows, c))
}

func (o *RingWrite) check() error {
	if o.Rows == nil {
		return errNoRows
	}
	if o.To.Half {
		return fmt.Errorf("the target ring must be F32")
	}
	return first(shape("input", o.X, o.Rows.Rows, o.To.Width), ring("target", o.To, o.To.Width))
}

func (o *Argmax) check() error {
	return first(shape("logits", o.X, o.X.Rows, o.X.Cols), shape("ids", o.IDs, o.X.Rows, 1), shape("top", o.Top, o.X.Rows, 2))
}

var errNoRows = errors.New("it has no row set")

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func optional(what string, t Tensor, rows, cols int) error {
	if t.IsZero() {
		return nil
	}
	return shape(what, t, rows, cols)
}

func shape(what string, t Tensor, rows, cols int) error {
	if t.IsZero() {
		return fmt.Errorf("%s is missing", what)
	}
	if t.Rows != rows || t.Cols != cols || rows <= 0 || cols <= 0 {
		return fmt.Errorf("%s %s is [%d, %d], want [%d, %d]", what, t.Mem.Name, t.Rows, t.Cols, rows, cols)
	}
	if t.Offset < 0 || t.Offset+rows*cols > t.Mem.Elems {
		return fmt.Errorf("%s reaches past the %d elements of %s", what, t.Mem.Elems, t.Mem.Name)
	}
	return nil
}

func ring(what string, r Ring, width int) error {
	if r.Mem == nil {
		return fmt.Errorf("%s ring is missing", what)
	}
	if r.Width != width || r.Slots <= 0 || r.Cap <= 0 || RingBytes(r.Slots, r.Cap, r.Width, r.Half) > 4*r.Mem.Elems {
		return fmt.Errorf("%s ring %s is [%d, %d, %d], want width %d", what, r.Mem.Name, r.Slots, r.Cap, r.Width, width)
	}
	return nil
}
