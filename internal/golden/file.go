// Package golden loads the fixtures made by scripts/reference and compares results with them.
//
// A fixture is a safetensors file whose metadata names its schema. Beside it lie the small random checkpoints it was
// made on, in both layouts, and the clips of the demonstration model.
package golden

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Schema is the version of the fixtures that this package reads.
const Schema = "voxtral-golden/1"

const regenerate = "make the fixtures again: python scripts/reference/make_goldens.py (see scripts/reference/README.md)"

// File is one loaded fixture.
type File struct {
	path    string
	meta    map[string]string
	tensors map[string]tensor
}

type tensor struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
	data    []byte
}

var itemSize = map[string]int64{"F32": 4, "I32": 4, "I16": 2}

// Path returns the path of a file or folder under internal/golden/testdata, from whichever package's test asks.
func Path(elem ...string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("golden: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(append([]string{dir, "internal", "golden", "testdata"}, elem...)...), nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("golden: no go.mod in the working directory or above it: run the tests inside the repository")
		}
		dir = up
	}
}

// Load reads the fixture at path. A fixture of another schema is an error that says how to make it again.
func Load(path string) (*File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("golden: %w; %s", err, regenerate)
	}
	f, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("golden: %s: %w; %s", path, err, regenerate)
	}
	f.path = path
	return f, nil
}

func parse(raw []byte) (*File, error) {
	if len(raw) < 8 {
		return nil, fmt.Errorf("%d bytes are too few for a safetensors file", len(raw))
	}
	size := binary.LittleEndian.Uint64(raw)
	if size > uint64(len(raw)-8) {
		return nil, fmt.Errorf("the header claims %d bytes, the file has %d", size, len(raw)-8)
	}
	header, body := raw[8:8+size], raw[8+size:]
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(header, &entries); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	f := &File{tensors: map[string]tensor{}}
	if m, ok := entries["__metadata__"]; ok {
		if err := json.Unmarshal(m, &f.meta); err != nil {
			return nil, fmt.Errorf("header: __metadata__: %w", err)
		}
		delete(entries, "__metadata__")
	}
	if got := f.meta["schema"]; got != Schema {
		return nil, fmt.Errorf("schema %q, want %q", got, Schema)
	}
	for name, entry := range entries {
		t, err := parseTensor(entry, body)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", name, err)
		}
		f.tensors[name] = t
	}
	return f, nil
}

func parseTensor(entry json.RawMessage, body []byte) (tensor, error) {
	var t tensor
	if err := json.Unmarshal(entry, &t); err != nil {
		return t, err
	}
	from, to := t.Offsets[0], t.Offsets[1]
	if from < 0 || to < from || to > int64(len(body)) {
		return t, fmt.Errorf("bytes [%d, %d) lie outside the %d bytes of data", from, to, len(body))
	}
	want, ok := itemSize[t.DType]
	if !ok {
		return t, fmt.Errorf("dtype %s, want F32, I32 or I16", t.DType)
	}
	for _, n := range t.Shape {
		if n < 0 || (n > 0 && want > math.MaxInt64/int64(n)) {
			return t, fmt.Errorf("impossible shape %v", t.Shape)
		}
		want *= int64(n)
	}
	if want != to-from {
		return t, fmt.Errorf("shape %v of %s needs %d bytes, the file gives %d", t.Shape, t.DType, want, to-from)
	}
	t.data = body[from:to]
	return t, nil
}

// Meta returns a value of the fixture's metadata, such as "seed" or "transformers", or "".
func (f *File) Meta(key string) string { return f.meta[key] }

// Names returns the names of all tensors, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.tensors)) }

// Has reports whether the fixture holds the tensor.
func (f *File) Has(name string) bool {
	_, ok := f.tensors[name]
	return ok
}

// F32 returns a float32 tensor in row-major order, and its shape. Asking for a tensor that the fixture lacks, or that has
// another type, is a mistake in the test: it panics and names what there is.
func (f *File) F32(name string) (data []float32, shape []int) {
	t := f.find(name, "F32")
	data = make([]float32, len(t.data)/4)
	for i := range data {
		data[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.data[4*i:]))
	}
	return data, t.Shape
}

// I32 returns an int32 tensor (token ids, row numbers). It panics as F32 does.
func (f *File) I32(name string) []int32 {
	t := f.find(name, "I32")
	data := make([]int32, len(t.data)/4)
	for i := range data {
		data[i] = int32(binary.LittleEndian.Uint32(t.data[4*i:]))
	}
	return data
}

// PCM returns 16-bit audio as samples in [-1, 1) at 16 kHz. It panics as F32 does.
func (f *File) PCM(name string) []float32 {
	t := f.find(name, "I16")
	data := make([]float32, len(t.data)/2)
	for i := range data {
		data[i] = float32(int16(binary.LittleEndian.Uint16(t.data[2*i:]))) / 32768
	}
	return data
}

func (f *File) find(name, dtype string) tensor {
	t, ok := f.tensors[name]
	if !ok {
		panic(fmt.Sprintf("golden: %s has no tensor %q, only %v", f.path, name, f.Names()))
	}
	if t.DType != dtype {
		panic(fmt.Sprintf("golden: %s: tensor %q is %s, asked for as %s", f.path, name, t.DType, dtype))
	}
	return t
}
