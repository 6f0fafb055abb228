package listen

import (
	"testing"

	"github.com/stretchr/testify/require"

	"voxtral/audio"
)

func TestMeter(t *testing.T) {
	var m meter
	require.Equal(t, reading{level: silent}, m.read())
	m.add(sound(2, 0.1))
	r := m.read()
	require.InDelta(t, -20, r.level, 0.1)
	require.EqualValues(t, 2*audio.SampleRate, r.samples)
	require.False(t, r.clipping)
	m.add(sound(2, 0))
	require.Less(t, m.read().level, -80.0)
	click := sound(1, 0.5)
	click[100], click[200] = 1, -1
	m.add(click)
	require.False(t, m.read().clipping, "two samples are no clipping")
	m.add(sound(0.5, 1))
	require.True(t, m.read().clipping)
	require.EqualValues(t, audio.SampleRate/2, m.read().clipped)
}
