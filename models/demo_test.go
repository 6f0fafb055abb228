package models

import (
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"voxtral/internal/device"
)

// The built-in model opens, every tensor of it matches its checksum, and its README describes this very file.
func TestDemo(t *testing.T) {
	m, err := Demo()
	require.NoError(t, err)
	require.NoError(t, useAll(demo))
	require.Equal(t, "demo", m.Name)
	require.Equal(t, Metadata{Source: m.Meta.Source, Format: device.Int4, Head: device.Int8, Group: 32}, m.Meta)
	require.Equal(t, 2024, m.Tokenizer.VocabSize)
	require.Equal(t, [2]int{6, 32}, [2]int{m.Config.DefaultDelay, m.Config.LeftPad})
	require.Equal(t, [3]string{"<s>", "[STREAMING_PAD]", "<SPECIAL_999>"}, [3]string{m.Tokenizer.Name(1), m.Tokenizer.Name(32), m.Tokenizer.Name(999)})
	require.Less(t, len(demo), 12_000_000)

	readme, err := os.ReadFile("demo/README.md")
	require.NoError(t, err)
	require.True(t, strings.Contains(string(readme), m.Meta.Source))
	require.True(t, strings.Contains(string(readme), sha256Hex(demo)))
	require.NoError(t, m.Close())
}

// Devices read elements in place, so embedding must not put them at odd addresses.
func TestDemoIsAligned(t *testing.T) {
	require.Zero(t, uintptr(unsafe.Pointer(&demo[0]))%16)
}
