package amdisa

import (
	"math"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// laneCase is the arithmetic of one micro-kernel: lane l of 64, of waves of `wave` lanes, from all lanes' words.
type laneCase struct {
	name  string
	input string // bits, floats or halves
	want  func(l, wave int, a, b, c []uint32) uint32
	ulps  int    // for instructions that are not exact on hardware either
	only  string // "gfx9" or "rdna"; empty for all
}

func one(f func(a, b, c uint32) uint32) func(l, wave int, a, b, c []uint32) uint32 {
	return func(l, _ int, a, b, c []uint32) uint32 { return f(a[l], b[l], c[l]) }
}

func floats(f func(a, b, c float32) float32) func(l, wave int, a, b, c []uint32) uint32 {
	return one(func(a, b, c uint32) uint32 { return b32(f(f32(a), f32(b), f32(c))) })
}

// exact rounds a function of doubles once.
func exact(f func(a, b, c float64) float64) func(l, wave int, a, b, c []uint32) uint32 {
	return floats(func(a, b, c float32) float32 { return float32(f(float64(a), float64(b), float64(c))) })
}

// moved is a lane's word from the lane that f names, or zero from -1.
func moved(f func(l, wave int) int) func(l, wave int, a, b, c []uint32) uint32 {
	return func(l, wave int, a, _, _ []uint32) uint32 {
		s := f(l&(wave-1), wave)
		if s < 0 {
			return 0
		}
		return a[l&^(wave-1)+s]
	}
}

func halfPair(f func(a, b, c float64) float64) func(l, wave int, a, b, c []uint32) uint32 {
	return one(func(a, b, c uint32) (r uint32) {
		for sh := 0; sh < 32; sh += 16 {
			r |= uint32(refHalf(f(refWiden(a>>sh), refWiden(b>>sh), refWiden(c>>sh)))) << sh
		}
		return r
	})
}

// refWiden and refHalf are halves by the book: scaled integers, no tables.
func refWiden(h uint32) float64 {
	s, e, m := 1-2*float64(h>>15&1), int(h>>10&31), float64(h&1023)
	if e == 0 {
		return s * math.Ldexp(m, -24)
	}
	return s * math.Ldexp(1024+m, e-25)
}

func refHalf(f float64) uint16 {
	s := uint16(math.Float64bits(f)>>48) & 0x8000
	a := math.Abs(f)
	e := max(math.Ilogb(a), -14)
	if a == 0 {
		e = -14
	}
	q := math.RoundToEven(math.Ldexp(a, 10-e))
	if math.Ldexp(q, e-10) >= 65520 || math.IsInf(a, 0) {
		return s | 0x7c00
	}
	if q >= 2048 {
		q, e = q/2, e+1
	}
	if q < 1024 {
		return s | uint16(q)
	}
	return s | uint16(e+15)<<10 | uint16(q-1024)
}

func when(b bool, v uint32) uint32 {
	if b {
		return v
	}
	return 0
}

// sum32 adds elements of width bits pairwise multiplied, signed or not.
func sum32(width int, signed bool) func(a, b, c uint32) uint32 {
	return func(a, b, c uint32) uint32 {
		for sh := 0; sh < 32; sh += width {
			x, y := int32(a>>sh&(1<<width-1)), int32(b>>sh&(1<<width-1))
			if signed && x >= 1<<(width-1) {
				x -= 1 << width
			}
			if signed && y >= 1<<(width-1) {
				y -= 1 << width
			}
			c += uint32(x * y)
		}
		return c
	}
}

var laneCases = []laneCase{
	{name: "add_sub", want: one(func(a, b, c uint32) uint32 { return a + b - (c ^ 0x1234567) })},
	{name: "logic", want: one(func(a, b, c uint32) uint32 { return a&b | (^a&c ^ (b | c)) })},
	{name: "shifts", want: one(func(a, b, c uint32) uint32 { return a<<(b&31) ^ a>>(c&31) ^ uint32(int32(b)>>(c&31)) })},
	{name: "mul_lo", want: one(func(a, b, c uint32) uint32 { return a*b + c })},
	{name: "mul_hi", want: one(func(a, b, c uint32) uint32 {
		hi, _ := bits.Mul32(a, b)
		return hi ^ uint32(int64(int32(a))*int64(int32(c))>>32)
	})},
	{name: "mul64", want: one(func(a, b, c uint32) uint32 {
		x := (uint64(a)<<32 | uint64(b)) * (uint64(b)<<32 | uint64(c))
		return uint32(x>>32) ^ uint32(x)
	})},
	{name: "add64", want: one(func(a, b, c uint32) uint32 {
		x := uint64(a)<<32 | uint64(b)
		x += uint64(c)<<32 | uint64(a)
		x -= uint64(b)
		return uint32(x>>32) ^ uint32(x)
	})},
	{name: "shift64", want: one(func(a, b, c uint32) uint32 {
		x := uint64(a)<<32 | uint64(b)
		return uint32(x<<(c&63)>>32) ^ uint32(x>>(b&63)) ^ uint32(int64(x)>>(a&63))
	})},
	{name: "divide", want: one(func(a, b, c uint32) uint32 { return a/(b&1023+1) + uint32(int32(c)%(int32(a&255)+1)) })},
	{name: "bitcount", want: one(func(a, b, c uint32) uint32 {
		return uint32(bits.LeadingZeros32(a|1)*1000 + bits.OnesCount32(b) + 100000*bits.TrailingZeros32(c|1<<31))
	})},
	{name: "reverse", want: one(func(a, b, _ uint32) uint32 { return bits.Reverse32(a) ^ bits.ReverseBytes32(b) })},
	{name: "fields", want: one(func(a, b, _ uint32) uint32 {
		return a>>7&0x1ff ^ (a&0x00ff00ff | b&^0x00ff00ff) ^ uint32(int32(b<<4)>>28)
	})},
	{name: "perm", want: func(l, _ int, a, b, _ []uint32) (r uint32) {
		for i := range 4 {
			k := (0x05010400 ^ uint32(l&3)) >> (8 * i) & 255
			r |= uint32((uint64(a[l])<<32|uint64(b[l]))>>(8*k)) & 255 << (8 * i)
		}
		return r
	}},
	{name: "alignbit", want: one(func(a, b, c uint32) uint32 { return uint32((uint64(a)<<32 | uint64(b)) >> (c & 31)) })},
	{name: "sad", want: one(func(a, b, c uint32) uint32 {
		for sh := 0; sh < 32; sh += 8 {
			d := int(a>>sh&255) - int(b>>sh&255)
			c += uint32(max(d, -d))
		}
		return c
	})},
	{name: "min_max", want: one(func(a, b, c uint32) uint32 {
		return uint32(min(max(int32(a), int32(b)), int32(c))) + max(a, b) - min(b, c)
	})},
	{name: "short_math", want: one(func(a, b, c uint32) uint32 {
		x := (uint16(a)*uint16(b) + uint16(c)) >> (b & 7)
		return uint32(x + uint16(int16(b)>>3))
	})},
	{name: "select", want: one(func(a, b, c uint32) uint32 {
		switch {
		case int32(a) < int32(b):
			return c
		case a > c:
			return b
		case a == 7:
			return 1
		}
		return 2
	})},
	{name: "f_math", input: "floats", want: floats(func(a, b, c float32) float32 { return float32(a*b) + c })},
	{name: "f_fma", input: "floats", want: exact(func(a, b, c float64) float64 { return math.FMA(a, b, -c) })},
	{name: "f_sub_abs", input: "floats", want: floats(func(a, b, _ float32) float32 {
		return float32(math.Abs(float64(a))) - float32(math.Abs(float64(b)))*0.5
	})},
	{name: "f_div", input: "floats", want: floats(func(a, b, _ float32) float32 { return a / b })},
	{name: "f_minmax", input: "floats", want: floats(func(a, b, c float32) float32 { return min(a, b) + max(c, 0.25) })},
	{name: "f_med3", input: "floats", want: floats(func(a, b, _ float32) float32 {
		return max(min(a, -0.5), min(max(a, -0.5), b))
	})},
	{name: "f_compare", input: "floats", want: one(func(a, b, c uint32) uint32 {
		x, y, z := f32(a), f32(b), f32(c)
		return when(x < y, 1) + when(x >= z, 2) + when(y != z, 4) + when(!(x > 0), 8)
	})},
	{name: "f_class", want: one(func(a, b, c uint32) uint32 {
		x, y, z := float64(f32(a)), float64(f32(b)), float64(f32(c))
		return when(math.IsNaN(x), 1) + when(math.IsInf(y, 0), 2) + when(!math.IsNaN(z) && !math.IsInf(z, 0), 4)
	})},
	{name: "f_round", input: "floats", want: floats(func(a, b, c float32) float32 {
		x, y, z := float64(a), float64(b), float64(c)
		r := float32(math.RoundToEven(x*4)) + float32(math.Floor(y))*8
		return r + float32(math.Trunc(z)) + float32(math.Ceil(x))
	})},
	{name: "f_ldexp", input: "floats", want: one(func(a, b, _ uint32) uint32 {
		return b32(float32(math.Ldexp(float64(f32(a)), int(b&7)-3)))
	})},
	{name: "f_exp2", input: "floats", ulps: 1, want: exact(func(a, _, _ float64) float64 { return math.Exp2(a) })},
	{name: "f_log2", input: "floats", ulps: 1, want: floats(func(a, _, _ float32) float32 {
		return float32(math.Log2(math.Abs(float64(float32(math.Abs(float64(a))) + 0.1))))
	})},
	{name: "f_rcp", input: "floats", ulps: 1, want: floats(func(a, _, _ float32) float32 { return 1 / (a + 3) })},
	{name: "f_rsq", input: "floats", ulps: 1, want: floats(func(a, _, _ float32) float32 {
		return float32(1 / math.Sqrt(float64(float32(math.Abs(float64(a)))+1)))
	})},
	{name: "f_sqrt", input: "floats", ulps: 1, want: exact(func(a, _, _ float64) float64 { return math.Sqrt(math.Abs(a)) })},
	{name: "f_sin", input: "floats", ulps: 1, want: exact(func(a, _, _ float64) float64 { return math.Sin(2 * math.Pi * math.Mod(a/8, 1)) })},
	{name: "f_double", input: "floats", want: exact(func(a, b, _ float64) float64 { return math.FMA(a, b, 1.25) + a*0.5 })},
	{name: "cvt_int", input: "floats", want: one(func(a, b, c uint32) uint32 {
		return b32(float32(int32(a))) ^ b32(float32(b)) ^ uint32(int32(f32(c)*1000))
	})},
	{name: "cvt_bytes", want: one(func(a, _, _ uint32) uint32 { return b32(float32(a>>16&255 + a&255<<8)) })},
	{name: "cvt_half", input: "floats", want: one(func(a, b, _ uint32) uint32 {
		return uint32(refHalf(float64(f32(a)))) | uint32(refHalf(float64(f32(b))))<<16
	})},
	{name: "cvt_float", input: "halves", want: one(func(a, b, _ uint32) uint32 { return b32(float32(refWiden(a)) + float32(refWiden(b>>16))) })},
	{name: "cvt_pkrtz", input: "floats", want: one(func(a, b, _ uint32) uint32 {
		rtz := func(f float32) uint32 {
			h := refHalf(float64(f))
			if math.Abs(refWiden(uint32(h))) > math.Abs(float64(f)) {
				h--
			}
			return uint32(h)
		}
		return rtz(f32(a)) | rtz(f32(b)*3)<<16
	})},
	{name: "h_math", input: "halves", want: one(func(a, b, _ uint32) uint32 {
		x, y := refWiden(a), refWiden(b)
		p := refWiden(uint32(refHalf(x * y)))
		s := refWiden(uint32(refHalf(p + x)))
		return uint32(refHalf(s - y))
	})},
	{name: "pk_add", input: "halves", want: halfPair(func(a, _, _ float64) float64 { return a - 1032 })},
	{name: "pk_mul", input: "halves", want: halfPair(func(a, b, _ float64) float64 { return a * b })},
	{name: "pk_fma", input: "halves", want: halfPair(func(a, b, c float64) float64 { return a*b + c })},
	{name: "pk_swap", input: "halves", want: one(func(a, b, _ uint32) uint32 {
		f := func(x, y, z uint32) uint32 {
			p := refWiden(uint32(refHalf(refWiden(x) * refWiden(y))))
			return uint32(refHalf(p - refWiden(z)))
		}
		return f(a>>16, b, b>>16) | f(a, b>>16, b)<<16
	})},
	{name: "mix", input: "mixed", want: one(func(a, b, c uint32) uint32 {
		return b32(float32(math.FMA(refWiden(a), refWiden(b>>16), float64(f32(c)))))
	})},
	{name: "mix_half", input: "mixed", want: one(func(a, b, c uint32) (r uint32) {
		for sh := 0; sh < 32; sh += 16 {
			f := float32(math.FMA(refWiden(a>>sh), refWiden(b>>sh), float64(f32(c))))
			r |= uint32(refHalf(float64(f))) << sh
		}
		return r
	})},
	{name: "dot2", input: "mixed", ulps: 1, want: one(func(a, b, c uint32) uint32 {
		r := float32(math.FMA(refWiden(a), refWiden(b), float64(f32(c))))
		return b32(float32(math.FMA(refWiden(a>>16), refWiden(b>>16), float64(r))))
	})},
	{name: "udot8", want: one(sum32(4, false))}, {name: "udot4", want: one(sum32(8, false))},
	{name: "sdot8", want: one(sum32(4, true))}, {name: "sdot4", want: one(sum32(8, true))},
	{name: "dpp_quad", want: moved(func(l, _ int) int { return l ^ 1 })},
	{name: "dpp_shr1", want: moved(func(l, _ int) int {
		if l%16 == 0 {
			return -1
		}
		return l - 1
	})},
	{name: "dpp_shr4_old", want: func(l, _ int, a, _, _ []uint32) uint32 {
		if l%16 < 4 {
			return 0xdead
		}
		return a[l-4]
	}},
	{name: "dpp_shl2", want: moved(func(l, _ int) int {
		if l%16 > 13 {
			return -1
		}
		return l + 2
	})},
	{name: "dpp_ror8", want: moved(func(l, _ int) int { return l ^ 8 })},
	{name: "dpp_mirror", want: moved(func(l, _ int) int { return l ^ 15 })},
	{name: "dpp_half_mirror", want: moved(func(l, _ int) int { return l ^ 7 })},
	{name: "dpp_bcast15", only: "gfx9", want: moved(func(l, _ int) int { return l/16*16 - 1 })},
	{name: "dpp_wave_shr", only: "gfx9", want: moved(func(l, _ int) int { return l - 1 })},
	{name: "dpp_share3", only: "rdna", want: moved(func(l, _ int) int { return l/16*16 + 3 })},
	{name: "dpp_xmask5", only: "rdna", want: moved(func(l, _ int) int { return l ^ 5 })},
	{name: "permlane16", only: "rdna", want: moved(func(l, _ int) int { return l ^ 1 })},
	{name: "permlanex16", only: "rdna", want: moved(func(l, _ int) int { return l ^ 16 })},
	{name: "dpp8", only: "rdna", want: moved(func(l, _ int) int { return l ^ 7 })},
	{name: "bpermute", want: moved(func(l, _ int) int { return l ^ 5 })},
	{name: "permute", want: moved(func(l, _ int) int { return l ^ 9 })},
	{name: "swizzle", want: moved(func(l, _ int) int { return l ^ 1 })},
	{name: "readlane", want: func(l, wave int, a, b, _ []uint32) uint32 { w := l / wave * wave; return a[w+7] + b[w] }},
	{name: "diverge", want: one(func(a, b, c uint32) (s uint32) {
		for i := range a & 15 {
			if b>>i&1 == 1 {
				s += c
			} else {
				s ^= a
			}
			if s == 7 {
				break
			}
		}
		return s
	})},
	{name: "lds_words", want: func(l, _ int, a, b, c []uint32) uint32 {
		i := (l + 1) % 64
		return a[i] ^ b[i]*3 ^ c[i]*5 ^ (a[i]^b[i])*7
	}},
	{name: "lds_bytes", want: func(l, _ int, a, _, _ []uint32) (r uint32) {
		for j := range 4 {
			r |= a[(l*7+j)%64] & 255 << (8 * j)
		}
		return r
	}},
	{name: "lds_atomic", want: func(l, _ int, a, _, _ []uint32) (r uint32) {
		for i := l % 4; i < 64; i += 4 {
			r += a[i] & 0xffff
		}
		return r
	}},
	{name: "lds_atomic64", want: func(l, _ int, a, b, _ []uint32) uint32 {
		var m uint64
		for i := l % 4; i < 64; i += 4 {
			m = max(m, uint64(a[i])<<20|uint64(b[i]>>12))
		}
		return uint32(m>>32) ^ uint32(m)
	}},
	{name: "atomic_add", want: func(l, _ int, a, _, _ []uint32) (r uint32) {
		for i := l; i < 64 && l < 4; i += 4 {
			r += a[i] & 0xffff
		}
		return r
	}},
	{name: "atomic_fadd", want: func(l, _ int, _, _, _ []uint32) uint32 {
		return b32(float32(when(l < 4, 16)))
	}},
	{name: "atomic_cas", want: one(func(a, _, _ uint32) uint32 { return a })},
	{name: "scratch", want: one(func(a, b, _ uint32) (r uint32) {
		for i := range 16 {
			r = r*31 + a + a>>i&15*b
		}
		return r
	})},
	{name: "global_wide", want: func(l, _ int, a, _, _ []uint32) uint32 { return a[l/4*4+3-l%4] }},
	{name: "global_bytes", want: func(l, _ int, a, b, c []uint32) uint32 {
		at := func(w []uint32, i, size int) uint32 { return w[i*size/4] >> (8 * (i * size % 4)) }
		return at(a, l*3&31, 1)&255 + uint32(int32(int8(at(b, l, 1)))) + uint32(int32(int16(at(c, l, 2))))
	}},
}

// inputs makes 64 words of a kind: any bits, moderate floats, moderate halves, or halves for a and b with a float c.
func inputs(kind string, seed uint64) (a, b, c []uint32) {
	r := random(seed)
	float := func() uint32 { return b32(float32(r.NormFloat64() * 3)) }
	halves := func() uint32 {
		return uint32(refHalf(r.NormFloat64()*3)) | uint32(refHalf(r.NormFloat64()*3))<<16
	}
	for range 64 {
		switch kind {
		case "floats":
			a, b, c = append(a, float()), append(b, float()), append(c, float())
		case "halves":
			a, b, c = append(a, halves()), append(b, halves()), append(c, halves())
		case "mixed":
			a, b, c = append(a, halves()), append(b, halves()), append(c, float())
		default:
			a, b, c = append(a, r.Uint32()), append(b, r.Uint32()), append(c, r.Uint32())
		}
	}
	return a, b, c
}

// Every micro-kernel equals the same arithmetic in Go, bit for bit where the hardware is exact, on every architecture.
func TestMicroKernels(t *testing.T) {
	for _, arch := range archs {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			p := compile(t, "micro", arch)
			wave, family := 32, "rdna"
			if arch < "gfx1" || arch[3] == '9' {
				wave, family = 64, "gfx9"
			}
			for i, tc := range laneCases {
				if tc.only != "" && tc.only != family {
					continue
				}
				a, b, c := inputs(tc.input, uint64(i))
				m := NewMachine()
				out := buffer(t, m, "o", make([]uint32, 64))
				args := kernarg(buffer(t, m, "a", a), buffer(t, m, "b", b), buffer(t, m, "c", c), out)
				if err := launch(m, p, tc.name, 1, 64, 0, args); err != nil {
					t.Errorf("%s: %v", tc.name, err)
					continue
				}
				for l, got := range words(t, m, out, 64) {
					want := tc.want(l, wave, a, b, c)
					if d := int64(int32(got)) - int64(int32(want)); max(d, -d) > int64(tc.ulps) {
						t.Errorf("%s lane %d: %#x, want %#x (a %#x b %#x c %#x)", tc.name, l, got, want, a[l], b[l], c[l])
						break
					}
				}
			}
		})
	}
}

