package models

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"voxtral/internal/device"
)

// QuantizeOptions says how to pack a model.
type QuantizeOptions struct {
	Format device.Format // BF16, Int8 or Int4, for most matrices
	// Head is the format of the embeddings, which are also the LM head. F32, the zero value, stands for Format, but for
	// Int8 with Int4: the head decides between close tokens, and int8 there takes a fifth off the mean divergence of
	// the demonstration model's predictions (0.0097, from 0.0119) for 8 % more bytes of the published model.
	Head device.Format
	// Group is how many elements share a scale: 32, 64 or 128; 0 means 64 for int8 and 32 for int4.
	Group    int
	Progress func(done, total int64) // bytes of the source; may be nil
	Report   func(TensorReport)      // after each tensor; may be nil
}

// TensorReport is what packing did to one tensor.
type TensorReport struct {
	Name   string // canonical
	Shape  []int
	Format device.Format
	Group  int
	Bytes  int64   // in the packed file, with scales
	RelRMS float64 // root mean square of the error over that of the weights
	MaxAbs float64 // largest error
}

// Summary is what packing did to a model.
type Summary struct {
	Tensors int
	Values  int64   // elements
	Bytes   int64   // of the packed file
	RelRMS  float64 // over all tensors: root of all squared error over all squared weights
	Worst   TensorReport
	Source  string // SHA-256 of the weights read, in hexadecimal
}

// Quantize packs a model into the file dst, which appears whole or not at all. Norms and biases become F32, which is
// exact; the delay conditioning and the convolutions stay BF16 whatever the format: they are 0.24 % of the published model's
// weights, the former scales every feature of every position, and the latter meets raw spectra, where an error cannot
// average out. A few megabytes of codes and one tensor's scales are held at a time.
func Quantize(ctx context.Context, src *Model, dst string, opt QuantizeOptions) (Summary, error) {
	sum, err := quantize(ctx, src, dst, opt)
	if err != nil {
		return Summary{}, fmt.Errorf("models: quantize %s: %w", src.Path, err)
	}
	return sum, nil
}

func quantize(ctx context.Context, src *Model, dst string, opt QuantizeOptions) (Summary, error) {
	if opt.Head == device.F32 {
		opt.Head = defaultHead(opt.Format)
	}
	for _, f := range []device.Format{opt.Format, opt.Head} {
		if f != device.BF16 && f != device.Int8 && f != device.Int4 {
			return Summary{}, fmt.Errorf("format %s cannot be written: use bf16, int8 or int4", f)
		}
	}
	if opt.Group != 0 && !device.ValidGroup(opt.Group) {
		return Summary{}, fmt.Errorf("group size %d, want 32, 64 or 128", opt.Group)
	}
	if src.Meta.Format.Grouped() || src.Meta.Head.Grouped() {
		return Summary{}, fmt.Errorf("it is quantized to %s already: start from the checkpoint or a bf16 file", src.Meta.Format)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := quantizer{ctx: ctx, src: src, opt: opt}
	meta, plan, err := q.layOut()
	if err != nil {
		return Summary{}, err
	}
	if q.out, err = newPackWriter(dst, meta, plan); err != nil {
		return Summary{}, err
	}
	hash := src.startHash(ctx)
	if err = q.writeAll(); err != nil {
		cancel()
	}
	source := <-hash // also on errors: the caller may unmap the weights next
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Summary{}, q.out.abandon(err)
	}
	if q.sum.Bytes, err = q.out.commit(source); err != nil {
		return Summary{}, err
	}
	q.sum.Source = source
	q.sum.RelRMS = q.total.relRMS()
	return q.sum, nil
}

func defaultHead(f device.Format) device.Format {
	if f == device.Int4 {
		return device.Int8
	}
	return f
}

// startHash hashes the weights while they are packed; "" if ctx ends first. A packed source passes on the hash of its
// own source.
func (m *Model) startHash(ctx context.Context) <-chan string {
	out := make(chan string, 1)
	go func() {
		if m.Layout == Packed {
			out <- m.Meta.Source
			return
		}
		h := sha256.New()
		for _, f := range m.files {
			for _, data := range [][]byte{f.header, f.data} {
				for len(data) > 0 && ctx.Err() == nil {
					n := min(len(data), 16<<20)
					h.Write(data[:n])
					data = data[n:]
				}
			}
		}
		if ctx.Err() != nil {
			out <- ""
			return
		}
		out <- hex.EncodeToString(h.Sum(nil))
	}()
	return out
}

// quantizer is one run.
type quantizer struct {
	ctx   context.Context
	src   *Model
	opt   QuantizeOptions
	out   *packWriter
	sum   Summary
	total lossStats
	done  int64 // bytes of the source
	size  int64
}

// target is the format and group of a tensor in the packed file.
func (q *quantizer) target(name string, shape []int) (device.Format, int) {
	f := q.opt.Format
	switch {
	case len(shape) == 1:
		return device.F32, 0
	case name == TokEmbeddings:
		f = q.opt.Head
	case len(shape) == 3 || strings.HasSuffix(name, Ada0) || strings.HasSuffix(name, Ada2):
		f = device.BF16
	}
	return f, q.group(f)
}

func (q *quantizer) group(f device.Format) int {
	switch {
	case !f.Grouped():
		return 0
	case q.opt.Group != 0:
		return q.opt.Group
	case f == device.Int8:
		return 64
	}
	return 32
}

