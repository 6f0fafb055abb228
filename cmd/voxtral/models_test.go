package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuantizeAndInspect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "packed.safetensors")
	r := voxtral(t, "quantize", checkpoint, "-o", file, "--format", "int4", "--head", "int8", "--group", "32")
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Empty(t, r.stderr)
	require.Contains(t, r.stdout, "layers.*.attention.wq.weight")
	require.Contains(t, r.stdout, "int8/32")
	require.Contains(t, r.stdout, "times smaller")

	again := voxtral(t, "quantize", checkpoint, "-o", file)
	require.Equal(t, exitFailed, again.code)
	require.Contains(t, again.stderr, "--force")
	require.Equal(t, exitOK, voxtral(t, "quantize", "-v", checkpoint, "-o", file, "--force").code)

	var d description
	r = voxtral(t, "inspect", "--json", file)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &d))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, info.Size(), d.Disk)
	require.Equal(t, "packed", d.Layout)
	require.Empty(t, d.Tensors)
	require.Equal(t, 1000, d.Tokenizer.Specials)
	tensors, parameters := 0, int64(0)
	for _, f := range d.Formats {
		tensors += f.Tensors
		parameters += f.Parameters
	}
	require.Equal(t, d.NumTensors, tensors)
	require.Equal(t, d.Parameters, parameters)

	var source description
	r = voxtral(t, "inspect", "--json", "--tensors", checkpoint)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &source))
	require.Equal(t, source.Parameters, d.Parameters)
	require.Equal(t, source.Decoder, d.Decoder)
	require.Len(t, source.Tensors, source.NumTensors)

	r = voxtral(t, "transcribe", "--model", file, "-f", "json", hello)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.NotContains(t, r.stderr, "demonstration")
	require.Equal(t, exitOK, voxtral(t, "inspect", "--tensors", file).code)
	require.Equal(t, exitFailed, voxtral(t, "inspect", hello).code)
}

func TestInspectBuiltInModel(t *testing.T) {
	r := voxtral(t, "inspect")
	require.Equal(t, exitOK, r.code, r.stderr)
	for _, word := range []string{"built in", "encoder", "decoder", "tokenizer", "formats", "size"} {
		require.Contains(t, r.stdout, word)
	}
}

func TestVersion(t *testing.T) {
	require.Regexp(t, `^voxtral \S+, commit .+, go1\.\S+, \w+/\w+\n$`, voxtral(t, "version").stdout)
}
