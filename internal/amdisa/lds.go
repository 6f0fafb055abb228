package amdisa

import (
	"fmt"
	"math/bits"
	"strings"
)

// LDS: loads, stores and atomics, checked for bounds, alignment and bytes that nothing has written.

// widths are the access suffixes: bytes, negative where the value is sign-extended.
var widths = map[string]int{"b8": 1, "u8": 1, "i8": -1, "b16": 2, "u16": 2, "i16": -2, "b32": 4, "b64": 8, "b96": 12, "b128": 16,
	"byte": 1, "ubyte": 1, "sbyte": -1, "short": 2, "ushort": 2, "sshort": -2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}

// transfer is how memory and a register exchange a value.
type transfer struct {
	bytes  int
	signed bool
	d16    bool // the other half of the register stays
	high   bool // the high half
}

// parseTransfer understands the suffixes of loads and stores, with their d16 marks at either end.
func parseTransfer(s string) (t transfer, ok bool) {
	if r, cut := strings.CutPrefix(s, "d16_"); cut {
		s, t.d16 = r, true
		if r, cut := strings.CutPrefix(s, "hi_"); cut {
			s, t.high = r, true
		}
	}
	if r, cut := strings.CutSuffix(s, "_d16_hi"); cut {
		s, t.d16, t.high = r, true, true
	} else if r, cut := strings.CutSuffix(s, "_d16"); cut {
		s, t.d16 = r, true
	}
	n := widths[s]
	t.bytes, t.signed = max(n, -n), n < 0
	return t, n != 0
}

// load puts a value from memory into lane l of register r and those after it.
func (t transfer) load(w *wave, r, l int, b []byte) {
	if t.bytes >= 4 {
		for i := range t.bytes / 4 {
			w.v[r+i][l] = le.Uint32(b[4*i:])
		}
		return
	}
	var v uint32
	switch {
	case t.bytes == 1 && t.signed:
		v = uint32(int32(int8(b[0])))
	case t.bytes == 1:
		v = uint32(b[0])
	case t.signed:
		v = sext16(uint32(le.Uint16(b)))
	default:
		v = uint32(le.Uint16(b))
	}
	switch {
	case t.d16 && t.high:
		v = w.v[r][l]&0xffff | v<<16
	case t.d16:
		v = w.v[r][l]&^0xffff | v&0xffff
	}
	w.v[r][l] = v
}

func (t transfer) store(w *wave, r, l int, b []byte) {
	v := w.v[r][l]
	if t.high {
		v >>= 16
	}
	switch t.bytes {
	case 1:
		b[0] = byte(v)
	case 2:
		le.PutUint16(b, uint16(v))
	default:
		for i := range t.bytes / 4 {
			le.PutUint32(b[4*i:], w.v[r+i][l])
		}
	}
}

type accessKind uint8

const (
	accessRead accessKind = iota
	accessWrite
	accessAtomic
)

// lds returns n bytes of LDS at a for lane l.
func (w *wave) lds(l int, a uint64, n int, kind accessKind) []byte {
	g := w.group
	if a+uint64(n) > uint64(len(g.mem)) || a > uint64(len(g.mem)) {
		fail(l, "LDS fault: %d bytes at %#x of %d", n, a, len(g.mem))
	}
	align := uint64(min(n, 4))
	if kind == accessAtomic {
		align = uint64(n)
	}
	if a%align != 0 {
		fail(l, "LDS fault: %d bytes at unaligned %#x", n, a)
	}
	wrote := g.wrote[a:][:n]
	if kind == accessWrite {
		for i := range wrote {
			wrote[i] = 1
		}
	} else {
		for i := range wrote {
			if wrote[i] == 0 {
				fail(l, "reads LDS byte %#x, which nothing has written", a+uint64(i))
			}
		}
	}
	if g.races != nil {
		g.races.note(w, l, int(a), n, kind)
	}
	return g.mem[a:][:n]
}

var atomicDS = map[string]bool{}

