package cpu

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every loop that the machine can run is there and has a rate; the best of a kind is one of them.
func TestProbe(t *testing.T) {
	d, err := Open(2)
	require.NoError(t, err)
	p, err := d.Probe(t.Context())
	require.NoError(t, err)
	t.Logf("%.1f GB/s", p.ReadBandwidth/1e9)
	require.Positive(t, p.ReadBandwidth)
	require.Len(t, p.Peaks, len(probeNames()))
	for i, peak := range p.Peaks {
		t.Logf("%s: %.0f Gop/s", peak.Name, peak.OpsPerSecond/1e9)
		require.Equal(t, probeNames()[i], peak.Name)
		require.Positive(t, peak.OpsPerSecond)
	}
	for _, element := range []string{"int8", "f32"} {
		require.Contains(t, p.Best(element).Name, element+" ")
	}
	require.GreaterOrEqual(t, p.Best("bf16").OpsPerSecond, p.Best("f32").OpsPerSecond)
	require.Zero(t, p.Best("int3"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.Probe(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, d.Close())
	_, err = d.Probe(t.Context())
	require.ErrorIs(t, err, errClosed)
}
