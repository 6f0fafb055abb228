package amdisa

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func pack(halves []float64) []uint32 {
	out := make([]uint32, (len(halves)+1)/2)
	for i, f := range halves {
		out[i/2] |= uint32(refHalf(f)) << (16 * (i % 2))
	}
	return out
}

func normals(seed uint64, n int) []float64 { // already representable as halves
	r, out := random(seed), make([]float64, n)
	for i := range out {
		out[i] = refWiden(uint32(refHalf(r.NormFloat64())))
	}
	return out
}

func floatWords(f []float64) []uint32 {
	out := make([]uint32, len(f))
	for i := range f {
		out[i] = b32(float32(f[i]))
	}
	return out
}

func eachArch(t *testing.T, source string, f func(t *testing.T, p *Program)) {
	for _, arch := range archs {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			f(t, compile(t, source, arch))
		})
	}
}

// The int4 matrix-vector kernel equals the sum in double precision within the rounding of a row's terms.
func TestInt4MatVec(t *testing.T) {
	const rows, cols = 12, 1024
	eachArch(t, "kernels", func(t *testing.T, p *Program) {
		r := random(3)
		q := make([]uint32, rows*cols/8)
		for i := range q {
			q[i] = r.Uint32()
		}
		scale, x := normals(4, rows*cols/32), normals(5, cols)
		m := NewMachine()
		y := buffer(t, m, "y", make([]uint32, rows))
		args := kernarg(buffer(t, m, "w", q), buffer(t, m, "scale", pack(scale)), buffer(t, m, "x", pack(x)), y, rows, cols)
		require.NoError(t, launch(m, p, "int4_matvec", rows, 128, 0, args))
		for row, got := range words(t, m, y, rows) {
			var want, size float64
			for c := range cols {
				term := (float64(q[(row*cols+c)/8]>>(4*(c%8))&15) - 8) * scale[(row*cols+c)/32] * x[c]
				want += term
				size += math.Abs(term)
			}
			require.InDelta(t, want, f32(got), size*0x1p-22, "row %d", row)
		}
	})
}

// Attention over one query row equals softmax in double precision, for scores that would overflow without the maximum.
func TestAttentionRow(t *testing.T) {
	const n = 200
	eachArch(t, "kernels", func(t *testing.T, p *Program) {
		q, k, v := normals(1, 64), normals(2, n*64), normals(3, n*64)
		for i := range q {
			q[i] *= 16
		}
		m := NewMachine()
		o := buffer(t, m, "o", make([]uint32, 64))
		args := kernarg(buffer(t, m, "q", floatWords(q)), buffer(t, m, "k", floatWords(k)), buffer(t, m, "v", floatWords(v)), o, n)
		require.NoError(t, launch(m, p, "attention_row", 1, 128, 4*n, args))
		score, sum := make([]float64, n), 0.0
		for i := range score {
			for d := range 64 {
				score[i] += q[d] * k[i*64+d]
			}
		}
		top := slices.Max(score)
		require.Greater(t, top, 89.0, "e to that is beyond single precision")
		for i := range score {
			score[i] = math.Exp(score[i] - top)
			sum += score[i]
		}
		for d, got := range words(t, m, o, 64) {
			var want float64
			for i := range score {
				want += score[i] / sum * v[i*64+d]
			}
			require.InDelta(t, want, f32(got), 1e-4, "dimension %d", d)
		}
	})
}

// A 16 x 16 product on the matrix unit equals the product in double precision; CDNA, RDNA3 and RDNA4 lay tiles out differently.
func TestMatrixUnit(t *testing.T) {
	eachArch(t, "kernels", func(t *testing.T, p *Program) {
		for kernel, element := range map[string]struct {
			fromBits func(v uint32) float64
			toBits   func(v float64) uint32
		}{
			"gemm16":      {refWiden, func(v float64) uint32 { return uint32(refHalf(v)) }},
			"gemm16_bf16": {func(v uint32) float64 { return float64(f32(v << 16)) }, func(v float64) uint32 { return b32(float32(v)) >> 16 }},
		} {
			r := random(1)
			var a, b [256]float64
			words := func(to *[256]float64) []uint32 {
				out := make([]uint32, 128)
				for i := range to {
					v := element.toBits(r.NormFloat64())
					to[i] = element.fromBits(v)
					out[i/2] |= v << (16 * (i % 2))
				}
				return out
			}
			m := NewMachine()
			args := kernarg(buffer(t, m, "a", words(&a)), buffer(t, m, "b", words(&b)), buffer(t, m, "c", make([]uint32, 256)))
			require.NoError(t, launch(m, p, kernel, 1, p.Kernels[kernel].WaveSize, 0, args))
			checkProduct(t, m, le.Uint64(args[16:]), a[:], b[:], 16, kernel)
		}
	})
}

