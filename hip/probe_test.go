package hip

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/hip/kernels"
)

// testRead: every word is read once, whatever the number of blocks and however the buffer ends.
func testRead(t *testing.T, g runner) {
	rng := rand.New(rand.NewPCG(11, 11))
	g.load(t, kernels.Read())
	for _, c := range []struct{ quads, blocks int }{{1, 1}, {5000, 3}, {2048, 4}} {
		var data []byte
		want := uint32(0)
		for range 4 * c.quads {
			v := rng.Uint32()
			want += v
			data = binary.LittleEndian.AppendUint32(data, v)
		}
		sums := ints(t, g, make([]int32, c.blocks))
		g.launch(t, "read_sum", [3]int{c.blocks, 1, 1}, readThreads, 0, kernelArgs(sums, g.alloc(t, data), c.quads, c.blocks))
		out := make([]byte, 4*c.blocks)
		g.read(t, sums, out)
		got := uint32(0)
		for i := range c.blocks {
			got += binary.LittleEndian.Uint32(out[4*i:])
		}
		require.Equal(t, want, got, c)
	}
}

// A GPU's own bandwidth is measured, and nothing of the measurement stays in its memory.
func TestGPUProbe(t *testing.T) {
	gpus(t, func(t *testing.T, x Context) {
		d := &Device{driver: x.(*nativeContext).d, gpu: x.GPU(), sdpa: SDPAAuto, x: x, modules: map[string]Module{}}
		p, err := d.Probe(t.Context())
		require.NoError(t, err)
		t.Logf("%.0f GB/s, best of %d over %d bytes", p.ReadBandwidth/1e9, p.Passes, p.ReadBytes)
		require.Positive(t, p.ReadBandwidth)
		require.Empty(t, x.(*nativeContext).memory)
		require.NoError(t, d.Close())
	})
}
