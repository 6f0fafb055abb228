package models

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"voxtral/internal/device"
)

// maxRank is enough for every tensor of the model and bounds what a header can make us keep.
const maxRank = 4

// maxMetadata bounds the number of free-form entries of a header.
const maxMetadata = 256

// rawTensor is one entry of a safetensors file.
type rawTensor struct {
	name  string
	dtype dtype
	rank  int
	dims  [maxRank]int64
	begin int64 // bytes from the start of the data
	end   int64
}

// dtype is an element type of safetensors that this package reads or writes.
type dtype uint8

const (
	typeF32 dtype = iota
	typeBF16
	typeF16
	typeU8
	typeI8
	typeOther // a known type that no tensor of the model may have
)

var dtypeNames = [...]string{typeF32: "F32", typeBF16: "BF16", typeF16: "F16", typeU8: "U8", typeI8: "I8", typeOther: "other"}

var dtypeBytes = map[string]struct {
	dtype dtype
	size  int64
}{
	"F32": {typeF32, 4}, "BF16": {typeBF16, 2}, "F16": {typeF16, 2}, "U8": {typeU8, 1}, "I8": {typeI8, 1},
	"F64": {typeOther, 8}, "I64": {typeOther, 8}, "U64": {typeOther, 8}, "I32": {typeOther, 4}, "U32": {typeOther, 4},
	"I16": {typeOther, 2}, "U16": {typeOther, 2}, "BOOL": {typeOther, 1}, "F8_E4M3": {typeOther, 1}, "F8_E5M2": {typeOther, 1},
}

func (t *rawTensor) shape() []int {
	s := make([]int, t.rank)
	for i := range s {
		s[i] = int(t.dims[i])
	}
	return s
}

// container is a parsed safetensors file: its data and its table, sorted by name.
type container struct {
	name    string // for errors
	data    []byte // all tensors, a view of the file
	header  []byte // length and JSON
	tensors []rawTensor
	meta    map[string]string
}

// get finds a tensor by name.
func (f *container) get(name string) (*rawTensor, bool) {
	i, ok := slices.BinarySearchFunc(f.tensors, name, func(t rawTensor, n string) int { return strings.Compare(t.name, n) })
	if !ok {
		return nil, false
	}
	return &f.tensors[i], true
}

func (f *container) bytes(t *rawTensor) []byte { return f.data[t.begin:t.end:t.end] }