func init() {
	for name := range widths {
		for _, d16 := range []string{"", "_d16", "_d16_hi"} {
			register(buildLDSAccess, "ds_read_"+name+d16, "ds_load_"+name+d16, "ds_write_"+name+d16, "ds_store_"+name+d16)
		}
		register(buildLDSAccess, "ds_load_"+name+"_d16", "ds_store_"+name+"_d16_hi")
	}
	for _, verb := range []string{"read2", "write2", "load_2addr", "store_2addr"} {
		for _, width := range []string{"b32", "b64"} {
			register(buildLDSPair, "ds_"+verb+"_"+width)
			if strings.Contains(verb, "_") {
				register(buildLDSPair, "ds_"+verb+"_stride64_"+width)
			} else {
				register(buildLDSPair, "ds_"+verb+"st64_"+width)
			}
		}
	}
}

func buildLDSAccess(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(2); err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(in.name, "_")
	verb, suffix, _ := strings.Cut(rest, "_")
	t, ok := parseTransfer(suffix)
	if !ok {
		return nil, fmt.Errorf("unknown instruction %s", in.name)
	}
	off := uint64(in.offset)
	if verb == "read" || verb == "load" {
		dst, addr := in.ops[0].reg, in.ops[1].reg
		return func(w *wave) {
			for m := w.exec(); m != 0; m &= m - 1 {
				l := bits.TrailingZeros64(m) & 63
				t.load(w, dst, l, w.lds(l, uint64(w.v[addr][l])+off, t.bytes, accessRead))
			}
		}, nil
	}
	addr, src := in.ops[0].reg, in.ops[1].reg
	return func(w *wave) {
		for m := w.exec(); m != 0; m &= m - 1 {
			l := bits.TrailingZeros64(m) & 63
			t.store(w, src, l, w.lds(l, uint64(w.v[addr][l])+off, t.bytes, accessWrite))
		}
	}, nil
}

// buildLDSPair builds the accesses of two places, at offsets in elements or in 64 elements.
func buildLDSPair(_ *Program, in *inst) (func(*wave), error) {
	load := strings.Contains(in.name, "read") || strings.Contains(in.name, "load")
	n := 3
	if load {
		n = 2
	}
	if err := in.want(n); err != nil {
		return nil, err
	}
	t := transfer{bytes: widths[in.name[len(in.name)-3:]]}
	unit := t.bytes
	if strings.Contains(in.name, "64_") && !strings.HasSuffix(in.name, "2_b64") {
		unit *= 64
	}
	off := [2]uint64{uint64(atoi(in.mods["offset0"]) * unit), uint64(atoi(in.mods["offset1"]) * unit)}
	return func(w *wave) {
		w.each(func(l int) {
			if !load {
				for i := range 2 {
					t.store(w, in.ops[1+i].reg, l, w.lds(l, uint64(w.v[in.ops[0].reg][l])+off[i], t.bytes, accessWrite))
				}
				return
			}
			addr := uint64(w.v[in.ops[1].reg][l])
			for i := range 2 {
				t.load(w, in.ops[0].reg+i*t.bytes/4, l, w.lds(l, addr+off[i], t.bytes, accessRead))
			}
		})
	}, nil
}

// raceMap remembers, for every byte of LDS, which wave last wrote and read it since which barrier.
type raceMap struct {
	epoch         uint32
	writes, reads []touch
}

type touch struct {
	epoch  uint32
	wave   int32
	atomic bool
}

func newRaceMap(n int) *raceMap {
	return &raceMap{epoch: 1, writes: make([]touch, n), reads: make([]touch, n)}
}

func (r *raceMap) reset() { r.epoch++ }

func (r *raceMap) note(w *wave, lane, at, n int, kind accessKind) {
	me := touch{r.epoch, int32(w.number), kind == accessAtomic}
	for i := at; i < at+n; i++ {
		other := r.writes[i]
		if other.epoch == r.epoch && other.wave != me.wave && (!other.atomic || !me.atomic) {
			fail(lane, "race: wave %d wrote LDS byte %#x with no barrier in between", other.wave, i)
		}
		if kind == accessRead {
			r.reads[i] = me
			continue
		}
		if other := r.reads[i]; other.epoch == r.epoch && other.wave != me.wave {
			fail(lane, "race: wave %d read LDS byte %#x with no barrier in between", other.wave, i)
		}
		r.writes[i] = me
	}
}