// Rounding to halves agrees with rounding by the book over the whole range, and every half survives the way there and back.
func TestHalves(t *testing.T) {
	for h := range uint32(1 << 16) {
		if h>>10&31 == 31 {
			continue
		}
		require.Equal(t, refWiden(h), float64(half(h)), "%#x", h)
		require.Equal(t, h, toHalf(float64(half(h))))
	}
	r := random(1)
	for range 200000 {
		f := math.Ldexp(r.NormFloat64(), r.IntN(48)-30)
		require.Equal(t, refHalf(f), roundHalf(f, false), "%g", f)
	}
}

// fma32 rounds once: it equals big arithmetic where double rounding would not.
func TestFusedMultiplyAdd(t *testing.T) {
	require.Equal(t, float32(1), fma32(1, 1, 0x1p-25))
	require.Equal(t, float32(1+0x1p-23), fma32(1+0x1p-23, 1, -0x1p-60))
	half := float32(1 + 0x1p-12) // squared: 1 + 2^-11 + 2^-24, a tie
	require.Equal(t, float32(1+0x1p-11), fma32(half, half, 0))
	require.Equal(t, float32(1+0x1p-11+0x1p-23), fma32(half, half, 0x1p-100))
	require.Equal(t, float32(1+0x1p-11), fma32(half, half, -0x1p-100))
}
