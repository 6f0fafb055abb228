package hip

/*
#include "native.h"
*/
import "C"

import "fmt"

// native is a Driver over a loaded library.
type native struct {
	name     string
	title    string // the library's name for people
	dialect  C.enum_gpu_dialect
	which    C.enum_gpu_library
	api      *C.struct_gpu_api // by itself, for C sees no other Go memory beside it
	lib      *library
	version  string
	compiler *Compiler
	noRTC    *Problem // why there is no compiler
	vendor   vendor
}

// vendor is what differs between AMD and NVIDIA above the table of functions.
type vendor interface {
	// version reads the library's number.
	version(number int) string
	// unreachable explains that the library finds no device; err is what it said, nil if it merely counted none.
	unreachable(err error) *Problem
	// arch is the architecture as the compiler takes it.
	arch(p *C.struct_gpu_properties) string
	// problem says why a GPU that is there cannot be used, nil if it can.
	problem(arch string) *Problem
}

// newNative wraps a filled table.
func newNative(d *native) (*native, error) {
	var number C.int
	if err := d.check(C.gpu_version(d.api, d.dialect, &number)); err != nil {
		return nil, err
	}
	d.version = d.vendor.version(int(number))
	return d, nil
}

func (d *native) Name() string { return d.name }

func (d *native) Versions() []LibraryVersion {
	versions := []LibraryVersion{{Name: d.title, Version: d.version, Path: d.lib.path, Missing: d.lib.missing}}
	if d.compiler != nil {
		versions = append(versions, LibraryVersion{Name: d.compiler.Name, Version: d.compiler.Version, Path: d.compiler.Path})
	}
	return versions
}

func (d *native) Devices() ([]GPU, error) {
	if err := d.check(C.gpu_init(d.api)); err != nil {
		return nil, d.vendor.unreachable(err)
	}
	var count C.int
	if err := d.check(C.gpu_count(d.api, &count)); err != nil {
		return nil, d.vendor.unreachable(err)
	}
	if count <= 0 {
		return nil, d.vendor.unreachable(nil)
	}
	gpus := make([]GPU, count)
	for i := range gpus {
		gpus[i] = d.describe(i)
	}
	return gpus, nil
}

func (d *native) describe(index int) GPU {
	gpu := GPU{Index: index}
	var p C.struct_gpu_properties
	if err := d.check(C.gpu_describe(d.api, d.dialect, C.int(index), &p)); err != nil {
		gpu.Reason = "its properties cannot be read: " + err.Error()
		return gpu
	}
	gpu.Name = C.GoString(&p.name[0])
	gpu.Arch = d.vendor.arch(&p)
	gpu.WaveSize = int(p.wave_size)
	gpu.Units = int(p.units)
	gpu.ThreadsPerUnit = int(p.threads_per_unit)
	gpu.MemoryBytes = int64(p.memory)
	gpu.LDSBytes = int64(max(p.lds_per_block, p.lds_opt_in))
	gpu.L2Bytes = int64(p.l2_bytes)
	gpu.Integrated = p.integrated != 0
	problem := d.vendor.problem(gpu.Arch)
	if problem == nil {
		problem = d.noRTC
	}
	if problem == nil && gpu.WaveSize != 32 && gpu.WaveSize != 64 {
		problem = &Problem{Reason: fmt.Sprintf("its waves have %d threads, not 32 or 64", gpu.WaveSize)}
	}
	gpu.Usable = problem == nil
	if problem != nil {
		gpu.Reason, gpu.Fix = problem.Reason, problem.Fix
	}
	return gpu
}

func (d *native) Open(index int) (Context, error) {
	gpus, err := d.Devices()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(gpus) {
		return nil, fmt.Errorf("hip: %s has no GPU %d: it has 0 to %d", d.title, index, len(gpus)-1)
	}
	gpu := gpus[index]
	if !gpu.Usable {
		return nil, &Problem{Reason: fmt.Sprintf("GPU %d (%s, %s): %s", index, gpu.Name, gpu.Arch, gpu.Reason), Fix: gpu.Fix}
	}
	return openContext(d, gpu)
}

// check turns a library's result into an error.
func (d *native) check(r C.struct_gpu_result) error {
	if r.status == 0 {
		return nil
	}
	var name, text [C.GPU_TEXT]C.char
	C.gpu_error(d.api, d.dialect, r.status, &name[0], &text[0])
	return &Error{Call: symbolAt(d.which, r.call), Code: int(r.status), Name: C.GoString(&name[0]), Text: C.GoString(&text[0])}
}
