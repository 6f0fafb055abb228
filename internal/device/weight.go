package device

import "fmt"

// Part is a stored matrix [Rows, Cols], row-major, often a view of a memory-mapped file. It is never written to.
type Part struct {
	Name   string
	Rows   int // output features
	Cols   int // input features
	Format Format
	Group  int    // elements of a row that share a scale; only for grouped formats
	Data   []byte // Rows × Format.RowBytes(Cols, Group) bytes
	Scales []byte // F16 [Rows, Groups(Cols, Group)], only for grouped formats

	// RotaryHead > 0 says that the rows of each head of RotaryHead rows are stored half-split (first all even, then all
	// odd members of the rotary pairs), as Hugging Face keeps q and k. Logical rows are always in interleaved order; see
	// StoredRow.
	RotaryHead int
}

// StoredRow maps a logical row (rotary pairs adjacent) to the row as stored: logical h·R + 2i + c is stored at
// h·R + c·R/2 + i.
func (p *Part) StoredRow(row int) int {
	if p.RotaryHead == 0 {
		return row
	}
	h, in := row/p.RotaryHead, row%p.RotaryHead
	return h*p.RotaryHead + in%2*(p.RotaryHead/2) + in/2
}

// Validate checks sizes against the shape.
func (p *Part) Validate() error {
	if p.Rows <= 0 || p.Cols <= 0 {
		return fmt.Errorf("tensor %q: shape [%d, %d] is empty", p.Name, p.Rows, p.Cols)
	}
	if p.Format.Grouped() {
		if !ValidGroup(p.Group) {
			return fmt.Errorf("tensor %q: group size %d, want 32, 64 or 128", p.Name, p.Group)
		}
		if want := 2 * p.Rows * Groups(p.Cols, p.Group); len(p.Scales) != want {
			return fmt.Errorf("tensor %q: %d bytes of scales, want %d", p.Name, len(p.Scales), want)
		}
	}
	if want := p.Rows * p.Format.RowBytes(p.Cols, p.Group); len(p.Data) != want {
		return fmt.Errorf("tensor %q: %d bytes of data, want %d for %s [%d, %d]", p.Name, len(p.Data), want, p.Format, p.Rows, p.Cols)
	}
	if p.RotaryHead != 0 && (p.RotaryHead%2 != 0 || p.Rows%p.RotaryHead != 0) {
		return fmt.Errorf("tensor %q: %d rows do not split into rotary heads of %d", p.Name, p.Rows, p.RotaryHead)
	}
	return nil
}

// WeightDesc is a logical matrix: parts stacked by rows (q, k and v; gate and up). All parts have the same Cols.
type WeightDesc struct {
	Name  string
	Parts []Part
}

// Rows is the number of output features over all parts.
func (d *WeightDesc) Rows() int {
	n := 0
	for i := range d.Parts {
		n += d.Parts[i].Rows
	}
	return n
}

// Cols is the number of input features.
func (d *WeightDesc) Cols() int { return d.Parts[0].Cols }

// Validate checks every part and that they stack.
func (d *WeightDesc) Validate() error {
	if len(d.Parts) == 0 {
		return fmt.Errorf("weight %q has no parts", d.Name)
	}
	for i := range d.Parts {
		if err := d.Parts[i].Validate(); err != nil {
			return err
		}
		if d.Parts[i].Cols != d.Cols() {
			return fmt.Errorf("weight %q: part %q has %d columns, the first has %d", d.Name, d.Parts[i].Name, d.Parts[i].Cols, d.Cols())
		}
	}
	return nil
}
