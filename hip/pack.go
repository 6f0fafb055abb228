package hip

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"

	"voxtral/internal/device"
)

// The layout that the kernels read: a weight is cut into tiles of 16 rows, a tile into slabs of 1 KiB. A slab is
// [half 2][quarter 4][row 8] of 16 bytes, half h with rows 8h..8h+7, and 32·n columns wide, n = 4 for int4, 2 for int8, 1 for two-byte formats. Quarter q of
// a row holds columns 8q..8q+7 of each group of 32 columns. The eight columns of an int4 group are one word: column 2i in
// nibble i, column 2i+1 in nibble i+4. Scales are [tile][slab][row 16][n], fewer if several groups share one.
const (
	tileRows  = 16
	slabBytes = 1024
)

// packed is a weight in that layout.
type packed struct {
	format device.Format
	group  int // columns that share a scale, 0 if not grouped
	rows   int
	cols   int
	half   int // rows of one part if a tile holds 8 rows of each of two equal parts (gate and up), else 0
	codes  []byte
	scales []byte
}

// tiles is the number of tiles of 16 rows.
func (p *packed) tiles() int {
	if p.half > 0 {
		return (p.half + tileRows/2 - 1) / (tileRows / 2)
	}
	return (p.rows + tileRows - 1) / tileRows
}

// row is the weight's row at place r of a tile; it may be none of the weight's.
func (p *packed) row(tile, r int) (row int, ok bool) {
	if p.half > 0 {
		in := tile*(tileRows/2) + r%(tileRows/2)
		return in + r/(tileRows/2)*p.half, in < p.half
	}
	row = tile*tileRows + r
	return row, row < p.rows
}

// slabGroups is how many groups of 32 columns a slab covers.
func slabGroups(f device.Format) int {
	switch f {
	case device.Int4:
		return 4
	case device.Int8:
		return 2
	default:
		return 1
	}
}

// slabs is the number of slabs of a tile.
func (p *packed) slabs() int {
	w := 32 * slabGroups(p.format)
	return (p.cols + w - 1) / w
}

// slabScales is the number of scales of a row in a slab.
func (p *packed) slabScales() int {
	if !p.format.Grouped() {
		return 0
	}
	return max(1, 32*slabGroups(p.format)/p.group)
}

// pack lays a weight out for the kernels. All parts must have one format and group; F32 has no kernel.
func pack(d *device.WeightDesc) (*packed, error) {
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("hip: %w", err)
	}
	first := &d.Parts[0]
	p := &packed{format: first.Format, group: first.Group, rows: d.Rows(), cols: d.Cols()}
	if p.format == device.F32 {
		return nil, fmt.Errorf("hip: weight %q is f32: the GPU multiplies by bf16, f16, int8 and int4; quantize or convert it", d.Name)
	}
	for i := range d.Parts {
		if part := &d.Parts[i]; part.Format != p.format || part.Format.Grouped() && part.Group != p.group {
			return nil, fmt.Errorf("hip: weight %q: part %q is %s in groups of %d, the first is %s in groups of %d: one format a weight",
				d.Name, part.Name, part.Format, part.Group, p.format, p.group)
		}
	}
	if len(d.Parts) == 2 && d.Parts[0].Rows == d.Parts[1].Rows {
		p.half = d.Parts[0].Rows
	}
	p.codes = make([]byte, p.tiles()*p.slabs()*slabBytes)
	p.scales = make([]byte, p.tiles()*p.slabs()*tileRows*p.slabScales()*2)
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			for tile := w; tile < p.tiles(); tile += workers {
				p.packTile(d, tile)
			}
		})
	}
	wg.Wait()
	return p, nil
}

func (p *packed) packTile(d *device.WeightDesc, tile int) {
	for r := range tileRows {
		row, ok := p.row(tile, r)
		if !ok {
			continue // nobody reads such a row's product
		}
		part := 0
		for row >= d.Parts[part].Rows {
			row -= d.Parts[part].Rows
			part++
		}
		p.packRow(&d.Parts[part], d.Parts[part].StoredRow(row), tile, r)
	}
}

// packRow writes stored row from of a part to place r of a tile.
func (p *packed) packRow(part *device.Part, from, tile, r int) {
	stride := p.format.RowBytes(p.cols, p.group)
	src := part.Data[from*stride : (from+1)*stride]
	groupBytes := slabBytes / tileRows / slabGroups(p.format)                                // of 32 columns
	for g := range min((len(src)+groupBytes-1)/groupBytes, p.slabs()*slabGroups(p.format)) { // rows may be padded to whole scale groups
		in := src[g*groupBytes : min((g+1)*groupBytes, len(src))]
		for q := range 4 {
			at := p.at(tile, r, g, q)
			switch {
			case p.format == device.Int4:
				binary.LittleEndian.PutUint32(p.codes[at:], int4Word(in, q))
			case q*groupBytes/4 < len(in):
				copy(p.codes[at:at+groupBytes/4], in[q*groupBytes/4:])
			}
		}
	}
	if !p.format.Grouped() {
		return
	}
	groups, n := device.Groups(p.cols, p.group), p.slabScales()
	for s := range p.slabs() {
		for i := range n {
			column := 32*slabGroups(p.format)*s + i*32*slabGroups(p.format)/n
			if g := column / p.group; g < groups {
				to := 2 * (((tile*p.slabs()+s)*tileRows+r)*n + i)
				copy(p.scales[to:to+2], part.Scales[2*(from*groups+g):])
			}
		}
	}
}

// at is the byte where quarter q of group g of 32 columns lies, for place r of a tile.
func (p *packed) at(tile, r, g, q int) int {
	n := slabGroups(p.format)
	return (tile*p.slabs()+g/n)*slabBytes + r/8*512 + q*128 + r%8*16 + g%n*16/n
}

// int4Word gathers columns 8q..8q+7 of 32 (byte j: column j low, column j+16 high) as the kernels want them.
func int4Word(in []byte, q int) uint32 {
	v := binary.LittleEndian.Uint64(in[q%2*8:]) >> (q / 2 * 4)
	even, odd := v&0x000f000f000f000f, v>>8&0x000f000f000f000f
	return (nibbles(even) | nibbles(odd)<<16) ^ 0x88888888 // stored as code + 8, wanted as four bits of two's complement
}

// nibbles packs the low nibbles of four 16-bit lanes into 16 bits.
func nibbles(v uint64) uint32 {
	v = (v | v>>12) & 0x000000ff000000ff
	return uint32(v|v>>24) & 0xffff
}
