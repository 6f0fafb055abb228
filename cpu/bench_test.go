package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"voxtral/internal/device"
)

// BenchmarkLinear reports how fast weights of [9216, 3072] are read, and the arithmetic done, for 1, 4 and 32 rows of
// activations. Enough matrices take turns that each comes from memory. The device has one thread for each CPU.
func BenchmarkLinear(b *testing.B) {
	const n, k, total = 9216, 3072, 512 << 20
	d, err := Open(0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.Close() })
	rng := rand.New(rand.NewPCG(1, 2))
	for _, f := range formats {
		group := 0
		if f.Grouped() {
			group = 64
		}
		one := part(rng, f, group, 64, k, 0, 1)
		bytes := n * (f.RowBytes(k, group) + len(one.Scales)/64)
		weights := make([]device.Weight, total/bytes+1)
		for i := range weights {
			p := one
			p.Rows, p.Data, p.Scales = n, repeat(one.Data, n/64), repeat(one.Scales, n/64)
			if weights[i], err = d.Pack(device.WeightDesc{Name: "w", Parts: []device.Part{p}}); err != nil {
				b.Fatal(err)
			}
		}
		for _, m := range []int{1, 4, 32} {
			b.Run(fmt.Sprintf("%s/M=%d", f, m), func(b *testing.B) {
				p := &device.Program{Name: "bench"}
				x, y := p.NewScratch("x", m, k), p.NewScratch("y", m, n)
				for _, w := range weights {
					p.Add(&device.Linear{Name: "linear", X: x, Y: y, W: w})
				}
				exec, err := d.Compile(p)
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if err := exec.Run(&device.Step{}); err != nil {
						b.Fatal(err)
					}
				}
				calls := float64(b.N * len(weights))
				b.ReportMetric(calls*float64(bytes)/b.Elapsed().Seconds()/1e9, "GB/s")
				b.ReportMetric(calls*2*n*k*float64(m)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				b.ReportMetric(b.Elapsed().Seconds()/calls*1e6, "µs/matrix")
				_ = exec.Close()
			})
		}
	}
}

func repeat(b []byte, n int) []byte {
	out := make([]byte, 0, len(b)*n)
	for range n {
		out = append(out, b...)
	}
	return out
}
