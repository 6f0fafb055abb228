package cpu

/*
#include "cpu.h"
*/
import "C"

import (
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"voxtral/internal/device"
)

// weight is a device.Weight. C reads the parts where they are.
type weight struct {
	dev        *Device
	c          *C.struct_cpu_weight
	rows, cols int
	packed     bool // int8 or int4, all parts alike
}

func (w *weight) Rows() int { return w.rows }
func (w *weight) Cols() int { return w.cols }

// Pack refers to the parts' memory until Close; nothing is copied. The memory need not be aligned.
func (d *Device) Pack(desc device.WeightDesc) (device.Weight, error) {
	if err := desc.Validate(); err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	w := &weight{dev: d, rows: desc.Rows(), cols: desc.Cols(), packed: desc.Parts[0].Format.Grouped()}
	for i := range desc.Parts {
		p := &desc.Parts[i]
		w.packed = w.packed && p.Format == desc.Parts[0].Format && p.Group == desc.Parts[0].Group
	}
	if w.rows > math.MaxInt32 || w.cols > math.MaxInt32-128 {
		return nil, fmt.Errorf("cpu: weight %q: [%d, %d] is too large", desc.Name, w.rows, w.cols)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	head, err := d.alloc(int(unsafe.Sizeof(C.struct_cpu_weight{})))
	if err != nil {
		return nil, fmt.Errorf("cpu: weight %q: %w", desc.Name, err)
	}
	list, err := d.alloc(len(desc.Parts) * int(unsafe.Sizeof(C.struct_cpu_part{})))
	if err != nil {
		d.free(head)
		return nil, fmt.Errorf("cpu: weight %q: %w", desc.Name, err)
	}
	parts := unsafe.Slice((*C.struct_cpu_part)(list.ptr), len(desc.Parts))
	for i := range desc.Parts {
		p := &desc.Parts[i]
		c := &parts[i]
		c.data = d.pin(p.Data)
		c.row_bytes = C.int64_t(p.Format.RowBytes(p.Cols, p.Group))
		c.rows = C.int32_t(p.Rows)
		c.format = C.int32_t(p.Format)
		c.rotary_head = C.int32_t(p.RotaryHead)
		if p.Format.Grouped() {
			c.scales = d.pin(p.Scales)
			c.groups = C.int32_t(device.Groups(p.Cols, p.Group))
			c.group_shift = C.int32_t(bits.TrailingZeros(uint(p.Group)))
		}
	}
	w.c = (*C.struct_cpu_weight)(head.ptr)
	w.c.parts = &parts[0]
	w.c.count, w.c.rows, w.c.cols = C.int32_t(len(parts)), C.int32_t(w.rows), C.int32_t(w.cols)
	return w, nil
}

// pin is the address of Go or foreign memory, which stays put until Close.
func (d *Device) pin(b []byte) *C.uint8_t {
	p := unsafe.SliceData(b)
	d.pinner.Pin(p)
	return (*C.uint8_t)(p)
}
