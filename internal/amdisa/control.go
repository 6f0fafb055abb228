package amdisa

import "fmt"

// Control flow: branches, calls, barriers, the end of a wave.

func init() {
	conditions := map[string]func(w *wave) bool{
		"s_branch":         func(*wave) bool { return true },
		"s_cbranch_scc0":   func(w *wave) bool { return !w.scc },
		"s_cbranch_scc1":   func(w *wave) bool { return w.scc },
		"s_cbranch_vccz":   func(w *wave) bool { return w.mask(&vcc) == 0 },
		"s_cbranch_vccnz":  func(w *wave) bool { return w.mask(&vcc) != 0 },
		"s_cbranch_execz":  func(w *wave) bool { return w.exec() == 0 },
		"s_cbranch_execnz": func(w *wave) bool { return w.exec() != 0 },
	}
	for name, taken := range conditions {
		register(func(_ *Program, in *inst) (func(*wave), error) {
			target := in.index + 1 + int(int16(in.word))
			return func(w *wave) {
				if taken(w) {
					w.pc = target
				}
			}, nil
		}, name)
	}
	register(buildEnd, "s_endpgm", "s_endpgm_saved")
	register(buildBarrier, "s_barrier", "s_barrier_wait")
	register(buildSignal, "s_barrier_signal")
	register(buildPC, "s_getpc_b64", "s_setpc_b64", "s_swappc_b64", "s_call_b64")
	register(buildTrap, "s_trap", "s_sethalt")
	register(buildSleep, "s_sleep", "s_sleep_var")
}

func buildEnd(_ *Program, _ *inst) (func(*wave), error) {
	return func(w *wave) { w.state = ended }, nil
}

// buildSleep lets the others run: a wave sleeps when it waits for them.
func buildSleep(_ *Program, _ *inst) (func(*wave), error) {
	return func(w *wave) { w.state = asleep }, nil
}

func buildTrap(_ *Program, _ *inst) (func(*wave), error) {
	return func(*wave) { fail(-1, "the kernel trapped") }, nil
}

func (w *wave) wholeAtBarrier() {
	if e := w.exec(); e != w.born && !w.group.m.LooseBarriers {
		fail(-1, "barrier divergence: lanes %#x of %#x are switched on", e, w.born)
	}
}

func buildBarrier(_ *Program, in *inst) (func(*wave), error) {
	split := in.name == "s_barrier_wait"
	if split && (len(in.ops) != 1 || in.ops[0].imm != 1<<16-1 && int64(in.ops[0].imm) != -1) {
		return nil, fmt.Errorf("%s: only the workgroup's barrier is emulated", in.text)
	}
	return func(w *wave) {
		if split && !w.arrived {
			fail(-1, "waits for a barrier that this wave has not signalled: it would never end")
		}
		if !split {
			w.wholeAtBarrier()
		}
		w.state = atBarrier
	}, nil
}

func buildSignal(_ *Program, in *inst) (func(*wave), error) {
	if len(in.ops) != 1 || int64(in.ops[0].imm) != -1 {
		return nil, fmt.Errorf("%s: only the workgroup's barrier is emulated", in.text)
	}
	return func(w *wave) {
		if w.arrived {
			fail(-1, "signals a barrier twice without waiting for it")
		}
		w.wholeAtBarrier()
		w.arrived = true
	}, nil
}

// buildPC handles instructions that read or set the program counter by address.
func buildPC(p *Program, in *inst) (func(*wave), error) {
	if err := in.want(1); err != nil {
		return nil, err
	}
	here := in.pc + 4*uint64(in.words)
	save := func(w *wave) { w.setScalar64(&in.ops[0], w.group.image.base+here) }
	jump := func(w *wave, to uint64) {
		to -= w.group.image.base + p.text
		if to%4 != 0 || to/4 >= uint64(len(p.code)) {
			fail(-1, "jump outside the code object")
		}
		w.pc = int(to / 4)
	}
	switch in.name {
	case "s_getpc_b64":
		return save, nil
	case "s_setpc_b64":
		return func(w *wave) { jump(w, w.scalar64(&in.ops[0])) }, nil
	case "s_call_b64":
		target := in.index + 1 + int(int16(in.word))
		return func(w *wave) {
			save(w)
			w.pc = target
		}, nil
	}
	if err := in.want(2); err != nil {
		return nil, err
	}
	return func(w *wave) {
		to := w.scalar64(&in.ops[1])
		save(w)
		jump(w, to)
	}, nil
}
