package cpu

/*
#include <stdlib.h>
#include "probe.h"
*/
import "C"

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unsafe"

	xcpu "golang.org/x/sys/cpu"
)

// Probe is what the machine can do at best with the device's threads.
type Probe struct {
	// ReadBandwidth, in bytes a second, is that of the fastest of Passes sums over ReadBytes of memory, far beyond the
	// caches: all threads stream through 1 MiB at a time.
	ReadBandwidth float64
	ReadBytes     int64
	Passes        int
	Peaks         []Peak
}

// Peak is how fast an instruction for dot products runs in a loop that touches registers only.
type Peak struct {
	Name         string  // element type and instruction set, such as "int8 AVX-512 VNNI"
	OpsPerSecond float64 // a multiplication and an addition are two, over all threads
}

// Best is the fastest instruction for an element type: "int8", "bf16" or "f32". bf16 can be multiplied as f32, so the
// latter's peak counts where there is nothing faster.
func (p Probe) Best(element string) Peak {
	var best Peak
	for _, peak := range p.Peaks {
		kind, _, _ := strings.Cut(peak.Name, " ")
		if (kind == element || element == "bf16" && kind == "f32") && peak.OpsPerSecond > best.OpsPerSecond {
			best = peak
		}
	}
	return best
}

const (
	probeBytes  = 1 << 30
	probeChunk  = 1 << 20
	probePasses = 5

	peakPasses = 3
	peakTime   = 20 * time.Millisecond // of a pass
	peakChunks = 16                    // of a thread, so that one that is put aside does not hold up the others
)

// Probe measures the machine. It takes about a second and 1 GiB of memory, and waits for programs that are running.
func (d *Device) Probe(ctx context.Context) (Probe, error) {
	d.running.Lock()
	defer d.running.Unlock()
	p, err := d.probe(ctx)
	if err != nil {
		return Probe{}, fmt.Errorf("cpu: probe: %w", err)
	}
	return p, nil
}

func (d *Device) probe(ctx context.Context) (Probe, error) {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return Probe{}, errClosed
	}
	p := Probe{ReadBytes: probeBytes, Passes: probePasses}
	var err error
	if p.ReadBandwidth, err = d.probeRead(ctx); err != nil {
		return p, err
	}
	for _, name := range probeNames() {
		if err := ctx.Err(); err != nil {
			return p, err
		}
		if peak, ok := d.probePeak(name); ok {
			p.Peaks = append(p.Peaks, peak)
		}
	}
	return p, nil
}

func (d *Device) probeRead(ctx context.Context) (float64, error) {
	const chunks = probeBytes / probeChunk
	data := C.cpu_alloc(probeBytes)
	if data == nil {
		return 0, fmt.Errorf("out of memory for %d bytes", probeBytes)
	}
	defer C.cpu_free(data, probeBytes)
	sums := C.cpu_alloc(8 * chunks)
	if sums == nil {
		return 0, fmt.Errorf("out of memory for %d bytes", 8*chunks)
	}
	defer C.cpu_free(sums, 8*chunks)
	args := C.struct_cpu_probe_read{data: (*C.uint8_t)(data), sums: (*C.uint64_t)(sums), per: probeChunk}
	d.inPool(C.cpu_kernel(C.cpu_probe_fill), unsafe.Pointer(&args), unsafe.Sizeof(args), chunks)
	best := time.Duration(0)
	for range probePasses {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if t := d.inPool(C.cpu_kernel(C.cpu_probe_read), unsafe.Pointer(&args), unsafe.Sizeof(args), chunks); best == 0 || t < best {
			best = t
		}
	}
	for i, sum := range unsafe.Slice((*uint64)(sums), chunks) {
		if want := uint64(0x0101010101010101) * uint64(1+i%100) * (probeChunk / 8); sum != want {
			return 0, fmt.Errorf("chunk %d of memory sums up to %#x, not %#x: the memory or the processor is faulty", i, sum, want)
		}
	}
	return probeBytes / best.Seconds(), nil
}

// probePeak times one loop, twice as long each time until it lasts. ok is false if this build has no such loop.
func (d *Device) probePeak(name string) (peak Peak, ok bool) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	op := C.cpu_find_probe(c)
	if op == nil {
		return Peak{}, false
	}
	chunks := peakChunks * d.threads
	args := C.struct_cpu_probe_loop{rounds: 256}
	run := func() time.Duration { return d.inPool(op.run, unsafe.Pointer(&args), unsafe.Sizeof(args), chunks) }
	for run() < peakTime {
		args.rounds *= 2
	}
	best := run()
	for range peakPasses - 1 {
		best = min(best, run())
	}
	return Peak{name, float64(op.ops) * float64(args.rounds) * float64(chunks) / best.Seconds()}, true
}

// inPool runs a kernel on all threads and returns how long it took. The arguments are copied to memory that C may keep.
func (d *Device) inPool(run C.cpu_kernel, args unsafe.Pointer, size uintptr, chunks int) time.Duration {
	mem := C.CBytes(unsafe.Slice((*byte)(args), size))
	defer C.free(mem)
	command := (*C.struct_cpu_command)(C.calloc(1, C.size_t(unsafe.Sizeof(C.struct_cpu_command{}))))
	defer C.free(unsafe.Pointer(command))
	command.run, command.args, command.chunks = run, mem, C.int32_t(chunks)
	began := time.Now()
	C.cpu_pool_run(d.pool, command, 1, nil, 0)
	return time.Since(began)
}

// probeNames are the loops that this processor can run.
func probeNames() []string {
	x, a := &xcpu.X86, &xcpu.ARM64
	tiles := x.HasAMXTile && C.cpu_amx_permit() != 0
	var names []string
	for _, l := range []struct {
		name string
		ok   bool
	}{
		{"int8 SSE2", x.HasSSE2},
		{"int8 AVX2", x.HasAVX2},
		{"int8 AVX-VNNI", x.HasAVX2 && x.HasAVXVNNI},
		{"int8 AVX-512 VNNI", x.HasAVX512F && x.HasAVX512VNNI},
		{"int8 AMX", tiles && x.HasAMXInt8},
		{"f32 AVX2 FMA", x.HasAVX2 && x.HasFMA},
		{"f32 AVX-512 FMA", x.HasAVX512F},
		{"bf16 AVX-512", x.HasAVX512F && x.HasAVX512BF16},
		{"bf16 AMX", tiles && x.HasAMXBF16},
		{"int8 NEON", a.HasASIMD},
		{"int8 NEON dotprod", a.HasASIMDDP},
		{"int8 NEON i8mm", a.HasI8MM},
		{"f32 NEON FMA", a.HasASIMD},
	} {
		if l.ok {
			names = append(names, l.name)
		}
	}
	return names
}
