// Package interp runs a device.Program in plain Go. It is the oracle: written for clarity, accumulating in float64, one
// obvious loop an op. Every device is tested against it.
package interp

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unsafe"

	"voxtral/internal/device"
	"voxtral/sdpa"
)

// New returns the oracle device. It needs no closing.
func New() device.Device { return oracle{} }

type oracle struct{}

type buffer struct{ data []uint32 }

func (b *buffer) Bytes() int { return 4 * len(b.data) }
func (b *buffer) Free()      { b.data = nil }

// weight keeps every logical row unpacked: [rows][cols].
type weight struct {
	rows [][]float32
	cols int
}

func (w *weight) Rows() int { return len(w.rows) }
func (w *weight) Cols() int { return w.cols }

func (oracle) Info() device.Info {
	return device.Info{Name: "oracle", Detail: "plain Go interpreter, float64 accumulation", Threads: 1}
}
func (oracle) Close() error { return nil }

func (oracle) Alloc(bytes int, _ device.Kind) (device.Buffer, error) {
	return &buffer{data: make([]uint32, (bytes+3)/4)}, nil
}

func (oracle) Write(dst device.Buffer, off int, src []byte) error {
	mem := dst.(*buffer).bytes()
	if off < 0 || off+len(src) > len(mem) {
		return fmt.Errorf("oracle: write of %d bytes at %d into %d", len(src), off, len(mem))
	}
	copy(mem[off:], src)
	return nil
}

func (oracle) Read(src device.Buffer, off int, dst []byte) error {
	mem := src.(*buffer).bytes()
	if off < 0 || off+len(dst) > len(mem) {
		return fmt.Errorf("oracle: read of %d bytes at %d from %d", len(dst), off, len(mem))
	}
	copy(dst, mem[off:])
	return nil
}

func (oracle) Pack(d device.WeightDesc) (device.Weight, error) {
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	w := &weight{cols: d.Cols()}
	for i := range d.Parts {
		p := &d.Parts[i]
		for r := range p.Rows {
			row := make([]float32, p.Cols)
			p.Dequantize(row, p.StoredRow(r))
			w.rows = append(w.rows, row)
		}
	}
	return w, nil
}

func (oracle) Compile(p *device.Program) (device.Exec, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	x := &exec{prog: p, mem: map[*device.Memory][]uint32{}}
	for _, m := range p.Mem {
		if m.Buf == nil {
			x.mem[m] = make([]uint32, m.Elems)
		} else {
			x.mem[m] = m.Buf.(*buffer).data
		}
	}
	return x, nil
}

type exec struct {
	prog *device.Program
	mem  map[*device.Memory][]uint32
}

func (x *exec) Close() error { return nil }

func (x *exec) Run(s *device.Step) error {
	if err := x.prog.CheckStep(s); err != nil {
		return fmt.Errorf("oracle: %w", err)
	}
	for i, op := range x.prog.Ops {
		began := time.Now()
		switch o := op.(type) {
		case *device.EmbedAdd:
			x.embedAdd(o, s)
		case *device.RMSNorm:
			x.rmsNorm(o, s)
		case *device.Linear:
			x.linear(o)
		case *device.RopeAppend:
			x.ropeAppend(o, s)
		case *device.Attention:
			x.attention(o, s)
		case *device.ConvWindow:
			x.convWindow(o, s)
		case *device.RingWrite:
			x.ringWrite(o, s)
		case *device.Argmax:
			x.argmax(o)
		default:
			return fmt.Errorf("oracle: op %s of type %T is unknown", op.Label(), op)
		}
		if s.Profile != nil {
			s.Profile[i] += time.Since(began)
		}
		if s.Trace != nil {
			t := op.Out()
			s.Trace(op.Label(), t.Rows, t.Cols, x.floats(t))
		}
	}
	return nil
}

// floats views a tensor's elements.
func (x *exec) floats(t device.Tensor) []float32 {
	return asFloats(x.mem[t.Mem])[t.Offset : t.Offset+t.Rows*t.Cols]
}

// row views one row of a tensor.
func (x *exec) row(t device.Tensor, r int) []float32 { return x.floats(t.RowsFrom(r, 1)) }

// slot views one slot of an F32 ring, [Cap, Width].
func (x *exec) slot(r device.Ring, slot int32) []float32 {
	n := r.Cap * r.Width
	return asFloats(x.mem[r.Mem])[int(slot)*n : (int(slot)+1)*n]
}

// history is one slot of a ring as float32, [Cap, Width]; a copy if the ring is F16.
func (x *exec) history(r device.Ring, slot int32) []float32 {
	if !r.Half {
		return x.slot(r, slot)
	}
	raw := (&buffer{x.mem[r.Mem]}).bytes()[2*int(slot)*r.Cap*r.Width:]
	out := make([]float32, r.Cap*r.Width)
	for i := range out {
		out[i] = device.HalfToFloat(binary.NativeEndian.Uint16(raw[2*i:]))
	}
	return out
}

// store writes a row into a slot of a ring, at its position.
func (x *exec) store(r device.Ring, slot, pos int32, row []float32) {
	at := (int(slot)*r.Cap + sdpa.RingRow(int(pos), r.Cap)) * r.Width
	if !r.Half {
		copy(asFloats(x.mem[r.Mem])[at:], row)
		return
	}
	raw := (&buffer{x.mem[r.Mem]}).bytes()[2*at:]
	for i, v := range row {
		binary.NativeEndian.PutUint16(raw[2*i:], device.FloatToHalf(v))
	}
}

func asFloats(u []uint32) []float32 {
	if len(u) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&u[0])), len(u))
}

func (b *buffer) bytes() []byte {
	if len(b.data) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&b.data[0])), 4*len(b.data))
}

// putInt stores an int32 element of a tensor.
func (x *exec) putInt(t device.Tensor, i int, v int32) {
	binary.NativeEndian.PutUint32((&buffer{x.mem[t.Mem]}).bytes()[4*(t.Offset+i):], uint32(v))
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}

func activate(a device.Activation, v float64) float64 {
	if a == device.GELU {
		return 0.5 * v * math.Erfc(-v/math.Sqrt2)
	}
	return v
}

func silu(v float64) float64 { return v / (1 + math.Exp(-v)) }
