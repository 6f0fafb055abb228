package amdisa

import (
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
			load, wait, store, size := "s_load_dwordx2", "s_waitcnt lgkmcnt(0)", "global_store_dword", 64
			if arch == "gfx1201" {
				load, wait, store, size = "s_load_b64", "s_wait_kmcnt 0x0", "global_store_b32", 32
			}
			p := assemble(t, arch, size, fmt.Sprintf("%s s[2:3], s[0:1], 0x0\n%s\nv_lshlrev_b32 v0, 2, v0\nv_mov_b32 v1, 0x%x\nv_mov_b32 v2, 0x%x\nv_mov_b32 v3, 0x%x\n%s\n%s v0, v4, s[2:3]",
				load, wait, tc.a, tc.b, tc.c, tc.inst, store))
			m := NewMachine()
			out := buffer(t, m, "o", make([]uint32, size))
			require.NoError(t, launch(m, p, "k", 1, size, 0, kernarg(out)))
			for _, got := range words(t, m, out, size) {
				require.Equal(t, tc.want, got, "%s: %s gives %#x", arch, tc.inst, got)
			}
		}
	}
}