// checkProduct compares F32 [16, 16] at c with a [16, k] times b [k, 16].
func checkProduct(t *testing.T, m *Machine, c uint64, a, b []float64, k int, what string) {
	t.Helper()
	for i, got := range words(t, m, c, 256) {
		var want float64
		for j := range k {
			want += a[i/16*k+j] * b[j*16+i%16]
		}
		require.InDelta(t, want, f32(got), 1e-4, "%s: element %d", what, i)
	}
}

// Workgroups of several waves that wait for each other meet, phase after phase, and see what the others wrote before; it is a
// deadlock when one of them is missing, and a runaway when they run one after the other.
func TestGridBarrier(t *testing.T) {
	const groups, phases, n = 6, 5, 6 * 128
	eachArch(t, "kernels", func(t *testing.T, p *Program) {
		r, first := random(11), make([]uint32, 2*n)
		for i := range n {
			first[i] = r.Uint32()
		}
		m := NewMachine()
		values, arrived := buffer(t, m, "values", first), buffer(t, m, "arrived", []uint32{0})
		together := func(blocks int) error {
			_, err := m.LaunchTogether(p, "grid_barrier", [3]int{blocks, 1, 1}, [3]int{128, 1, 1}, 0, kernarg(arrived, values, groups, phases))
			return err
		}
		require.NoError(t, together(groups))
		want := first[:n]
		for range phases {
			next := make([]uint32, n)
			for i := range next {
				next[i] = want[(i/128+1)%groups*128+(i%128^64)]*3 + 1
			}
			want = next
		}
		require.Equal(t, want, words(t, m, values, 2*n)[phases%2*n:][:n])

		require.NoError(t, m.Write(arrived, make([]byte, 4)))
		require.ErrorContains(t, together(groups-1), "deadlock: every wave that has not ended sleeps or waits at a barrier")
		m.Workers, m.MaxInstructions = 1, 1<<16
		require.NoError(t, m.Write(arrived, make([]byte, 4)))
		require.ErrorContains(t, launch(m, p, "grid_barrier", groups, 128, 0, kernarg(arrived, values, groups, phases)), "a loop that does not end")
	})
}

// A kernel's mistake is a fault that names kernel, instruction, workgroup, wave and what went wrong.
func TestFaults(t *testing.T) {
	cases := []struct {
		kernel       string
		groups, size int
		lds          int
		args         []any
		want         string
		races        bool
		matrix       bool // only where there is a matrix unit
	}{
		{kernel: "bad_global", groups: 1, size: 64, args: []any{65}, want: `memory fault: 4 bytes at`},
		{kernel: "bad_lds_read", groups: 1, size: 64, want: "which nothing has written"},
		{kernel: "bad_lds_bounds", groups: 1, size: 64, lds: 256, args: []any{1}, want: "LDS fault: 4 bytes at 0x100 of 256"},
		{kernel: "bad_barrier", groups: 1, size: 128, want: "barrier divergence"},
		{kernel: "bad_loop", groups: 1, size: 64, want: "a loop that does not end"},
		{kernel: "bad_atomic", groups: 1, size: 64, want: "atomic of 4 bytes at unaligned"},
		{kernel: "bad_matrix", groups: 1, size: 64, want: "a matrix product with lanes 0x1f of 0xffffffff", matrix: true},
		{kernel: "bad_race", groups: 1, size: 128, want: "race: wave", races: true},
	}
	eachArch(t, "kernels", func(t *testing.T, p *Program) {
		for _, tc := range cases {
			if tc.matrix && p.Arch == "gfx1030" {
				continue
			}
			m := NewMachine()
			m.MaxInstructions, m.CheckRaces = 1<<16, tc.races
			args := append([]any{buffer(t, m, "o", make([]uint32, 128))}, tc.args...)
			err := launch(m, p, tc.kernel, tc.groups, tc.size, tc.lds, kernarg(args...))
			var f *Fault
			require.True(t, errors.As(err, &f), "%s: %v", tc.kernel, err)
			require.Contains(t, err.Error(), tc.want)
			require.Equal(t, tc.kernel, f.Kernel)
			require.NotEmpty(t, f.Inst)
		}
	})
}

// Without CheckRaces the racy kernel runs: the check is the only thing that stops it.
func TestRacesAreOptional(t *testing.T) {
	p := compile(t, "kernels", "gfx1100")
	m := NewMachine()
	require.NoError(t, launch(m, p, "bad_race", 1, 128, 0, kernarg(buffer(t, m, "o", make([]uint32, 128)))))
}

