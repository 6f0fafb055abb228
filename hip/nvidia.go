package hip

/*
#include "native.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"
)

const (
	nvidiaVendor = "0x10de"
	// The kernels use bf16 and its matrix units, which begin with Ampere.
	minCapability = 80
)

// LoadCUDA finds NVIDIA's libraries. An error is a *Problem.
func LoadCUDA() (Driver, error) {
	h := thisHost()
	d, err := loadCUDA(h, candidates([]string{"libcuda.so.1", "libcuda.so"}, nil))
	if err != nil {
		return nil, err
	}
	return d, nil
}

func loadCUDA(h host, files []string, compilerFolders ...string) (*native, error) {
	d := &native{name: "cuda", title: "CUDA driver", dialect: C.GPU_CUDA, which: C.GPU_LIBRARY_CUDA, api: &C.struct_gpu_api{}, vendor: nvidia{h}}
	lib, err := openLibrary("NVIDIA's driver (libcuda)", d.which, files, unsafe.Pointer(d.api))
	if err != nil {
		return nil, nvidiaMissing(h, err)
	}
	d.lib = lib
	if d, err = newNative(d); err != nil {
		return nil, &Problem{Reason: lib.path + " does not work: " + err.Error(), Fix: "install the driver again", Err: err}
	}
	names := nvrtcNames(d.version)
	d.compiler, err = findCompiler("NVRTC", d.version, candidates(names, append(compilerFolders, nvidiaFolders(h)...)))
	if err != nil {
		d.noRTC = &Problem{
			Reason: "there is no run-time compiler for it: " + err.Error(),
			Fix:    "install NVRTC, CUDA " + d.version + " or older: nvidia-cuda-toolkit (Debian, Ubuntu), cuda-nvrtc (NVIDIA's packages)",
			Err:    err,
		}
	}
	return d, nil
}

// nvrtcNames are the compilers whose code a driver of this version takes: its own release's, then older ones.
func nvrtcNames(driver string) []string {
	major, _, _ := strings.Cut(driver, ".")
	newest, _ := strconv.Atoi(major) // 0 leaves the old names
	var names []string
	for n := min(newest, 20); n >= 12; n-- { // whatever a driver says, a search is short
		names = append(names, fmt.Sprintf("libnvrtc.so.%d", n))
	}
	return append(names, "libnvrtc.so.11.2", "libnvrtc.so")
}

func nvidiaFolders(h host) []string {
	var folders []string
	for _, variable := range []string{"CUDA_PATH", "CUDA_HOME"} {
		if root := h.getenv(variable); root != "" {
			folders = append(folders, filepath.Join(root, "lib64"))
		}
	}
	return append(folders, append(h.glob("usr/local/cuda/lib64"), byRelease(h.glob("usr/local/cuda-*/lib64"))...)...)
}

func nvidiaMissing(h host, err error) *Problem {
	p := &Problem{Reason: strings.TrimPrefix(err.Error(), "hip: "), Err: err}
	var load *LoadError
	found, known := h.display(nvidiaVendor)
	switch {
	case errors.As(err, &load) && load.Found():
		p.Fix = "install NVIDIA's driver again; in a container, start it with --gpus all"
	case known && !found:
		p.Reason = "there is no NVIDIA GPU on the PCI bus, and no driver: " + p.Reason
	default:
		p.Fix = "install NVIDIA's driver: nvidia-driver (Debian), nvidia-driver-580 (Ubuntu); in a container, start it with --gpus all"
	}
	return p
}

// nvidia is the vendor of CUDA devices.
type nvidia struct{ h host }

// version reads CUDA's number: 13000 is 13.0.
func (nvidia) version(n int) string { return fmt.Sprintf("%d.%d", n/1000, n%1000/10) }

func (nvidia) arch(p *C.struct_gpu_properties) string {
	return fmt.Sprintf("sm_%d%d", p.major, p.minor)
}

func (v nvidia) unreachable(err error) *Problem {
	p := &Problem{Reason: "no NVIDIA GPU is reachable", Err: err}
	if err != nil {
		p.Reason += " (" + strings.TrimPrefix(err.Error(), "hip: ") + ")"
	}
	if found, known := v.h.display(nvidiaVendor); known && !found {
		p.Reason = "there is no NVIDIA GPU on the PCI bus"
		return p
	}
	var status *Error
	const systemDriverMismatch = 803
	switch {
	case errors.As(err, &status) && status.Code == systemDriverMismatch:
		p.Fix = "the kernel module and libcuda are of different releases: restart the machine after the driver's update"
	case len(v.h.glob("dev/nvidiactl")) == 0:
		p.Reason += ": there is no /dev/nvidiactl"
		p.Fix = "load the kernel driver (sudo modprobe nvidia); in a container, start it with --gpus all"
	case v.h.getenv("CUDA_VISIBLE_DEVICES") != "":
		p.Fix = "CUDA_VISIBLE_DEVICES hides devices: unset it, or name one that exists"
	default:
		p.Fix = "see what nvidia-smi says"
	}
	return p
}

func (nvidia) problem(arch string) *Problem {
	capability, err := strconv.Atoi(strings.TrimPrefix(arch, "sm_"))
	if err == nil && capability >= minCapability {
		return nil
	}
	return &Problem{Reason: fmt.Sprintf("there are no kernels for its architecture %s", arch), Fix: fmt.Sprintf("use the CPU, or a GPU from sm_%d on", minCapability)}
}
