// Package kernels holds the GPU kernels' source, one text for CDNA, RDNA and CUDA, and puts modules together from it.
// README.md lists every kernel with its arguments.
package kernels

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"voxtral/internal/device"
	"voxtral/sdpa"
)

//go:embed *.h *.hip
var files embed.FS

// Module is one translation unit: compat.h, what the kernels share, and one .hip file, for given constants.
type Module struct {
	Name    string // matvec, head, matmul, embed, attention, step, rows, argmax or read
	Defines []string
	parts   []string
}

// Weights is a module that reads weights of a format: matvec, head, matmul or embed. group is the number of columns that
// share a scale, for formats that have one.
func Weights(name string, f device.Format, group int) (Module, error) {
	parts, ok := map[string][]string{
		"matvec": {"compat.h", "tile.h", "x.h", "matvec.h", "linear.h", "matvec.hip"},
		"head":   {"compat.h", "tile.h", "x.h", "matvec.h", "best.h", "head.hip"},
		"matmul": {"compat.h", "tile.h", "matmul.hip"},
		"embed":  {"compat.h", "tile.h", "embed.hip"},
	}[name]
	number, known := map[device.Format]int{device.Int4: 4, device.Int8: 8, device.F16: 15, device.BF16: 16}[f]
	if !ok || !known {
		return Module{}, fmt.Errorf("kernels: no module %s for weights of %s", name, f)
	}
	if !f.Grouped() {
		group = 32 // any: there are no scales
	}
	return Module{name, []string{fmt.Sprintf("FORMAT=%d", number), fmt.Sprintf("GROUP=%d", group)}, parts}, nil
}

// Attention is the attention module of one shape.
func Attention(s sdpa.Spec, half bool) (Module, error) {
	if d := s.HeadDim; d != 32 && d != 64 && d != 128 {
		return Module{}, fmt.Errorf("kernels: no attention for heads of %d elements, only 32, 64 and 128", d)
	}
	ring := 0
	if half {
		ring = 1
	}
	return Module{"attention", []string{fmt.Sprintf("HEAD_DIM=%d", s.HeadDim), fmt.Sprintf("GROUP_HEADS=%d", s.QHeads/s.KVHeads), fmt.Sprintf("HALF_RING=%d", ring)}, []string{"compat.h", "attention.h", "attention.hip"}}, nil
}

// Step is the module that does many products with weights of a format, and attentions of a shape, in one launch.
func Step(f device.Format, group int, s sdpa.Spec, half bool) (Module, error) {
	w, err := Weights("matvec", f, group)
	if err != nil {
		return Module{}, err
	}
	a, err := Attention(s, half)
	if err != nil {
		return Module{}, err
	}
	return Module{"step", slices.Concat(w.Defines, a.Defines), []string{"compat.h", "tile.h", "x.h", "matvec.h", "linear.h", "attention.h", "step.hip"}}, nil
}

// Rows is the module of row by row work: norms, rings, rotary append, convolution windows.
func Rows() Module { return Module{"rows", nil, []string{"compat.h", "rows.hip"}} }

// Argmax is the module that finds the largest logits.
func Argmax() Module { return Module{"argmax", nil, []string{"compat.h", "best.h", "argmax.hip"}} }

// Read is the module that measures how fast memory can be read.
func Read() Module { return Module{"read", nil, []string{"compat.h", "read.hip"}} }

// With is the module with one more constant, a variant for the tuner: "MATRIX=0" for two-element dot products in place of the
// matrix units, "DEPTH=2" or "WAVES=4" in matvec and head.
func (m Module) With(define string) Module {
	m.Defines = append(slices.Clone(m.Defines), define)
	return m
}

// Text is the module's source.
func (m Module) Text() string {
	var b strings.Builder
	for _, name := range m.parts {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // embedded, so a misspelt name above
		}
		b.Write(text)
	}
	return b.String()
}

// Options are the compiler's options for a target of this wave size, beside the one for its architecture.
func (m Module) Options(wave int) []string {
	options := []string{"-std=c++17", fmt.Sprintf("-DWAVE=%d", wave)}
	for _, d := range m.Defines {
		options = append(options, "-D"+d)
	}
	return options
}
