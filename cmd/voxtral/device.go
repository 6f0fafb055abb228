package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"voxtral/cpu"
	"voxtral/hip"
	"voxtral/internal/bench"
	"voxtral/internal/device"
)

// computer is a device with what there is to tell of it.
type computer interface {
	device.Device
	bench.Hardware
	Warnings() []string
}

// deviceFlags choose what computes, and how.
type deviceFlags struct {
	device  string
	threads int
	sdpa    string
	step    string
}

// deviceHelp is the part of a command's help that says what --device takes.
const deviceHelp = `--device takes auto, cpu, or a GPU by the name that 'voxtral devices' lists: hip:0 is the
first one of AMD's HIP, cuda:0 of NVIDIA's CUDA. hip or cuda is the first usable GPU of
that kind, gpu the first usable of all, gpu:1 the second in the list. A GPU that is named
and cannot be used is an error. auto takes the first GPU that passes its self-test and
whose memory holds the model, else the CPU, and says why a GPU that is there was refused.`

func (f *deviceFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.device, "device", "auto", "what computes, `NAME`: auto, cpu, gpu, gpu:N, hip:N or cuda:N")
	fl.IntVar(&f.threads, "threads", 0, "CPU threads, `N` (default: all cores)")
	fl.StringVar(&f.sdpa, "sdpa", "auto", "`KERNEL` of attention: auto, standard, or splitk on GPUs, which divides long histories among more of the GPU; auto is standard on AMD and on the CPU")
	fl.StringVar(&f.step, "step", "auto", "`HOW` a GPU takes a step: auto, kernels (one after the other, recorded once) or whole (most of it as one kernel)")
}

var deviceName = regexp.MustCompile(`^(auto|cpu|(gpu|hip|cuda)(:[0-9]{1,4})?)$`)

// check finds mistakes that need no look at the hardware.
func (f *deviceFlags) check() error {
	switch {
	case f.threads < 0:
		return usagef("--threads %d: want 1 or more, or 0 for all cores", f.threads)
	case !deviceName.MatchString(f.device):
		return usagef("--device %s is unknown: use auto, cpu, gpu, gpu:N, hip:N or cuda:N (see 'voxtral devices')", f.device)
	case !slices.Contains(hip.SDPAs(), hip.SDPA(f.sdpa)):
		return usagef("--sdpa %s is unknown: use auto, standard or splitk", f.sdpa)
	case !slices.Contains(hip.Steps(), hip.Step(f.step)):
		return usagef("--step %s is unknown: use auto, kernels or whole", f.step)
	case f.device == "cpu" && f.sdpa == string(hip.SDPASplitK):
		return f.noSplitK("")
	}
	return nil
}

func (f *deviceFlags) noSplitK(why string) error {
	return usagef("--sdpa splitk needs a GPU, the CPU has standard attention only%s: use --sdpa auto, or --device gpu", why)
}

// candidate is a GPU that may be used.
type candidate struct {
	name   string // hip:0
	driver string
	gpu    hip.GPU
}

func candidates(backends []hip.Backend) (list []candidate) {
	for _, b := range backends {
		for _, gpu := range b.GPUs {
			list = append(list, candidate{fmt.Sprintf("%s:%d", b.Driver, gpu.Index), b.Driver, gpu})
		}
	}
	return list
}

// open opens the device and lets use put on it what is to run there. With auto, a GPU on which either fails is closed and
// the next one tried, in the end the CPU; with a name, its failure is the error.
func (f *deviceFlags) open(c *console, use func(device.Device) error) (computer, error) {
	if f.device == "cpu" {
		return f.openCPU(use)
	}
	backends := hip.Report()
	if f.device != "auto" {
		chosen, err := named(f.device, backends)
		if err != nil {
			return nil, fmt.Errorf("--device %s: %w", f.device, err)
		}
		dev, err := f.openGPU(chosen, use)
		if err != nil {
			return nil, fmt.Errorf("--device %s: %w", f.device, err)
		}
		return dev, nil
	}
	refused := absences(backends)
	for _, g := range candidates(backends) {
		if !g.gpu.Usable {
			refused = append(refused, unusable(g))
			continue
		}
		dev, err := f.openGPU(g, use)
		if err == nil {
			return dev, nil
		}
		refused = append(refused, fmt.Errorf("%s: %w", g.name, err))
	}
	if f.sdpa == string(hip.SDPASplitK) {
		why := ""
		for _, err := range refused {
			why += "; " + plain(err)
		}
		return nil, f.noSplitK(why)
	}
	for _, err := range refused {
		c.warn("the CPU is used", plain(err))
	}
	return f.openCPU(use)
}