// What no build of the emulator knows is a fault when reached, and listed without running.
func TestUnknownInstruction(t *testing.T) {
	p := assemble(t, "gfx942", 64, "v_cvt_f32_fp8 v0, v1")
	require.Len(t, p.Unsupported(), 1)
	require.Contains(t, p.Unsupported()[0], "unknown instruction v_cvt_f32_fp8")
	m := NewMachine()
	err := launch(m, p, "k", 1, 64, 0, kernarg(m.Alloc("o", 256)))
	require.ErrorContains(t, err, "k+0x0")
	require.ErrorContains(t, err, "unknown instruction v_cvt_f32_fp8")
}

// Every instruction that the compiled test kernels hold is known.
func TestNothingUnsupported(t *testing.T) {
	for _, source := range []string{"micro", "kernels"} {
		eachArch(t, source, func(t *testing.T, p *Program) { require.Empty(t, p.Unsupported()) })
	}
}

// Metadata: the kernel's resources and arguments are those of its source.
func TestMetadata(t *testing.T) {
	eachArch(t, "kernels", func(t *testing.T, p *Program) {
		k := p.Kernels["int4_matvec"]
		require.NotNil(t, k)
		require.Equal(t, 16, k.LDSBytes)
		require.Zero(t, k.ScratchBytes+k.VGPRSpills+k.SGPRSpills)
		require.Positive(t, k.VGPRs)
		require.Equal(t, Arg{0, 8, "global_buffer"}, k.Args[0])
		require.Equal(t, Arg{36, 4, "by_value"}, k.Args[5])
	})
}

// Bad input is an error, never a panic: any prefix and any flipped byte of a code object.
func TestLoadRefusesDamage(t *testing.T) {
	_, err := Load("text", []byte("no code object"))
	require.ErrorContains(t, err, "text: not a code object")
	bundle := bundleMagic + strings.Repeat("\xff", 32)
	_, err = Load("bundle", []byte(bundle))
	require.ErrorContains(t, err, "outside the file")
	for n := range 64 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(0x80 | n)
		}
		_, _ = (&msgpack{b: b}).value()
	}
	for _, b := range [][]byte{{0xdf, 0x7f, 0xff, 0xff, 0xff}, {0xdd, 0xff, 0xff, 0xff, 0xff}, {0xc6, 0xff, 0xff, 0xff, 0xff}, []byte(strings.Repeat("\x91", 100))} {
		_, err := (&msgpack{b: b}).value()
		require.Error(t, err)
	}
}

// A launch that cannot be is refused before it starts.
func TestLaunchArguments(t *testing.T) {
	p := compile(t, "kernels", "gfx942")
	m := NewMachine()
	_, err := m.Launch(p, "absent", [3]int{1, 1, 1}, [3]int{64, 1, 1}, 0, nil)
	require.ErrorContains(t, err, `no kernel "absent"`)
	_, err = m.Launch(p, "gemm16", [3]int{1, 0, 1}, [3]int{64, 1, 1}, 0, nil)
	require.ErrorContains(t, err, "positive sizes")
	_, err = m.Launch(p, "gemm16", [3]int{1, 1, 1}, [3]int{64, 1, 1}, 1<<20, nil)
	require.ErrorContains(t, err, "gfx942 has 65536")
	_, err = m.Launch(p, "gemm16", [3]int{1, 1, 1}, [3]int{64, 1, 1}, 0, make([]byte, 16))
	require.ErrorContains(t, err, "global_buffer at 16 takes 8")
	require.Error(t, m.Write(m.Alloc("x", 4), make([]byte, 5)))
	a := m.Alloc("y", 4)
	m.Free(a)
	require.Error(t, m.Read(a, make([]byte, 4)))
}

func BenchmarkInt4MatVec(b *testing.B) {
	for _, arch := range []string{"gfx942", "gfx1100"} {
		b.Run(arch, func(b *testing.B) {
			t := &testing.T{}
			p := compile(t, "kernels", arch)
			const rows, cols = 256, 4096
			m := NewMachine()
			args := kernarg(m.Alloc("w", rows*cols/2), m.Alloc("scale", rows*cols/16), m.Alloc("x", 2*cols), m.Alloc("y", 4*rows), rows, cols)
			var n uint64
			for b.Loop() {
				st, err := m.Launch(p, "int4_matvec", [3]int{rows, 1, 1}, [3]int{128, 1, 1}, 0, args)
				if err != nil {
					b.Fatal(err)
				}
				n += st.Instructions
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Minst/s")
		})
	}
}

// reportCoverage prints, for each architecture, the mnemonics that the tests executed against a reference.
func reportCoverage() {
	coverage.Lock()
	defer coverage.Unlock()
	for _, arch := range archs {
		var names []string
		for n := range coverage.by[arch] {
			names = append(names, n)
		}
		slices.Sort(names)
		fmt.Printf("%s: %d instructions executed\n", arch, len(names))
		for line := range slices.Chunk(names, 6) {
			fmt.Printf("    %s\n", strings.Join(line, " "))
		}
	}
}
