package device

import (
	"fmt"
	"slices"
)

// Program is a straight list of ops. Build it with the New… methods, append ops with Add, then Compile it on a device.
type Program struct {
	Name string
	Sets []*RowSet
	Mem  []*Memory
	Ops  []Op
}

// RowSet is a group of rows that share a time base: mel frames, encoder rows or decoder positions.
type RowSet struct {
	Name      string
	Index     int // in Program.Sets and Step.Rows
	Rows      int
	RotaryDim int // head dimension of the rotary embedding, 0 if none
	HasTokens bool
}

// Memory is a named run of 4-byte elements that tensors and rings view. Buf is nil for scratch, which Compile allocates.
type Memory struct {
	Name  string
	Elems int // 4-byte elements
	Buf   Buffer
}

// Tensor is a dense row-major view [Rows, Cols] of float32 in a Memory (int32 where an op says so).
type Tensor struct {
	Mem    *Memory
	Offset int // elements
	Rows   int
	Cols   int
}

// Ring is per-slot history: [Slots, Cap, Width] of F32, or of F16 if Half; position p of a slot lives in row p mod Cap.
// Values are rounded to the nearest half when they are stored.
type Ring struct {
	Mem   *Memory
	Slots int
	Cap   int // rows
	Width int // elements of a row, even
	Half  bool
}

// RingBytes is the memory of a ring.
func RingBytes(slots, capRows, width int, half bool) int {
	if half {
		return 2 * slots * capRows * width
	}
	return 4 * slots * capRows * width
}

// NewRows adds a row set.
func (p *Program) NewRows(name string, rows, rotaryDim int) *RowSet {
	s := &RowSet{Name: name, Index: len(p.Sets), Rows: rows, RotaryDim: rotaryDim}
	p.Sets = append(p.Sets, s)
	return s
}

// NewScratch adds a tensor that lives within one Run.
func (p *Program) NewScratch(name string, rows, cols int) Tensor {
	return p.Bind(name, nil, rows, cols)
}

// Bind adds a tensor over the start of an existing buffer.
func (p *Program) Bind(name string, buf Buffer, rows, cols int) Tensor {
	m := &Memory{Name: name, Elems: rows * cols, Buf: buf}
	p.Mem = append(p.Mem, m)
	return Tensor{Mem: m, Rows: rows, Cols: cols}
}

// BindRing adds a ring over an existing buffer.
func (p *Program) BindRing(name string, buf Buffer, slots, capRows, width int, half bool) Ring {
	m := &Memory{Name: name, Elems: RingBytes(slots, capRows, width, half) / 4, Buf: buf}
	p.Mem = append(p.Mem, m)
	return Ring{Mem: m, Slots: slots, Cap: capRows, Width: width, Half: half}
}

// RowsFrom is the view of n rows that starts at row from.
func (t Tensor) RowsFrom(from, n int) Tensor {
	t.Offset += from * t.Cols
	t.Rows = n
	return t
}

// Reshape views the same elements in another shape.
func (t Tensor) Reshape(rows, cols int) Tensor {
	if rows*cols != t.Rows*t.Cols {
		panic(fmt.Sprintf("device: reshape %s [%d, %d] to [%d, %d]", t.Mem.Name, t.Rows, t.Cols, rows, cols))
	}
	t.Rows, t.Cols = rows, cols
	return t
}

func (t Tensor) overlaps(u Tensor) bool {
	return t.Mem == u.Mem && t.Offset < u.Offset+u.Rows*u.Cols && u.Offset < t.Offset+t.Rows*t.Cols
}

// IsZero says that the tensor was left out.
func (t Tensor) IsZero() bool { return t.Mem == nil }

// Add appends an op.
func (p *Program) Add(op Op) { p.Ops = append(p.Ops, op) }

