package cpu

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"voxtral/internal/device"
)

// BenchmarkLinear reports how fast weights are read and the arithmetic done, in the best of its passes, beside the memory's
// own speed in the same run. A pass takes weights in turn that fill a gigabyte, so that each comes from memory. The device
// has one thread for each CPU; VOXTRAL_CPU_ISA picks the instruction set.
func BenchmarkLinear(b *testing.B) {
	d, err := Open(0)
	require.NoError(b, err)
	b.Cleanup(func() { _ = d.Close() })
	memory := slices.Repeat([]byte{0x2c}, 1<<30) // any codes, and scales of 0.065
	for _, shape := range []struct{ n, k int }{{9216, 3072}, {3072, 9216}, {131072, 3072}} {
		for _, c := range []struct {
			format device.Format
			group  int
		}{{device.Int4, 32}, {device.Int4, 64}, {device.Int8, 64}, {device.BF16, 0}} {
			var weights []device.Weight
			bytes := shape.n * c.format.RowBytes(shape.k, c.group)
			scales := 0
			if c.format.Grouped() {
				scales = 2 * shape.n * device.Groups(shape.k, c.group)
			}
			for rest := memory; len(rest) >= bytes+scales; rest = rest[bytes+scales:] {
				w, err := d.Pack(device.WeightDesc{Name: "w", Parts: []device.Part{{
					Name: "w", Rows: shape.n, Cols: shape.k, Format: c.format, Group: c.group, Data: rest[:bytes], Scales: rest[bytes:][:scales],
				}}})
				require.NoError(b, err)
				weights = append(weights, w)
			}
			for _, m := range []int{1, 2, 4, 8, 16, 32, 100} {
				b.Run(fmt.Sprintf("%dx%d/%s-g%d/M=%d", shape.n, shape.k, c.format, c.group, m), func(b *testing.B) {
					p := &device.Program{Name: "bench"}
					x, y := p.NewScratch("x", m, shape.k), p.NewScratch("y", m, shape.n)
					for _, w := range weights {
						p.Add(&device.Linear{Name: "linear", X: x, Y: y, W: w})
					}
					exec, err := d.Compile(p)
					require.NoError(b, err)
					probe, err := d.Probe(b.Context())
					require.NoError(b, err)
					best := time.Hour
					for b.Loop() {
						began := time.Now()
						require.NoError(b, exec.Run(&device.Step{}))
						best = min(best, time.Since(began))
					}
					each := best.Seconds() / float64(len(weights))
					rate := float64(bytes+scales) / each
					b.ReportMetric(rate/1e9, "GB/s")
					b.ReportMetric(rate/probe.ReadBandwidth, "of-memory")
					b.ReportMetric(2*float64(shape.n*shape.k*m)/each/1e9, "GFLOP/s")
					b.ReportMetric(each*1e6, "µs/matrix")
					_ = exec.Close()
				})
			}
		}
	}
}
