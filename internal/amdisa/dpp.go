package amdisa

import (
	"math/bits"
	"strconv"
	"strings"
)

// dppControl moves lanes of the first source: source lane per lane, or -1 where there is none.
type dppControl struct {
	from     [64]int8
	enabled  uint64 // row and bank masks
	valid    uint64 // lanes that have a source
	zero     bool   // bound_ctrl: lanes without a source read zero instead of keeping the destination
	inactive bool   // fi: read lanes that are switched off
}

// laneMoves gives the source lane for each DPP control, by lane and the control's number.
var laneMoves = map[string]func(l, n int) int{
	"row_shl": func(l, n int) int { return inRow(l, l&15+n) },
	"row_shr": func(l, n int) int { return inRow(l, l&15-n) },
	"row_ror": func(l, n int) int { return l&^15 + (l-n)&15 },
	"row_bcast": func(l, n int) int {
		if n == 15 {
			return l&^15 - 1
		}
		return l&^31 - 1
	},
	"wave_shr": func(l, _ int) int { return l - 1 },
	"wave_ror": func(l, _ int) int { return (l - 1) & 63 },
	"wave_rol": func(l, _ int) int { return (l + 1) & 63 },
	"wave_shl": func(l, _ int) int {
		if l == 63 {
			return -1
		}
		return l + 1
	},
	"row_share":       func(l, n int) int { return l&^15 + n },
	"row_newbcast":    func(l, n int) int { return l&^15 + n },
	"row_xmask":       func(l, n int) int { return l ^ n },
	"row_mirror":      func(l, _ int) int { return l ^ 15 },
	"row_half_mirror": func(l, _ int) int { return l ^ 7 },
}

func inRow(l, at int) int {
	if at < 0 || at > 15 {
		return -1
	}
	return l&^15 + at
}

func readDPP(take func(string) (string, bool)) *dppControl {
	d := &dppControl{}
	found := false
	set := func(move func(l int) int) {
		found = true
		for l := range d.from {
			s := move(l)
			d.from[l] = int8(s)
			if s >= 0 {
				d.valid |= 1 << l
			}
		}
	}
	for name, move := range laneMoves {
		if v, ok := take(name); ok {
			n, _ := strconv.Atoi(v)
			set(func(l int) int { return move(l, n) })
		}
	}
	if v, ok := take("quad_perm"); ok {
		q := parseInts(v)
		set(func(l int) int { return l&^3 + q[l&3]&3 })
	}
	if v, ok := take("dpp8"); ok {
		q := parseInts(v)
		set(func(l int) int { return l&^7 + q[l&7]&7 })
	}
	if !found {
		return nil
	}
	mask := func(key string) uint64 {
		if v, ok := take(key); ok {
			if n, err := strconv.ParseUint(strings.TrimPrefix(v, "0x"), 16, 8); err == nil {
				return n
			}
		}
		return 15
	}
	rows, banks := mask("row_mask"), mask("bank_mask")
	for l := range 64 {
		d.enabled |= rows >> (l / 16) & (banks >> (l & 15 / 4)) & 1 << l
	}
	_, d.zero = take("bound_ctrl")
	fi, ok := take("fi")
	d.inactive = ok && fi == "1"
	return d
}

// readable is the set of lanes whose source exists and, without fi, is switched on.
func (d *dppControl) readable(exec uint64) uint64 {
	if d.inactive || exec == ^uint64(0) {
		return d.valid
	}
	m := d.valid
	for t := m; t != 0; t &= t - 1 {
		l := bits.TrailingZeros64(t)
		m &^= (^exec >> uint(d.from[l]) & 1) << l
	}
	return m
}

// move writes src, moved, into out; lanes without a source get zero.
func (d *dppControl) move(out, src []uint32, exec uint64) {
	ok := d.readable(exec)
	for l := range out {
		out[l] = 0
		if ok>>l&1 == 1 && int(d.from[l]) < len(src) {
			out[l] = src[d.from[l]]
		}
	}
}

// writes is the set of lanes that the instruction may write.
func (d *dppControl) writes(exec uint64) uint64 {
	if d.zero {
		return exec & d.enabled
	}
	return exec & d.enabled & d.readable(exec)
}

// sdwaControl selects bytes or words of the sources and of the destination.
type sdwaControl struct {
	src      [2]part
	dst      part
	preserve bool // the unselected bits of the destination stay
	extend   bool // they take the selected part's sign
}

// part is a run of bits of a register.
type part struct{ shift, width uint }

func parsePart(s string) part {
	switch {
	case strings.HasPrefix(s, "BYTE_"):
		return part{8 * uint(s[5]-'0'), 8}
	case strings.HasPrefix(s, "WORD_"):
		return part{16 * uint(s[5]-'0'), 16}
	}
	return part{0, 32}
}

func (p part) get(v uint32, signed bool) uint32 {
	v <<= 32 - p.shift - p.width
	if signed {
		return uint32(int32(v) >> (32 - p.width))
	}
	return v >> (32 - p.width)
}

func readSDWA(take func(string) (string, bool)) *sdwaControl {
	s0, _ := take("src0_sel")
	s1, _ := take("src1_sel")
	d, _ := take("dst_sel")
	unused, _ := take("dst_unused")
	return &sdwaControl{src: [2]part{parsePart(s0), parsePart(s1)}, dst: parsePart(d),
		preserve: unused == "UNUSED_PRESERVE", extend: unused == "UNUSED_SEXT"}
}

// put merges result v into the destination's old value.
func (s *sdwaControl) put(old, v uint32) uint32 {
	if s.dst.width == 32 {
		return v
	}
	mask := uint32(1<<s.dst.width-1) << s.dst.shift
	w := v << s.dst.shift & mask
	switch {
	case s.preserve:
		return old&^mask | w
	case s.extend:
		return w | uint32(int32(w<<(32-s.dst.shift-s.dst.width))>>31)<<(s.dst.shift+s.dst.width-1)<<1
	}
	return w
}
