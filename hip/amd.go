package hip

/*
#include "native.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

const amdVendor = "0x1002"

// amdTargets are the architectures that the kernels are written for, each with its relatives of one instruction set.
var amdTargets = []string{
	"gfx90a", "gfx942", "gfx950", // CDNA 2, 3, 4
	"gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036", // RDNA 2
	"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", // RDNA 3, 3.5
	"gfx1200", "gfx1201", // RDNA 4
}

// The library's names, by release. The plain one is there where the development package is.
func amdNames(stem string) []string {
	var names []string
	for major := 10; major >= 5; major-- {
		names = append(names, fmt.Sprintf("%s.so.%d", stem, major))
	}
	return append(names, stem+".so")
}

// amdFolders are where AMD's own packages install, the newest release first.
func amdFolders(h host) []string {
	var folders []string
	for _, variable := range []string{"ROCM_PATH", "HIP_PATH"} {
		if root := h.getenv(variable); root != "" {
			folders = append(folders, filepath.Join(root, "lib"))
		}
	}
	releases := append(h.glob("opt/rocm/lib"), byRelease(h.glob("opt/rocm-*/lib"))...)
	return append(folders, releases...)
}

// byRelease sorts folders that carry a release in their names, the newest first.
func byRelease(folders []string) []string {
	release := func(folder string) (numbers []int) {
		for _, field := range strings.FieldsFunc(folder, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(field)
			numbers = append(numbers, n)
		}
		return numbers
	}
	slices.SortFunc(folders, func(a, b string) int {
		return cmp.Or(slices.Compare(release(b), release(a)), cmp.Compare(a, b))
	})
	return folders
}

// LoadHIP finds AMD's libraries. An error is a *Problem.
func LoadHIP() (Driver, error) {
	h := thisHost()
	d, err := loadHIP(h, candidates(amdNames("libamdhip64"), amdFolders(h)))
	if err != nil {
		return nil, err
	}
	return d, nil
}

func loadHIP(h host, files []string) (*native, error) {
	d := &native{name: "hip", title: "HIP", dialect: C.GPU_HIP, which: C.GPU_LIBRARY_HIP, api: &C.struct_gpu_api{}, vendor: amd{h}}
	lib, err := openLibrary("AMD's HIP run time (libamdhip64)", d.which, files, unsafe.Pointer(d.api))
	if err != nil {
		return nil, amdMissing(h, err)
	}
	d.lib = lib
	if d, err = newNative(d); err != nil {
		return nil, &Problem{Reason: lib.path + " does not work: " + err.Error(), Fix: "install it again, kernel driver and run time of one release", Err: err}
	}
	major, _, _ := strings.Cut(d.version, ".")
	d.compiler, err = findCompiler("hiprtc", d.version, hiprtcFiles(h, lib.path, major))
	if err != nil {
		d.noRTC = &Problem{
			Reason: "there is no run-time compiler for it: " + err.Error(),
			Fix:    "install hiprtc of the same release: libhiprtc" + major + " or libamdhip64-dev (Debian, Ubuntu), hip-runtime-amd (AMD's packages)",
			Err:    err,
		}
	}
	return d, nil
}

// hiprtcFiles are where the compiler may be: within the run time up to release 6, beside it from 7 on.
func hiprtcFiles(h host, runtime, major string) []string {
	names := append([]string{"libhiprtc.so." + major}, amdNames("libhiprtc")...)
	files := []string{runtime}
	for _, name := range names {
		files = append(files, filepath.Join(filepath.Dir(runtime), name))
	}
	return append(files, candidates(names, amdFolders(h))...)
}

func amdMissing(h host, err error) *Problem {
	p := &Problem{Reason: strings.TrimPrefix(err.Error(), "hip: "), Err: err}
	var load *LoadError
	found, known := h.display(amdVendor)
	switch {
	case errors.As(err, &load) && load.Found():
		p.Fix = "install the run time again, with all it depends on (ldd FILE shows what is missing)"
	case known && !found:
		p.Reason = "there is no AMD GPU on the PCI bus, and no run time: " + p.Reason
	default:
		p.Fix = "install the run time: libamdhip64-dev (Debian, Ubuntu), rocm-hip-runtime (AMD's packages); no ROCm development kit is needed"
	}
	return p
}