// parseSafetensors reads the header: 8 bytes of length, then JSON of name → dtype, shape and data offsets. The tensors
// must tile the data without holes or overlap. Memory is bounded by the header's real size.
func parseSafetensors(name string, file []byte) (*container, error) {
	if len(file) < 8 {
		return nil, fmt.Errorf("%s: %d bytes are too few for a safetensors file", name, len(file))
	}
	n := binary.LittleEndian.Uint64(file)
	if n > uint64(len(file)-8) {
		return nil, fmt.Errorf("%s: the header claims %d bytes, the file has %d: it is truncated or not a safetensors file", name, n, len(file))
	}
	f := &container{name: name, header: file[:8+n], data: file[8+n:]}
	if err := f.parseHeader(file[8 : 8+n]); err != nil {
		return nil, fmt.Errorf("%s: safetensors header: %w", name, err)
	}
	if err := f.checkTiling(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func (f *container) parseHeader(header []byte) error {
	// A first walk counts, so that the table is allocated once and only for entries that are really there.
	entries := 0
	count := cursor{data: header}
	for range count.object() {
		count.value()
		entries++
	}
	if count.end(); count.err != nil {
		return count.err
	}
	f.tensors = make([]rawTensor, 0, min(entries, len(header)/len(`"":{"dtype":"I8","shape":[],"data_offsets":[0,0]}`)+1))
	c := cursor{data: header}
	for key := range c.object() {
		name := string(key)
		if name == "__metadata__" {
			f.parseMetadata(&c)
			continue
		}
		t, err := parseEntry(&c, name)
		if err != nil {
			return err
		}
		f.tensors = append(f.tensors, t)
	}
	return c.err
}

func (f *container) parseMetadata(c *cursor) {
	if f.meta != nil {
		c.fail("a second __metadata__")
		return
	}
	f.meta = map[string]string{}
	for key := range c.object() {
		if _, twice := f.meta[string(key)]; twice || len(f.meta) == maxMetadata {
			c.fail("metadata key %s is there twice, or there are more than %d keys", clip(key), maxMetadata)
			return
		}
		f.meta[string(key)] = c.text()
	}
}

func parseEntry(c *cursor, name string) (rawTensor, error) {
	t := rawTensor{name: name}
	var size int64
	var has struct{ dtype, shape, offsets bool }
	for key := range c.object() {
		switch string(key) {
		case "dtype":
			kind := c.text()
			known, ok := dtypeBytes[kind]
			if !ok {
				c.fail("tensor %s has the unknown dtype %s", clip([]byte(name)), clip([]byte(kind)))
			}
			t.dtype, size, has.dtype = known.dtype, known.size, true
		case "shape":
			t.rank, has.shape = 0, true
			for i := range c.array() {
				if i == maxRank {
					c.fail("tensor %s has more than %d dimensions", clip([]byte(name)), maxRank)
					break
				}
				t.dims[i] = c.integer()
				t.rank++
			}
		case "data_offsets":
			has.offsets = true
			n := 0
			for i := range c.array() {
				switch v := c.integer(); i {
				case 0:
					t.begin = v
				case 1:
					t.end = v
				}
				n++
			}
			if n != 2 {
				c.fail("tensor %s has %d data offsets, want 2", clip([]byte(name)), n)
			}
		default:
			c.fail("tensor %s has the unknown field %s", clip([]byte(name)), clip(key))
		}
	}
	switch {
	case c.err != nil:
		return t, c.err
	case !has.dtype || !has.shape || !has.offsets:
		return t, fmt.Errorf("tensor %s lacks dtype, shape or data_offsets", clip([]byte(name)))
	case t.begin > t.end:
		return t, fmt.Errorf("tensor %s ends at %d, before it begins at %d", clip([]byte(name)), t.end, t.begin)
	}
	for _, d := range t.dims[:t.rank] {
		if d != 0 && size > (1<<62)/d {
			return t, fmt.Errorf("tensor %s: the shape %v overflows", clip([]byte(name)), t.shape())
		}
		size *= d
	}
	if size != t.end-t.begin {
		return t, fmt.Errorf("tensor %s: shape %v needs %d bytes, its offsets span %d", clip([]byte(name)), t.shape(), size, t.end-t.begin)
	}
	return t, nil
}

// checkTiling checks that offsets cover the data exactly and names are unique; it leaves the table sorted by name.
func (f *container) checkTiling() error {
	slices.SortFunc(f.tensors, func(a, b rawTensor) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end)) })
	at := int64(0)
	for i := range f.tensors {
		t := &f.tensors[i]
		switch {
		case t.end > int64(len(f.data)):
			return fmt.Errorf("tensor %s ends at byte %d of %d: the file is truncated", clip([]byte(t.name)), t.end, len(f.data))
		case t.begin < at:
			return fmt.Errorf("tensor %s overlaps the one before it", clip([]byte(t.name)))
		case t.begin > at:
			return fmt.Errorf("%d bytes before tensor %s belong to no tensor", t.begin-at, clip([]byte(t.name)))
		}
		at = t.end
	}
	if at != int64(len(f.data)) {
		return fmt.Errorf("%d bytes after the last tensor belong to no tensor", int64(len(f.data))-at)
	}
	slices.SortFunc(f.tensors, func(a, b rawTensor) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(f.tensors); i++ {
		if f.tensors[i].name == f.tensors[i-1].name {
			return fmt.Errorf("tensor %s is there twice", clip([]byte(f.tensors[i].name)))
		}
	}
	return nil
}

// floatFormat is the storage format of a plain floating-point tensor.
func (t *rawTensor) floatFormat() (device.Format, bool) {
	switch t.dtype {
	case typeF32:
		return device.F32, true
	case typeBF16:
		return device.BF16, true
	case typeF16:
		return device.F16, true
	}
	return 0, false
}
