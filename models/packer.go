package models

import (
	"encoding/binary"
	"fmt"
	"math"
	goruntime "runtime"
	"sync"

	"voxtral/internal/device"
)

// packer packs rows of one matrix into a chunk of another format.
type packer struct {
	src   *device.Part
	chunk device.Part // the rows that are being written
}

// encode fills the chunk with the logical rows from first on, on all cores, and adds what it cost to stats.
func (p *packer) encode(first int, stats *lossStats) error {
	workers := min(goruntime.GOMAXPROCS(0), p.chunk.Rows)
	rows, errs := make([]lossStats, p.chunk.Rows), make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			s := newRowPacker(p)
			for r := w * p.chunk.Rows / workers; r < (w+1)*p.chunk.Rows/workers; r++ {
				if errs[w] = s.row(first, r, &rows[r]); errs[w] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	for _, r := range rows { // in order: the same sums for any number of cores
		stats.add(r)
	}
	return nil
}

// rowPacker is one worker's scratch.
type rowPacker struct {
	*packer
	x, w, codes, back []float32 // one row, padded with zeros to whole groups
}

func newRowPacker(p *packer) *rowPacker {
	n := p.chunk.Cols
	if p.chunk.Format.Grouped() {
		n = device.Groups(n, p.chunk.Group) * p.chunk.Group
	}
	return &rowPacker{packer: p, x: make([]float32, n), w: make([]float32, n), codes: make([]float32, n), back: make([]float32, n)}
}

// row packs logical row first + r into row r of the chunk.
func (s *rowPacker) row(first, r int, stats *lossStats) error {
	x := s.x[:s.chunk.Cols]
	s.src.Dequantize(x, s.src.StoredRow(first+r))
	for i, v := range x {
		if v-v != 0 { // infinite or not a number
			return fmt.Errorf("row %d, column %d is %v: the checkpoint is damaged", first+r, i, v)
		}
	}
	stride := s.chunk.Format.RowBytes(s.chunk.Cols, s.chunk.Group)
	dst := s.chunk.Data[r*stride : (r+1)*stride]
	if s.chunk.Format.Grouped() {
		if err := s.groups(r); err != nil {
			return fmt.Errorf("row %d: %w", first+r, err)
		}
	}
	switch s.chunk.Format {
	case device.BF16:
		encodeBF16(dst, x)
	case device.Int8:
		for i, c := range s.codes {
			dst[i] = byte(int8(c))
		}
	case device.Int4:
		clear(dst)
		for i, c := range s.codes {
			at, shift := device.Int4Index(i)
			dst[at] |= byte(int(c)+8) << shift
		}
	}
	s.chunk.Dequantize(s.back, r)
	for i, v := range x {
		d := float64(s.back[i]) - float64(v)
		stats.squared += d * d
		stats.original += float64(v) * float64(v)
		stats.max = max(stats.max, math.Abs(d))
	}
	if math.IsInf(stats.max, 0) {
		return fmt.Errorf("row %d has values too large for %s", first+r, s.chunk.Format)
	}
	stats.values = int64(len(x))
	return nil
}

// groups finds the codes and scales of one row.
func (s *rowPacker) groups(r int) error {
	g := &int4Grid
	if s.chunk.Format == device.Int8 {
		g = &int8Grid
	}
	weigh(s.w, s.x)
	n := s.chunk.Group
	scales := s.chunk.Scales[2*r*(len(s.x)/n):]
	for i := 0; i < len(s.x); i += n {
		scale, ok := g.fit(s.codes[i:i+n], s.x[i:i+n], s.w[i:i+n])
		if !ok {
			return fmt.Errorf("columns %d to %d are too large for %s", i, i+n-1, s.chunk.Format)
		}
		binary.LittleEndian.PutUint16(scales[2*(i/n):], scale)
	}
	return nil
}

// encodeBF16 rounds to nearest, ties to even.
func encodeBF16(dst []byte, x []float32) {
	for i, v := range x {
		b := math.Float32bits(v)
		binary.LittleEndian.PutUint16(dst[2*i:], uint16((b+0x7fff+b>>16&1)>>16))
	}
}

func encodeF32(dst []byte, x []float32) {
	for i, v := range x {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
	}
}
