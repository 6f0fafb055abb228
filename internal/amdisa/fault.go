package amdisa

import "fmt"

// Fault is what ends a launch: where, and why. Lane is -1 where the whole wave is at fault.
type Fault struct {
	Kernel string
	PC     uint64 // bytes from the kernel's entry
	Inst   string
	Group  [3]int
	Wave   int
	Lane   int
	Reason string
}

func (f *Fault) Error() string {
	lane := ""
	if f.Lane >= 0 {
		lane = fmt.Sprintf(" lane %d", f.Lane)
	}
	return fmt.Sprintf("amdisa: %s+%#x `%s` workgroup (%d,%d,%d) wave %d%s: %s",
		f.Kernel, f.PC, f.Inst, f.Group[0], f.Group[1], f.Group[2], f.Wave, lane, f.Reason)
}

// trap is how an executing instruction leaves its wave; the scheduler turns it into a Fault.
type trap struct {
	lane   int
	reason string
}

func fail(lane int, format string, args ...any) {
	panic(trap{lane, fmt.Sprintf(format, args...)})
}