// layOut plans the file.
func (q *quantizer) layOut() (map[string]string, []packedTensor, error) {
	config, err := q.src.Config.encode()
	if err != nil {
		return nil, nil, err
	}
	name := q.src.Name
	if q.src.Layout != Packed {
		if abs, err := filepath.Abs(q.src.Path); err == nil {
			name = filepath.Base(abs)
		}
	}
	meta := map[string]string{
		keyVersion: packedVersion, keyName: name, keyConfig: config, keyFormat: q.opt.Format.String(),
		keyHead: q.opt.Head.String(), keyGroup: strconv.Itoa(q.group(q.opt.Format)),
	}
	plan := []packedTensor{{tekkenFile, typeU8, []int{len(q.src.tekken)}, int64(len(q.src.tekken))}}
	for _, name := range q.src.order {
		t := q.src.tensors[name]
		q.size += int64(len(t.part.Data))
		f, group := q.target(name, t.shape)
		stride := f.RowBytes(t.part.Cols, group)
		codes := packedTensor{name, typeF32, t.shape, int64(t.part.Rows * stride)}
		switch f {
		case device.BF16:
			codes.dtype = typeBF16
		case device.Int8:
			codes.dtype, codes.shape = typeI8, []int{t.part.Rows, stride}
		case device.Int4:
			codes.dtype, codes.shape = typeU8, []int{t.part.Rows, stride}
		}
		plan = append(plan, codes)
		if f.Grouped() {
			groups := device.Groups(t.part.Cols, group)
			plan = append(plan, packedTensor{name + scalesSuffix, typeF16, []int{t.part.Rows, groups}, int64(2 * t.part.Rows * groups)})
		}
	}
	return meta, plan, nil
}

func (q *quantizer) writeAll() error {
	if err := q.out.write(q.src.tekken); err != nil {
		return err
	}
	for _, name := range q.src.order {
		t, err := q.src.lookup(name)
		if err != nil {
			return err
		}
		r := TensorReport{Name: name, Shape: t.shape}
		r.Format, r.Group = q.target(name, t.shape)
		var stats lossStats
		if len(t.shape) == 1 {
			r.Bytes, err = q.writeVector(name)
			stats.values = int64(t.shape[0])
		} else {
			r.Bytes, err = q.writeMatrix(&t.part, r.Format, r.Group, &stats)
		}
		if err != nil {
			return fmt.Errorf("tensor %s: %w", name, err)
		}
		r.RelRMS, r.MaxAbs = stats.relRMS(), stats.max
		q.total.add(stats)
		q.sum.Tensors++
		q.sum.Values += stats.values
		if r.RelRMS > q.sum.Worst.RelRMS {
			q.sum.Worst = r
		}
		if q.opt.Report != nil {
			q.opt.Report(r)
		}
	}
	return nil
}

func (q *quantizer) writeVector(name string) (int64, error) {
	v, err := q.src.Vector(name)
	if err != nil {
		return 0, err
	}
	row := make([]byte, 4*len(v))
	encodeF32(row, v)
	q.advance(len(q.src.tensors[name].part.Data))
	return int64(len(row)), q.out.write(row)
}

// chunkBytes is about how many codes are held at a time.
const chunkBytes = 8 << 20

// writeMatrix packs rows in logical order, a chunk after the other, and then the scales of all.
func (q *quantizer) writeMatrix(src *device.Part, f device.Format, group int, stats *lossStats) (int64, error) {
	p := packer{src: src, chunk: device.Part{Cols: src.Cols, Format: f, Group: group}}
	stride, groups := f.RowBytes(src.Cols, group), 0
	if f.Grouped() {
		groups = device.Groups(src.Cols, group)
	}
	rows := min(src.Rows, max(1, chunkBytes/stride))
	codes, scales := make([]byte, rows*stride), make([]byte, 2*src.Rows*groups)
	for from := 0; from < src.Rows; from += rows {
		if err := q.ctx.Err(); err != nil {
			return 0, err
		}
		n := min(rows, src.Rows-from)
		p.chunk.Rows, p.chunk.Data, p.chunk.Scales = n, codes[:n*stride], scales[2*from*groups:2*(from+n)*groups]
		if err := p.encode(from, stats); err != nil {
			return 0, err
		}
		if err := q.out.write(p.chunk.Data); err != nil {
			return 0, err
		}
		q.advance(len(src.Data) / src.Rows * n)
	}
	if groups == 0 {
		return int64(src.Rows * stride), nil
	}
	return int64(src.Rows*stride + len(scales)), q.out.write(scales)
}

func (q *quantizer) advance(bytes int) {
	q.done += int64(bytes)
	if q.opt.Progress != nil {
		q.opt.Progress(q.done, q.size)
	}
}

// lossStats adds up what rounding cost.
type lossStats struct {
	values            int64
	squared, original float64 // sums of squares of the errors and of the weights
	max               float64
}

func (s *lossStats) add(o lossStats) {
	s.values += o.values
	s.squared += o.squared
	s.original += o.original
	s.max = max(s.max, o.max)
}

func (s *lossStats) relRMS() float64 {
	if s.original == 0 {
		return 0
	}
	return math.Sqrt(s.squared / s.original)
}
