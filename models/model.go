// Package models opens checkpoints of Voxtral Realtime: configuration, weights and vocabulary, in Mistral's layout, in
// Hugging Face's, or packed into one file by Quantize. Weights stay in the memory map of their file.
package models

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"voxtral/internal/device"
)

// Layout says how a checkpoint is stored.
type Layout uint8

// Layouts.
const (
	Mistral     Layout = iota // params.json, consolidated.safetensors, tekken.json
	HuggingFace               // config.json, model.safetensors or its shards, tekken.json
	Packed                    // one file written by Quantize
)

func (l Layout) String() string { return [...]string{"Mistral", "Hugging Face", "packed"}[l] }

// Model is an open checkpoint. It is safe for concurrent use until Close.
type Model struct {
	Name      string // the last element of Path, or as a packed file says
	Path      string // as given to Open
	Layout    Layout
	Config    Config
	Tokenizer *Tokenizer
	Meta      Metadata // only for packed models

	tensors map[string]*stored // by canonical name
	order   []string           // canonical names in the order of use
	tekken  []byte             // tekken.json, for Quantize
	files   []*container       // weights, in the order of their names
	maps    [][]byte           // to unmap
}

// Metadata is what a packed file says about its making.
type Metadata struct {
	Source string        // SHA-256 of the weights it was made from, in hexadecimal
	Format device.Format // of most matrices
	Head   device.Format // of the embeddings, which are also the LM head
	Group  int           // elements that share a scale, 0 if the format has none
}

// stored is one tensor where it lies in a file.
type stored struct {
	part  device.Part // for a vector: one row
	shape []int
	check func() error // verifies the bytes, nil if the file has no checksums
}

// TensorInfo describes a tensor for people.
type TensorInfo struct {
	Name   string // canonical
	Shape  []int
	Format device.Format
	Group  int   // elements that share a scale, 0 if the format has none
	Bytes  int64 // stored, with scales
}

// Open opens a model directory of either layout or a packed file. A directory that has both layouts is read in
// Mistral's. Every tensor is checked for presence, shape and type.
func Open(path string) (*Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	m := &Model{Path: path, Name: filepath.Base(path)}
	if info.IsDir() {
		err = m.openDir(path)
	} else {
		err = m.openPacked(path)
	}
	if err != nil {
		return nil, fmt.Errorf("models: %w", errors.Join(err, m.Close()))
	}
	return m, nil
}

// OpenBytes opens a packed file that is already in memory; name is for errors. data must stay unchanged until Close.
func OpenBytes(name string, data []byte) (*Model, error) {
	m := &Model{Path: name, Name: name}
	if err := m.readPacked(name, data); err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	return m, nil
}

// Close unmaps the files; Parts must no longer be used.
func (m *Model) Close() error {
	errs := make([]error, 0, len(m.maps))
	for _, data := range m.maps {
		errs = append(errs, unix.Munmap(data))
	}
	m.maps, m.tensors, m.files = nil, nil, nil
	return errors.Join(errs...)
}

func (m *Model) mapFile(path string) ([]byte, error) {
	data, err := mapFile(path)
	if err == nil {
		m.maps = append(m.maps, data)
	}
	return data, err
}

// Matrix returns a weight by its canonical name as a view of the file. A convolution [out, in, 3] is [out, in × 3]; q
// and k of the Hugging Face layout carry RotaryHead.
func (m *Model) Matrix(name string) (device.Part, error) {
	t, err := m.lookup(name)
	if err != nil {
		return device.Part{}, err
	}
	if len(t.shape) == 1 {
		return device.Part{}, fmt.Errorf("models: %s: tensor %s is a vector", m.Name, name)
	}
	return t.part, nil
}

// Vector returns a norm or bias by its canonical name, widened to float32. The q bias is in interleaved order.
func (m *Model) Vector(name string) ([]float32, error) {
	t, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	if len(t.shape) != 1 {
		return nil, fmt.Errorf("models: %s: tensor %s is a matrix", m.Name, name)
	}
	row := t.part
	row.Rows, row.Cols = 1, t.shape[0]
	v := make([]float32, row.Cols)
	row.Dequantize(v, 0)
	if t.part.RotaryHead > 0 {
		ordered := make([]float32, len(v))
		for i := range ordered {
			ordered[i] = v[t.part.StoredRow(i)]
		}
		v = ordered
	}
	for i, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return nil, fmt.Errorf("models: %s: tensor %s: element %d is %v", m.Name, name, i, x)
		}
	}
	return v, nil
}

func (m *Model) lookup(name string) (*stored, error) {
	t, ok := m.tensors[name]
	if !ok {
		return nil, fmt.Errorf("models: %s has no tensor %q", m.Name, name)
	}
	if t.check != nil {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("models: %s: tensor %s: %w", m.Name, name, err)
		}
	}
	return t, nil
}

// Tensors lists every tensor in the order of use.
func (m *Model) Tensors() []TensorInfo {
	list := make([]TensorInfo, 0, len(m.order))
	for _, name := range m.order {
		t := m.tensors[name]
		list = append(list, TensorInfo{name, t.shape, t.part.Format, t.part.Group, int64(len(t.part.Data) + len(t.part.Scales))})
	}
	return list
}

// listFirst says which tensors are at fault: the first, and how many more.
func listFirst(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s (and %d more)", names[0], len(names)-1)
}

func dims(shape []int) string { return strings.ReplaceAll(fmt.Sprint(shape), " ", ", ") }
