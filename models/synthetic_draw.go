package models

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	goruntime "runtime"
	"sync"

	"voxtral/internal/device"
)

// fill writes n random bytes of the named tensor, a chunk after the other, each drawn on all cores.
func (s *synthesizer) fill(buf []byte, n int, name string, table *drawTable) error {
	seed := nameSeed(name)
	for from := 0; from < n; from += len(buf) {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		chunk := buf[:min(len(buf), n-from)]
		blocks := (len(chunk) + drawBlock - 1) / drawBlock
		workers := min(goruntime.GOMAXPROCS(0), blocks)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for b := w * blocks / workers; b < (w+1)*blocks/workers; b++ {
					at := b * drawBlock
					table.draw(chunk[at:min(at+drawBlock, len(chunk))], seed+uint64(from+at)*0x9e3779b97f4a7c15)
				}
			})
		}
		wg.Wait()
		if err := s.out.write(chunk); err != nil {
			return err
		}
		s.advance(len(chunk))
	}
	return nil
}

func nameSeed(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// splitmix is a generator whose every state is a good start, so that each block of a tensor has a stream of its own.
type splitmix uint64

func (s *splitmix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// drawBlock is how many bytes come from one stream.
const drawBlock = 64 << 10

// drawTable turns 16 random bits into one element, or a byte of two; width is its bytes.
type drawTable struct {
	values [1 << 16]uint16
	width  int
}

func (t *drawTable) draw(dst []byte, seed uint64) {
	r := splitmix(seed)
	if t.width == 1 {
		for ; len(dst) >= 4; dst = dst[4:] {
			x := r.next()
			v := uint32(t.values[x&0xffff]) | uint32(t.values[x>>16&0xffff])<<8 | uint32(t.values[x>>32&0xffff])<<16 | uint32(t.values[x>>48])<<24
			binary.LittleEndian.PutUint32(dst, v)
		}
		for i := range dst {
			dst[i] = byte(t.values[r.next()>>48])
		}
		return
	}
	for ; len(dst) >= 8; dst = dst[8:] {
		x := r.next()
		v := uint64(t.values[x&0xffff]) | uint64(t.values[x>>16&0xffff])<<16 | uint64(t.values[x>>32&0xffff])<<32 | uint64(t.values[x>>48])<<48
		binary.LittleEndian.PutUint64(dst, v)
	}
	for ; len(dst) >= 2; dst = dst[2:] {
		binary.LittleEndian.PutUint16(dst, t.values[r.next()>>48])
	}
}

// codeStd is the standard deviation of the codes, which leaves the range about as full as quantizing does.
var codeStd = map[device.Format]float64{device.Int4: 2.8, device.Int8: 42}

// codeTables are made once: the codes of all tensors are distributed alike.
var codeTables = struct{ int4, int8 func() *drawTable }{
	int4: sync.OnceValue(func() *drawTable {
		t := &drawTable{width: 1}
		nibble := func(i int) int { return code(i, 1<<8, device.Int4, -8, 7) + 8 }
		for i := range t.values {
			t.values[i] = uint16(nibble(i&0xff) | nibble(i>>8)<<4)
		}
		return t
	}),
	int8: sync.OnceValue(func() *drawTable {
		t := &drawTable{width: 1}
		for i := range t.values {
			t.values[i] = uint16(uint8(int8(code(i, 1<<16, device.Int8, -128, 127))))
		}
		return t
	}),
}

func code(i, n int, f device.Format, lo, hi int) int {
	return min(max(int(math.Round(codeStd[f]*gaussian(i, n))), lo), hi)
}

// gaussian is the middle of the i-th of n equally likely slices of the normal distribution.
func gaussian(i, n int) float64 { return math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/float64(n)-1) }

func bf16Table(std float64) *drawTable {
	t := &drawTable{width: 2}
	x := make([]float32, len(t.values))
	for i := range x {
		x[i] = float32(std * gaussian(i, len(x)))
	}
	b := make([]byte, 2*len(x))
	encodeBF16(b, x)
	for i := range t.values {
		t.values[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return t
}

// scaleTable spreads scales evenly by a quarter to either side of their mean.
func scaleTable(mean float64) *drawTable {
	t := &drawTable{width: 2}
	for i := range t.values {
		t.values[i] = device.FloatToHalf(float32(mean * (0.75 + 0.5*float64(i)/float64(len(t.values)))))
	}
	return t
}