// amd is the vendor of HIP devices.
type amd struct{ h host }

// version reads HIP's number: 60443484 is 6.4.43484.
func (amd) version(n int) string { return fmt.Sprintf("%d.%d.%d", n/10000000, n/100000%100, n%100000) }

func (amd) arch(p *C.struct_gpu_properties) string { return C.GoString(&p.arch[0]) }

func (v amd) unreachable(err error) *Problem {
	p := &Problem{Reason: "no AMD GPU is reachable", Err: err}
	if err != nil {
		p.Reason += " (" + strings.TrimPrefix(err.Error(), "hip: ") + ")"
	}
	if found, known := v.h.display(amdVendor); known && !found {
		p.Reason = "there is no AMD GPU on the PCI bus"
		return p
	}
	kfd := filepath.Join(v.h.root, "dev/kfd")
	if len(v.h.glob("dev/kfd")) == 0 {
		p.Reason += ": there is no /dev/kfd"
		p.Fix = "load the kernel driver (sudo modprobe amdgpu); in a container, start it with --device /dev/kfd --device /dev/dri"
		return p
	}
	for _, file := range append([]string{kfd}, v.h.glob("dev/dri/renderD*")...) {
		if denied := v.h.denied(file); denied != nil {
			denied.Err = errors.Join(denied.Err, err)
			return denied
		}
	}
	if override := v.override(); override != nil {
		override.Err = err
		return override
	}
	if v.h.getenv("HIP_VISIBLE_DEVICES") != "" || v.h.getenv("ROCR_VISIBLE_DEVICES") != "" {
		p.Fix = "HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hides devices: unset them, or name one that exists"
		return p
	}
	p.Fix = "see the kernel's log (sudo dmesg | grep -i amdgpu); this kernel's driver may be too old for the GPU"
	return p
}

func (v amd) problem(arch string) *Problem {
	if p := v.override(); p != nil {
		return p
	}
	base, _, _ := strings.Cut(arch, ":")
	if slices.Contains(amdTargets, base) {
		return nil
	}
	if base == "" {
		return &Problem{Reason: "this release of HIP does not tell its architecture where the others do", Fix: "use a release from 5.7 to 7.2"}
	}
	return &Problem{
		Reason: fmt.Sprintf("there are no kernels for its architecture %s", base),
		Fix:    "use the CPU, or one of " + strings.Join(amdTargets, ", "),
	}
}

const overrideVariable = "HSA_OVERRIDE_GFX_VERSION"

// override finds an architecture forced on the run time that is not the hardware's: code for another one faults or, worse,
// computes something else. Kernels are compiled for the GPU at hand, so nothing needs to be forced.
func (v amd) override() *Problem {
	forced := v.h.getenv(overrideVariable)
	if forced == "" {
		return nil
	}
	fix := "unset " + overrideVariable
	parts := strings.Split(forced, ".")
	numbers := make([]int, len(parts))
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || len(parts) != 3 {
			return &Problem{Reason: fmt.Sprintf("%s=%q is no version such as 11.0.0", overrideVariable, forced), Fix: fix}
		}
		numbers[i] = n
	}
	posed := gfxName(numbers[0]*10000 + numbers[1]*100 + numbers[2])
	for _, real := range v.hardware() {
		if real != posed {
			return &Problem{Reason: fmt.Sprintf("%s=%s makes the run time take a %s for a %s", overrideVariable, forced, real, posed), Fix: fix}
		}
	}
	return nil
}

// hardware lists the architectures that the kernel driver knows its GPUs by.
func (v amd) hardware() []string {
	var names []string
	for _, file := range v.h.glob("sys/class/kfd/kfd/topology/nodes/*/properties") {
		for line := range strings.Lines(v.h.read(file)) {
			fields := strings.Fields(line)
			if len(fields) != 2 || fields[0] != "gfx_target_version" {
				continue
			}
			if n, err := strconv.Atoi(fields[1]); err == nil && n > 0 { // processors are nodes too, with 0
				names = append(names, gfxName(n))
			}
		}
	}
	return names
}

// gfxName writes the kernel driver's number as the compiler's name: 90402 is gfx942, 90010 is gfx90a.
func gfxName(n int) string { return fmt.Sprintf("gfx%d%x%x", n/10000, n/100%100, n%100) }
