package hip

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"voxtral/hip/kernels"
)

const (
	probeBytes  = 1 << 30
	probeLeast  = 64 << 20 // less would measure a cache
	probePasses = 5
	readThreads = 256 // of a block of read_sum
)

// Probe is what the GPU can do at best.
type Probe struct {
	// ReadBandwidth, in bytes a second, is that of the fastest of Passes sums over ReadBytes of device memory, far beyond the
	// caches, by the GPU's own clock.
	ReadBandwidth float64
	ReadBytes     int64
	Passes        int
}

// Probe measures the GPU. It takes 1 GiB of its memory, or half of what is free, and waits for programs that are running.
func (d *Device) Probe(ctx context.Context) (Probe, error) {
	p := Probe{Passes: probePasses}
	err := d.locked(func(x Context) error { return d.probe(ctx, x, &p) })
	if err != nil {
		return Probe{}, fmt.Errorf("hip: probe: %w", err)
	}
	return p, nil
}

func (d *Device) probe(ctx context.Context, x Context, p *Probe) (err error) {
	free, total, err := x.MemInfo()
	if err != nil {
		return err
	}
	p.ReadBytes = min(probeBytes, free/2) &^ (1<<20 - 1)
	if p.ReadBytes < probeLeast {
		return &OutOfMemory{Device: d.gpu.Name, Need: 2 * probeLeast, Free: free, Total: total}
	}
	m := kernels.Read()
	key := moduleKey(m)
	if err := d.prepare(map[string]kernels.Module{key: m}); err != nil {
		return err
	}
	f, err := d.modules[key].Function("read_sum")
	if err != nil {
		return err
	}
	blocks := 16 * d.gpu.Units
	data, err := x.Malloc(p.ReadBytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Free(data)) }()
	sums, err := x.Malloc(int64(4 * blocks))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Free(sums)) }()
	if err := x.Memset(data, 1, p.ReadBytes); err != nil {
		return err
	}
	best := time.Duration(math.MaxInt64)
	for range p.Passes + 1 { // the first one warms up, and is slower
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		args := params{}.ptr(sums, data).int(int(p.ReadBytes/16), blocks)
		took, err := timed(x, func() error { return x.Launch(f, [3]int{blocks, 1, 1}, [3]int{readThreads, 1, 1}, 0, args) })
		if err != nil {
			return err
		}
		best = min(best, took)
	}
	if err := checkSums(x, sums, blocks, p.ReadBytes); err != nil {
		return err
	}
	p.ReadBandwidth = float64(p.ReadBytes) / best.Seconds()
	return nil
}

// timed is how long queued work takes on the GPU.
func timed(x Context, work func() error) (took time.Duration, err error) {
	var marks [2]Event
	for i := range marks {
		if marks[i], err = x.NewEvent(); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, marks[i].Close()) }()
	}
	if err := errors.Join(marks[0].Record(), work(), marks[1].Record()); err != nil {
		return 0, err
	}
	took, err = marks[1].Since(marks[0])
	if err == nil && took <= 0 {
		err = fmt.Errorf("the GPU's clock says that it took %v", took)
	}
	return took, err
}

// checkSums holds the blocks' sums to what the buffer was filled with: a bandwidth of bytes that were not read is none.
func checkSums(x Context, sums Ptr, blocks int, bytes int64) error {
	out := make([]byte, 4*blocks)
	if err := x.CopyOut(out, sums); err != nil {
		return err
	}
	got := uint32(0)
	for i := range blocks {
		got += binary.LittleEndian.Uint32(out[4*i:])
	}
	if want := uint32(bytes/4) * 0x01010101; got != want {
		return fmt.Errorf("the sum of what was read is %#x, want %#x: the GPU or its compiler is damaged", got, want)
	}
	return nil
}
