package models

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The checkpoints that the reference implementation was run on hold the same weights in both layouts.
func TestReferenceCheckpoints(t *testing.T) {
	dirs, err := filepath.Glob("../internal/golden/testdata/tiny-*")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		requireSameModel(t, open(t, filepath.Join(dir, "mistral")), open(t, filepath.Join(dir, "huggingface")))
	}
}
