package amdisa

import (
	"fmt"
	"strings"
)

// Special registers, clocks and messages; and instructions that order memory, which program order already gives here.

func init() {
	register(buildNop, "s_nop", "s_waitcnt", "s_clause", "s_delay_alu", "s_sendmsg", "s_waitcnt_vscnt", "s_waitcnt_vmcnt",
		"s_waitcnt_lgkmcnt", "s_waitcnt_expcnt", "s_waitcnt_depctr", "s_setprio", "s_inst_prefetch", "s_set_inst_prefetch_distance",
		"s_wait_alu", "s_wait_idle", "s_wait_event", "s_dcache_wb", "s_dcache_inv", "s_icache_inv", "s_gl1_inv", "s_version",
		"s_singleuse_vdst", "s_ttracedata", "s_ttracedata_imm", "v_nop", "s_prefetch_inst", "s_prefetch_data",
		"s_prefetch_inst_pc_rel", "s_prefetch_data_pc_rel", "s_wait_loadcnt", "s_wait_storecnt", "s_wait_samplecnt", "s_wait_bvhcnt",
		"s_wait_expcnt", "s_wait_dscnt", "s_wait_kmcnt", "s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt", "s_code_end",
		"buffer_gl0_inv", "buffer_gl1_inv", "buffer_inv", "buffer_wbl2", "buffer_wbinvl1", "buffer_wbinvl1_vol", "buffer_invl2",
		"global_inv", "global_wb", "global_wbinv", "s_setreg_b32", "s_setreg_imm32_b32", "s_denorm_mode", "s_round_mode")
	register(buildGetreg, "s_getreg_b32")
	register(buildClock, "s_memtime", "s_memrealtime", "s_sendmsg_rtn_b64")
}

func buildNop(_ *Program, in *inst) (func(*wave), error) {
	clear(in.mods)
	// Writing MODE changes denormals (which the division macros do around their steps) and rounding, which is not emulated.
	if in.name == "s_round_mode" || strings.HasPrefix(in.name, "s_setreg") && len(in.ops) > 0 && setsRounding(in) {
		return nil, fmt.Errorf("%s: rounding modes other than to nearest are not emulated", in.name)
	}
	return func(*wave) {}, nil
}

// setsRounding tells whether an s_setreg writes rounding bits (0 to 3 of MODE) with something else than zero.
func setsRounding(in *inst) bool {
	for _, o := range in.ops {
		if at, ok := strings.CutPrefix(o.text, "hwreg(HW_REG_MODE"); ok {
			f := strings.Split(strings.Trim(at, ",) "), ",")
			start := strings.TrimSpace(f[0])
			nearest := len(in.ops) > 1 && in.ops[1].kind == integer && in.ops[1].imm&15 == 0
			return !nearest && (start == "" || start < "4" && len(start) == 1)
		}
	}
	return false
}

// tick is what the clock advances by when read.
const tick = 40

func buildClock(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(1); err != nil {
		return nil, err
	}
	dst := in.ops[0]
	return func(w *wave) { w.setScalar64(&dst, w.group.clock.Add(tick)) }, nil
}

func buildGetreg(_ *Program, in *inst) (func(*wave), error) {
	if err := in.want(2); err != nil {
		return nil, err
	}
	dst, reg := in.ops[0], in.ops[1].text
	switch {
	case strings.Contains(reg, "SHADER_CYCLES_HI"):
		return func(w *wave) { w.setScalar(&dst, uint32(w.group.clock.Load()>>32)) }, nil
	case strings.Contains(reg, "SHADER_CYCLES, 0, 20"):
		return func(w *wave) { w.setScalar(&dst, uint32(w.group.clock.Add(tick))&0xfffff) }, nil
	case strings.Contains(reg, "SHADER_CYCLES"):
		return func(w *wave) { w.setScalar(&dst, uint32(w.group.clock.Add(tick))) }, nil
	case strings.Contains(reg, "SH_MEM_BASES"): // aperture bases of flat addresses, private in the low half
		v := uint32(privateBase>>48 | sharedBase>>48<<16)
		if strings.Contains(reg, "16, 16") {
			v >>= 16
		} else if strings.Contains(reg, "0, 16") {
			v &= 0xffff
		}
		return func(w *wave) { w.setScalar(&dst, v) }, nil
	case strings.Contains(reg, "HW_ID"), strings.Contains(reg, "XCC_ID"), strings.Contains(reg, "MODE"), strings.Contains(reg, "STATUS"):
		return func(w *wave) { w.setScalar(&dst, 0) }, nil
	}
	return nil, fmt.Errorf("%s: %s is not emulated", in.name, reg)
}
