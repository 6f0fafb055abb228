package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without a terminal there is no bar, and everything that moves it does nothing.
func TestNoProgress(t *testing.T) {
	var out bytes.Buffer
	c := console{w: &out}
	c.begin("a.wav")
	c.progress(1, 2, "words")
	c.end()
	require.Empty(t, out.String())
	c.note("said")
	require.Equal(t, "voxtral: said\n", out.String())
}

// The bar shows name, words and percentage, survives a length that is learnt late, and is gone before a message.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	c := console{w: &out, bar: &progress{w: &out}}
	c.begin("dir/a.wav")
	c.note("before")
	require.Equal(t, "voxtral: before\n", out.String(), "nothing to clear yet")
	c.progress(10, -1, "1.0s")
	c.progress(50, 200, "2.0s")
	require.Contains(t, out.String(), "a.wav  2.0s")
	require.Contains(t, out.String(), "25%")
	c.progress(200, 200, "8.0s")
	c.end()
	c.end()
	shown := out.Len()
	c.note("after")
	require.Equal(t, "voxtral: after\n", out.String()[shown:])
	c.begin("b.wav")
	require.NotContains(t, out.String(), "b.wav", "shown when there is something to show")
	require.Equal(t, "a very long name of…", shortName("a very long name of a recording.wav"))
}