func (f *deviceFlags) openCPU(use func(device.Device) error) (computer, error) {
	dev, err := cpu.Open(f.threads)
	if err != nil {
		return nil, err
	}
	if err := use(dev); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return &onCPU{dev, f.sdpa}, nil
}

func (f *deviceFlags) openGPU(g candidate, use func(device.Device) error) (computer, error) {
	driver, err := hip.Load(g.driver)
	if err != nil {
		return nil, err
	}
	dev, err := hip.Open(driver, g.gpu.Index, hip.Options{SDPA: hip.SDPA(f.sdpa), Step: hip.Step(f.step)})
	if err != nil {
		return nil, err
	}
	if err := use(dev); err != nil {
		_ = dev.Close() // after a failure of the GPU it says the same once more
		return nil, err
	}
	return &onGPU{dev, f.sdpa}, nil
}

// named finds the GPU of a name: KIND:N is that one, KIND the first usable one.
func named(name string, backends []hip.Backend) (candidate, error) {
	kind, index, exact := strings.Cut(name, ":")
	var list []candidate
	var reasons []string
	for _, b := range backends {
		if kind != "gpu" && kind != b.Driver {
			continue
		}
		list = append(list, candidates([]hip.Backend{b})...)
		if b.Reason != "" {
			reasons = append(reasons, because(strings.ToUpper(b.Driver), b.Reason, b.Fix))
		}
	}
	if len(list) == 0 {
		return candidate{}, fmt.Errorf("there is no such GPU: %s", strings.Join(reasons, "; "))
	}
	n, _ := strconv.Atoi(index) // digits, or nothing
	if exact && n >= len(list) {
		names := make([]string, len(list))
		for i, g := range list {
			names[i] = g.name
		}
		return candidate{}, fmt.Errorf("there is no such GPU: there are %s", strings.Join(names, ", "))
	}
	if exact {
		list = list[n : n+1]
	}
	var errs []error
	for _, g := range list {
		if g.gpu.Usable {
			return g, nil
		}
		errs = append(errs, unusable(g))
	}
	return candidate{}, errors.Join(errs...)
}

func unusable(g candidate) error {
	return errors.New(because(fmt.Sprintf("%s (%s, %s) cannot be used", g.name, g.gpu.Name, g.gpu.Arch), g.gpu.Reason, g.gpu.Fix))
}

func because(what, reason, fix string) string {
	text := what + ": " + reason
	if fix != "" {
		text += ": " + fix
	}
	return text
}

// absences are the drivers that do not show a GPU that is in the machine.
func absences(backends []hip.Backend) (list []error) {
	for _, b := range backends {
		if b.Present && b.Reason != "" {
			list = append(list, errors.New(because(strings.ToUpper(b.Driver), b.Reason, b.Fix)))
		}
	}
	return list
}

// onCPU is the CPU as a computer.
type onCPU struct {
	*cpu.Device
	sdpa string
}

func (d *onCPU) Warnings() []string { return nil }

func (d *onCPU) Memory() *bench.DeviceMemory { return nil }

func (d *onCPU) Attention() (policy string, chosen []string) {
	return d.sdpa, []string{string(hip.SDPAStandard)}
}

func (d *onCPU) Probe(ctx context.Context) (bench.Machine, error) {
	p, err := d.Device.Probe(ctx)
	if err != nil {
		return bench.Machine{}, err
	}
	m := bench.Machine{
		ReadBandwidth: p.ReadBandwidth, Int8: bench.Peak(p.Best("int8")), BF16: bench.Peak(p.Best("bf16")),
		Read: fmt.Sprintf("best of %d passes over %s by all threads", p.Passes, byteSize(p.ReadBytes)),
	}
	for _, peak := range p.Peaks {
		m.Peaks = append(m.Peaks, bench.Peak(peak))
	}
	return m, nil
}

// onGPU is a GPU as a computer.
type onGPU struct {
	*hip.Device
	sdpa string
}

func (d *onGPU) Memory() *bench.DeviceMemory {
	u := d.Usage()
	return &bench.DeviceMemory{Weights: u.Weights, Cache: u.State, Scratch: u.Scratch, Pinned: u.Pinned}
}

func (d *onGPU) Attention() (policy string, chosen []string) {
	for _, a := range d.Device.Attention() {
		chosen = append(chosen, a.String())
	}
	return d.sdpa, chosen
}

func (d *onGPU) Probe(ctx context.Context) (bench.Machine, error) {
	p, err := d.Device.Probe(ctx)
	if err != nil {
		return bench.Machine{}, err
	}
	return bench.Machine{
		ReadBandwidth: p.ReadBandwidth,
		Read:          fmt.Sprintf("best of %d passes over %s of the GPU's memory", p.Passes, byteSize(p.ReadBytes)),
	}, nil
}
