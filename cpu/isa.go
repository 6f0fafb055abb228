package cpu

/*
#include "cpu.h"
*/
import "C"

import (
	"fmt"
	"os"
	"slices"
	"strings"

	xcpu "golang.org/x/sys/cpu"
)

// isaVariable forces an instruction set.
const isaVariable = "VOXTRAL_CPU_ISA"

// InstructionSets are the names that VOXTRAL_CPU_ISA takes on this machine, the best last. On arm64 generic is NEON already; the
// others multiply with packed weights in integers.
func InstructionSets() []string {
	sets := []string{"generic"}
	x, a := &xcpu.X86, &xcpu.ARM64 // all false on other architectures
	if x.HasAVX2 && x.HasFMA && x.HasF16C {
		sets = append(sets, "avx2")
		if x.HasAVXVNNI {
			sets = append(sets, "avxvnni")
		}
		if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL {
			sets = append(sets, "avx512")
			if x.HasAVX512VNNI {
				sets = append(sets, "avx512vnni")
				if x.HasAMXTile && x.HasAMXInt8 && C.cpu_amx_permit() != 0 {
					sets = append(sets, "amx")
				}
			}
		}
	}
	if a.HasASIMDDP {
		sets = append(sets, "neon-dotprod")
		if a.HasI8MM {
			sets = append(sets, "neon-i8mm")
		}
	}
	return sets
}

func chooseISA() (string, error) {
	sets := InstructionSets()
	want := os.Getenv(isaVariable)
	if want == "" {
		return sets[len(sets)-1], nil
	}
	if !slices.Contains(sets, want) {
		return "", fmt.Errorf("cpu: %s=%q: this machine can run %s", isaVariable, want, strings.Join(sets, ", "))
	}
	return want, nil
}
