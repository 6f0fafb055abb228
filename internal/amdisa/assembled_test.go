package amdisa

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Single instructions that compilers emit rarely equal their definition; v1 to v3 hold the inputs, v4 the result.
func TestAssembledInstructions(t *testing.T) {
	cases := []struct {
		inst    string
		a, b, c uint32
		want    uint32
		only    string
	}{
		{"v_cvt_off_f32_i4 v4, v1", 0xf, 0, 0, b32(-1.0 / 16), ""},
		{"v_bfm_b32 v4, v1, v2", 5, 3, 0, 0xf8, ""},
		{"v_med3_i32 v4, v1, v2, v3", 5, 0xfffffffe, 3, 3, ""},
		{"v_alignbyte_b32 v4, v1, v2, v3", 0x11223344, 0x55667788, 1, 0x44556677, ""},
		{"v_ldexp_f32 v4, v1, v2", b32(3), 4, 0, b32(48), ""},
		{"v_frexp_exp_i32_f32 v4, v1", b32(48), 0, 0, 6, ""},
		{"v_max_f32 v4, v1, v2 clamp", b32(3), b32(2), 0, b32(1), "gfx942"},
		{"v_mul_f32 v4, v1, v2 mul:4", b32(3), b32(2), 0, b32(24), "gfx942"},
		{"v_add_u32 v4, v1, v2 clamp", 0xfffffff0, 0x20, 0, 0xffffffff, "gfx942"},
		{"v_pk_add_u16 v4, v1, v2 op_sel:[1,0] op_sel_hi:[0,1]", 0x00010002, 0x00100020, 0, 0x00120021, ""},
		{"v_cvt_pk_i16_i32 v4, v1, v2", 70000, 0xfffe0000, 0, 0x80007fff, ""},
		{"v_minmax_i32 v4, v1, v2, v3", 9, 4, 6, 6, "gfx1201"},
	}
	for _, arch := range []string{"gfx942", "gfx1201"} {
		for _, tc := range cases {
			if tc.only != "" && tc.only != arch {
				continue
			}
			size := 64
			if arch == "gfx1201" {
				size = 32
			}
			runOnConstants(t, assembleRaw(t, arch, size, onConstants(arch, tc.inst, tc.a, tc.b, tc.c)), size, tc.want, arch+": "+tc.inst)
		}
	}
}

// onConstants is a kernel's body that stores v4 of every lane after an instruction on constants in v1 to v3.
func onConstants(arch, inst string, a, b, c uint32) string {
	load, wait, store := "s_load_dwordx2", "s_waitcnt lgkmcnt(0)", "global_store_dword"
	if arch == "gfx1201" {
		load, wait, store = "s_load_b64", "s_wait_kmcnt 0x0", "global_store_b32"
	}
	return fmt.Sprintf("%s s[2:3], s[0:1], 0x0\n%s\nv_lshlrev_b32 v0, 2, v0\nv_mov_b32 v1, 0x%x\nv_mov_b32 v2, 0x%x\nv_mov_b32 v3, 0x%x\n%s\n%s v0, v4, s[2:3]",
		load, wait, a, b, c, inst, store)
}

// What llvm-19 does not know of gfx950 is read from the encoding, whatever it makes of the words behind, several times over.
func TestGFX950(t *testing.T) {
	const a, b, c = 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa // each bit of the truth table four times
	bitop := func(table uint32) string {
		return fmt.Sprintf(".long 0x%x, 0x%x\n", 0xd2340004|table>>3&7<<8, 0x040e0501|table>>6<<27|table&7<<29)
	}
	cases := map[string]uint32{".long 0xd2670004, 0x20501\n": toHalf(float64(f32(a))) | toHalf(float64(f32(b)))<<16}
	for _, table := range []uint32{0, 1, 2, 4, 8, 16, 32, 64, 128, 0x96, 0xca, 0xf6} {
		cases[bitop(table)] = table * 0x01010101
	}
	for body, want := range cases {
		raw := assembleRaw(t, "gfx942", 64, onConstants("gfx942", bitop(0x96)+bitop(1)+body, a, b, c))
		runOnConstants(t, bytes.ReplaceAll(raw, []byte("gfx942"), []byte("gfx950")), 64, want, body)
	}
}

// High halves of registers in short encodings are read too, as sources and as destinations, and leave the other half alone.
func TestHighHalves(t *testing.T) {
	const halfV1 = ".long 0x7f081501\n"  // v_cvt_f16_f32_e32 v4.h, v1
	const floatV4 = ".long 0x7e0a1784\n" // v_cvt_f32_f16_e32 v5, v4.h
	for body, want := range map[string]uint32{
		"v_mov_b32 v4, 0x1234\n" + halfV1:                                      0x40001234,
		"v_mov_b32 v4, 0x12340000\n" + halfV1 + floatV4 + "v_mov_b32 v4, v5\n": b32(2),
		"v_mov_b32 v4, 0x12340000\n" + halfV1 + ".long 0xd58b0804, 0x104\n":    b32(2),     // v_cvt_f32_f16_e64 v4, v4.h
		"v_mov_b32 v4, 0x5678\n.long 0xd58a4004, 0x101\n":                      0x40005678, // v_cvt_f16_f32_e64 v4.h, v1
		"v_mov_b32 v4, 0x12345678\nv_cvt_f16_f32_e32 v4, v2\n":                 0x12344200,
		"v_mov_b32 v4, 0x3c00\n" + halfV1 + ".long 0x64080984\n":               0x40004200, // v_add_f16_e32 v4.l, v4.h, v4.l
		"v_mov_b32 v4, 0x3c00\n" + halfV1 + ".long 0x65090904\n":               0x42003c00, // v_add_f16_e32 v4.h, v4.l, v4.h
	} {
		runOnConstants(t, assembleRaw(t, "gfx1100", 32, onConstants("gfx1100", body, b32(2), b32(3), 0)), 32, want, body)
	}
}

// runOnConstants runs what onConstants made.
func runOnConstants(t *testing.T, raw []byte, size int, want uint32, what string) {
	t.Helper()
	p, err := Load("constants", raw)
	require.NoError(t, err)
	require.Empty(t, p.Unsupported(), what)
	m := NewMachine()
	out := buffer(t, m, "o", make([]uint32, size))
	require.NoError(t, launch(m, p, "k", 1, size, 0, kernarg(out)))
	for _, got := range words(t, m, out, size) {
		require.Equal(t, want, got, "%s gives %#x", what, got)
	}
}
