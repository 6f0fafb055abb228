package device

import (
	"fmt"
	"unsafe"
)

// Vector is a small constant on a device: F32 [N].
type Vector struct {
	Name string
	Buf  Buffer
	N    int
}

// NewVector uploads v.
func NewVector(d Device, name string, v []float32) (Vector, error) {
	buf, err := d.Alloc(4*len(v), Params)
	if err != nil {
		return Vector{}, fmt.Errorf("%s: %w", name, err)
	}
	if err := d.Write(buf, 0, F32Bytes(v)); err != nil {
		buf.Free()
		return Vector{}, fmt.Errorf("%s: %w", name, err)
	}
	return Vector{Name: name, Buf: buf, N: len(v)}, nil
}

// Param views a vector as a [1, N] tensor of the program; a zero Vector gives a left-out tensor.
func (p *Program) Param(v Vector) Tensor {
	if v.Buf == nil {
		return Tensor{}
	}
	return p.Bind(v.Name, v.Buf, 1, v.N)
}

// F32Bytes views floats as the bytes that Device.Write takes and Device.Read fills (all supported hosts are
// little-endian).
func F32Bytes(v []float32) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
}

// I32Bytes is F32Bytes for int32.
func I32Bytes(v []int32) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
}
