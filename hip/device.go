package hip

import (
	"cmp"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"

	"voxtral/hip/kernels"
	"voxtral/internal/device"
)

// Device is a device.Device on one GPU. Weights are laid out anew for its kernels; buffers of kind HostIO are pinned host
// memory that kernels read and write in place.
type Device struct {
	driver Driver
	gpu    GPU
	sdpa   SDPA
	step   Step

	mu        sync.Mutex // a Context takes one call at a time
	x         Context
	modules   map[string]Module
	attention []Attention // of the programs compiled so far
	used      Usage
	warnings  []string
	closed    bool
}

// Usage is memory that a device holds, in bytes.
type Usage struct {
	Weights int64
	State   int64 // of streams: key and value rings, convolution tails
	Scratch int64 // of compiled programs
	Pinned  int64 // the host's memory, which the GPU reads and writes in place
}

// Options are choices of Open; empty fields stand for auto.
type Options struct {
	SDPA SDPA
	Step Step
}

// Step is the policy by which a step is launched.
type Step string

// Policies.
const (
	StepAuto    Step = "auto"    // whole on NVIDIA; kernels on AMD
	StepKernels Step = "kernels" // a kernel for each op, recorded as a graph
	StepWhole   Step = "whole"   // most of a step as one kernel, whose blocks wait for each other
)

// Steps are all policies.
func Steps() []Step { return []Step{StepAuto, StepKernels, StepWhole} }

// Open starts using a GPU and runs a self-test on it: a device that computes wrongly is refused.
func Open(d Driver, index int, o Options) (*Device, error) {
	o.SDPA, o.Step = cmp.Or(o.SDPA, SDPAAuto), cmp.Or(o.Step, StepAuto)
	if !slices.Contains(SDPAs(), o.SDPA) {
		return nil, fmt.Errorf("hip: attention %q: use auto, standard or splitk", o.SDPA)
	}
	if !slices.Contains(Steps(), o.Step) {
		return nil, fmt.Errorf("hip: step %q: use auto, kernels or whole", o.Step)
	}
	x, err := d.Open(index)
	if err != nil {
		return nil, err
	}
	dev := &Device{driver: d, gpu: x.GPU(), sdpa: o.SDPA, step: o.Step, x: x, modules: map[string]Module{}}
	if o.Step == StepAuto {
		dev.step = StepKernels
		if dev.cuda() {
			dev.step = StepWhole
		}
	}
	err = selfTest(dev)
	dev.attention = nil // of the self-test
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hip: %s fails its self-test and is not used: %w", dev.gpu.Name, err), dev.Close())
	}
	return dev, nil
}

// Info describes the GPU.
func (d *Device) Info() device.Info {
	var libs []string
	for _, v := range d.driver.Versions() {
		libs = append(libs, v.Name+" "+v.Version)
	}
	return device.Info{
		Name:   fmt.Sprintf("%s:%d", d.driver.Name(), d.gpu.Index),
		Detail: fmt.Sprintf("%s (%s, waves of %d, %d units, %.0f GiB; %s)", d.gpu.Name, d.gpu.Arch, d.gpu.WaveSize, d.gpu.Units, float64(d.gpu.MemoryBytes)/(1<<30), strings.Join(libs, ", ")),
	}
}

// Usage is what the device holds now.
func (d *Device) Usage() Usage {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// Warnings lists what went wrong without making results wrong, such as graphs that cannot be captured.
func (d *Device) Warnings() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.warnings)
}

// Close frees everything on the device.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	return d.x.Close()
}

// locked runs f while nothing else uses the context.
func (d *Device) locked(f func(Context) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	return f(d.x)
}

// buffer is device memory, or pinned host memory.
type buffer struct {
	dev    *Device
	ptr    Ptr
	pinned *Pinned
	bytes  int
	total  *int64 // of the device's usage
	freed  bool
}

func (b *buffer) Bytes() int { return b.bytes }

// Free returns the memory. After Close it is gone already.
func (b *buffer) Free() {
	_ = b.dev.locked(func(x Context) error { // only fails once the device is lost, and with it the memory
		if b.freed {
			return nil
		}
		b.freed = true
		*b.total -= int64(b.bytes)
		if b.pinned != nil {
			return x.HostFree(b.pinned)
		}
		return x.Free(b.ptr)
	})
}

// Alloc returns zeroed memory.
func (d *Device) Alloc(bytes int, kind device.Kind) (device.Buffer, error) {
	b := &buffer{dev: d, bytes: bytes}
	return b, d.locked(func(x Context) (err error) {
		b.total = d.used.of(kind)
		if kind == device.HostIO {
			if b.pinned, err = x.HostAlloc(max(bytes, 1)); err != nil {
				return err
			}
			b.ptr = b.pinned.Ptr
		} else if b.ptr, err = x.Malloc(int64(max(bytes, 1))); err != nil {
			return err
		}
		*b.total += int64(bytes)
		if kind == device.HostIO {
			return nil // zeroed already
		}
		return x.Memset(b.ptr, 0, int64(bytes))
	})
}

