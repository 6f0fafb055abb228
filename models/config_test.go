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

// FuzzParams reads one input as params.json, as config.json, as a packed model's configuration and as a shard index.
func FuzzParams(f *testing.F) {
	f.Add(paramsJSON(tiny()))
	f.Add(configJSON(tiny()))
	packed, err := tiny().encode()
	require.NoError(f, err)
	f.Add([]byte(packed))
	f.Add([]byte(`{"weight_map":{"x":"model-00001-of-00001.safetensors"}}`))
	f.Add([]byte(`{"dim":"99999999999999999999","n_layers":1e400,"sliding_window":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		requireBounded(t, data, func() {
			for _, layout := range []Layout{Mistral, HuggingFace, Packed} {
				if c, err := parseConfig("c", data, layout); err == nil {
					require.Zero(t, c.Decoder.Heads%c.Decoder.KVHeads)
				}
			}
			_, _ = parseIndex(data)
		})
	})
}