// Validate checks the shapes of every op and that every view lies within its memory.
func (p *Program) Validate() error {
	for _, m := range p.Mem {
		if m.Buf != nil && m.Buf.Bytes() < 4*m.Elems {
			return fmt.Errorf("program %s: %s needs %d bytes, its buffer has %d", p.Name, m.Name, 4*m.Elems, m.Buf.Bytes())
		}
	}
	for _, op := range p.Ops {
		if set, _, _ := op.reads(); set != nil && (set.Index >= len(p.Sets) || p.Sets[set.Index] != set) {
			return fmt.Errorf("program %s: op %s: its row set %s is not the program's", p.Name, op.Label(), set.Name)
		}
		if err := op.check(); err != nil {
			return fmt.Errorf("program %s: op %s: %w", p.Name, op.Label(), err)
		}
	}
	return nil
}

// CheckStep checks that a step has what the program needs, so that devices can trust its indices.
func (p *Program) CheckStep(s *Step) error {
	if len(s.Rows) != len(p.Sets) {
		return fmt.Errorf("program %s: step has %d row sets, want %d", p.Name, len(s.Rows), len(p.Sets))
	}
	if s.Profile != nil && len(s.Profile) != len(p.Ops) {
		return fmt.Errorf("program %s: profile has %d entries, want one for each of %d ops", p.Name, len(s.Profile), len(p.Ops))
	}
	for i, set := range p.Sets {
		r := &s.Rows[i]
		half := set.Rows * set.RotaryDim / 2
		if len(r.Slot) != set.Rows || len(r.Pos) != set.Rows || len(r.Cos) != half || len(r.Sin) != half ||
			set.HasTokens && len(r.Token) != set.Rows {
			return fmt.Errorf("program %s: row set %s: step has %d slots, %d positions, %d tokens, %d and %d rotary values for %d rows of rotary dimension %d",
				p.Name, set.Name, len(r.Slot), len(r.Pos), len(r.Token), len(r.Cos), len(r.Sin), set.Rows, set.RotaryDim)
		}
		if err := r.check(); err != nil {
			return fmt.Errorf("program %s: row set %s: %w", p.Name, set.Name, err)
		}
	}
	return p.checkStepIndices(s)
}

// check wants the rows of a slot side by side, at consecutive positions.
func (r *RowData) check() error {
	for j, slot := range r.Slot {
		switch {
		case slot < 0:
		case r.Pos[j] < 0:
			return fmt.Errorf("row %d has position %d", j, r.Pos[j])
		case j > 0 && r.Slot[j-1] == slot:
			if r.Pos[j] != r.Pos[j-1]+1 {
				return fmt.Errorf("row %d of slot %d has position %d after %d: positions must be consecutive", j, slot, r.Pos[j], r.Pos[j-1])
			}
		case slices.Contains(r.Slot[:j], slot):
			return fmt.Errorf("the rows of slot %d are not side by side", slot)
		}
	}
	return nil
}

// runs yields the rows from..to−1 of each active slot.
func (r *RowData) runs(yield func(from, to int) bool) {
	for from := 0; from < len(r.Slot); {
		to := from + 1
		for to < len(r.Slot) && r.Slot[to] == r.Slot[from] {
			to++
		}
		if r.Slot[from] >= 0 && !yield(from, to) {
			return
		}
		from = to
	}
}

func (p *Program) checkStepIndices(s *Step) error {
	for _, op := range p.Ops {
		set, slots, vocab := op.reads()
		if set == nil {
			continue
		}
		r := &s.Rows[set.Index]
		for from, to := range r.runs {
			if err := op.checkRun(from, to-from); err != nil {
				return fmt.Errorf("program %s: op %s: slot %d: %w", p.Name, op.Label(), r.Slot[from], err)
			}
		}
		for j := range r.Slot {
			if slots > 0 && int(r.Slot[j]) >= slots {
				return fmt.Errorf("program %s: op %s: row %d is in slot %d of %d", p.Name, op.Label(), j, r.Slot[j], slots)
			}
			if vocab > 0 && r.Slot[j] >= 0 && (r.Token[j] < 0 || int(r.Token[j]) >= vocab) {
				return fmt.Errorf("program %s: op %s: row %d has token %d, the vocabulary has %d", p.Name, op.Label(), j, r.Token[j], vocab)
			}
		}
	}
	return nil
}