// of is where buffers of a kind are counted.
func (u *Usage) of(kind device.Kind) *int64 {
	switch kind {
	case device.Params:
		return &u.Weights
	case device.State:
		return &u.State
	case device.HostIO:
		return &u.Pinned
	}
	return &u.Scratch
}

func (d *Device) own(b device.Buffer) (*buffer, error) {
	mine, ok := b.(*buffer)
	switch {
	case !ok || mine.dev != d:
		return nil, errors.New("hip: the buffer is another device's")
	case mine.freed:
		return nil, errors.New("hip: the buffer has been freed")
	}
	return mine, nil
}

// Write copies to a buffer.
func (d *Device) Write(dst device.Buffer, off int, src []byte) error {
	return d.transfer("write", dst, off, src, Context.CopyIn)
}

// Read copies from a buffer.
func (d *Device) Read(src device.Buffer, off int, dst []byte) error {
	return d.transfer("read", src, off, dst, func(x Context, p Ptr, b []byte) error { return x.CopyOut(b, p) })
}

func (d *Device) transfer(what string, b device.Buffer, off int, host []byte, move func(Context, Ptr, []byte) error) error {
	mine, err := d.own(b)
	if err != nil {
		return err
	}
	if off < 0 || off+len(host) > mine.bytes {
		return fmt.Errorf("hip: %s of %d bytes at %d of %d", what, len(host), off, mine.bytes)
	}
	return d.locked(func(x Context) error {
		switch {
		case mine.pinned == nil:
			return move(x, mine.ptr+Ptr(off), host)
		case what == "write": // nothing runs: Run waits for its work
			copy(mine.pinned.Bytes[off:], host)
		default:
			copy(host, mine.pinned.Bytes[off:])
		}
		return nil
	})
}

// weight is a packed weight in device memory.
type weight struct {
	packed        // without its bytes
	dev           *Device
	codes, scales Ptr
}

func (w *weight) Rows() int { return w.rows }
func (w *weight) Cols() int { return w.cols }

// Pack lays a weight out for the kernels and uploads it.
func (d *Device) Pack(desc device.WeightDesc) (device.Weight, error) {
	p, err := pack(&desc)
	if err != nil {
		return nil, err
	}
	if p.cols%4 != 0 {
		return nil, fmt.Errorf("hip: weight %q has %d columns: the kernels want a multiple of 4", desc.Name, p.cols)
	}
	w := &weight{packed: *p, dev: d}
	w.packed.codes, w.packed.scales = nil, nil
	upload := func(x Context, data []byte) (Ptr, error) {
		at, err := x.Malloc(int64(len(data)))
		if err != nil {
			return 0, err
		}
		d.used.Weights += int64(len(data))
		return at, x.CopyIn(at, data)
	}
	return w, d.locked(func(x Context) (err error) {
		if w.codes, err = upload(x, p.codes); err != nil {
			return fmt.Errorf("hip: weight %q: %w", desc.Name, err)
		}
		if !p.format.Grouped() {
			return nil
		}
		if w.scales, err = upload(x, append(p.scales, 0, 0, 0, 0)); err != nil { // four bytes that the last load may touch
			return fmt.Errorf("hip: weight %q: %w", desc.Name, err)
		}
		return nil
	})
}

// cuda says whether the device is NVIDIA's, for the few numbers that differ.
func (d *Device) cuda() bool { return d.driver.Name() == "cuda" }

// prepare compiles and loads modules that are not loaded yet, side by side.
func (d *Device) prepare(modules map[string]kernels.Module) error {
	type built struct {
		key  string
		code []byte
		err  error
	}
	var missing []string
	for key := range modules {
		if d.modules[key] == nil {
			missing = append(missing, key)
		}
	}
	results := make(chan built, len(missing))
	slots := make(chan struct{}, goruntime.GOMAXPROCS(0))
	for _, key := range missing {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			m := modules[key]
			options := m.Options(d.gpu.WaveSize)
			if !d.cuda() {
				options = append(options, "-O3")
			}
			code, _, err := d.x.Compile(m.Name+".hip", m.Text(), options)
			results <- built{key, code, err}
		}()
	}
	var errs []error
	for range missing {
		b := <-results
		if b.err != nil {
			errs = append(errs, b.err)
			continue
		}
		m, err := d.x.Load(b.code)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", modules[b.key].Name, err))
			continue
		}
		d.modules[b.key] = m
	}
	return errors.Join(errs...)
}

// moduleKey tells modules apart.
func moduleKey(m kernels.Module) string { return m.Name + " " + strings.Join(m.Defines, " ") }
