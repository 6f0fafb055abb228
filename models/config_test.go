package models

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func cut(path string) (first, rest string, found bool) { return strings.Cut(path, "|") }

func split(path string) []string { return strings.Split(path, ".") }

// replace puts another literal in the place of a value.
func replace(t *testing.T, doc []byte, path []string, literal string) []byte {
	t.Helper()
	old := find(doc, path...)
	require.NotNil(t, old, "%v", path)
	at := cap(doc) - cap(old) // find returns a view
	require.True(t, bytes.HasPrefix(doc[at:], old))
	return append(append(bytes.Clone(doc[:at]), literal...), doc[at+len(old):]...)
}
