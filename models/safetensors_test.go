package models

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// file is a safetensors file with this header and n bytes of data.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func tensor(name string, from, to int) string {
	return fmt.Sprintf(`"%s":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}`, name, to-from, from, to)
}

// A header that says what the bytes are is read; offsets need no alignment and tensors no order.
func TestSafetensors(t *testing.T) {
	f, err := parseSafetensors("f", file(`{ "__metadata__" : {"a": "b\"\u003c"},`+tensor("y", 3, 10)+","+tensor("x", 0, 3)+"}  ", 10))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": `b"<`}, f.meta)
	x, ok := f.get("x")
	require.True(t, ok)
	require.Len(t, f.bytes(x), 3)
	_, ok = f.get("z")
	require.False(t, ok)
}

// Every way to lie in a header is one clear error.
func TestBadSafetensors(t *testing.T) {
	good := tensor("x", 0, 4)
	huge := binary.LittleEndian.AppendUint64(nil, 1<<62)
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"empty":            {nil, "too few"},
		"huge header":      {append(huge, '{', '}'), "claims 4611686018427387904"},
		"no JSON":          {file("", 0), "ends"},
		"cut JSON":         {file("{"+good, 4), "ends"},
		"junk after":       {file("{"+good+"} x", 4), "follows"},
		"not an object":    {file("[]", 0), `'{'`},
		"duplicate":        {file("{"+good+","+tensor("x", 4, 8)+"}", 8), "twice"},
		"overlap":          {file("{"+good+","+tensor("y", 3, 8)+"}", 8), "overlaps"},
		"hole":             {file("{"+good+","+tensor("y", 5, 8)+"}", 8), "belong to no tensor"},
		"tail":             {file("{"+good+"}", 5), "belong to no tensor"},
		"truncated":        {file("{"+good+"}", 3), "truncated"},
		"dtype":            {file(`{"x":{"dtype":"C64","shape":[4],"data_offsets":[0,4]}}`, 4), "C64"},
		"size":             {file(`{"x":{"dtype":"F32","shape":[4],"data_offsets":[0,4]}}`, 4), "needs 16 bytes"},
		"overflow":         {file(`{"x":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0), "overflow"},
		"negative":         {file(`{"x":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}}`, 4), "-4"},
		"fraction":         {file(`{"x":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}}`, 4), "4.0"},
		"backwards":        {file(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}}`, 4), "before it begins"},
		"one offset":       {file(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[0]}}`, 4), "1 data offsets"},
		"three offsets":    {file(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4,8]}}`, 4), "3 data offsets"},
		"no shape":         {file(`{"x":{"dtype":"U8","data_offsets":[0,4]}}`, 4), "lacks"},
		"rank":             {file(`{"x":{"dtype":"U8","shape":[1,1,1,1,4],"data_offsets":[0,4]}}`, 4), "dimensions"},
		"unknown field":    {file(`{"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"z":1}}`, 4), "unknown field"},
		"control":          {file("{\"x\n\":{}}", 0), "control character"},
		"bad escape":       {file(`{"\q":{}}`, 0), "escape"},
		"deep":             {file(strings.Repeat(`{"x":`, 200), 0), "deeper"},
		"two metadata":     {file(`{"__metadata__":{},"__metadata__":{}}`, 0), "second"},
		"metadata twice":   {file(`{"__metadata__":{"a":"","a":""}}`, 0), "twice"},
		"metadata numbers": {file(`{"__metadata__":{"a":1}}`, 0), "found '1'"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseSafetensors("f.safetensors", tt.data)
			requireOneError(t, err, "f.safetensors", tt.want)
		})
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// requireBounded is the bound that every parser keeps: 4 × input + 1 MB.
func requireBounded(t *testing.T, input []byte, f func()) {
	t.Helper()
	if got, most := allocated(f), uint64(4*len(input)+1<<20); got > most {
		t.Fatalf("%d bytes of input made it allocate %d, want at most %d", len(input), got, most)
	}
}

// The shortest entries that a parser accepts are those that cost the most memory per byte.
func TestAllocationIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 30000 {
		fmt.Fprintf(&b, `"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`, i)
	}
	for _, end := range []string{tensor("z", 0, 1) + "}", `"z"`} {
		data := file("{"+b.String()+end, 1)
		requireBounded(t, data, func() { _, _ = parseSafetensors("f", data) })
	}
	data := file("{"+strings.Repeat(`"":0,`, 1<<18)+`"":0}`, 0)
	requireBounded(t, data, func() { _, _ = parseSafetensors("f", data) })

	data = tekkenJSON(1<<15, 40)
	requireBounded(t, data, func() {
		_, _, err := parseTekken("t", data)
		require.NoError(t, err)
	})
	data = []byte(`{"config":{"default_vocab_size":1048576,"default_num_special_tokens":1000000},"vocab":[],"special_tokens":[` +
		strings.Repeat(`{"rank":1,"token_str":"a"},`, 1<<15) + `{}]}`)
	requireBounded(t, data, func() { _, _, _ = parseTekken("t", data) })
}

func FuzzSafetensors(f *testing.F) {
	f.Add(encodeSafetensors(tensorSet{"x": {"BF16", []int{2, 3}, make([]byte, 12)}, "y": {"F32", []int{1}, make([]byte, 4)}}))
	f.Add(file("{"+tensor("x", 0, 4)+","+tensor("x", 4, 8)+"}", 8))
	f.Add(file(`{"__metadata__":{"a":"\u00e9"}}`, 0))
	f.Add(binary.LittleEndian.AppendUint64(nil, 1<<63))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c *container
		var err error
		requireBounded(t, data, func() { c, err = parseSafetensors("f", data) })
		if err != nil {
			return
		}
		total := 0
		for i := range c.tensors {
			total += len(c.bytes(&c.tensors[i])) // in range, or it panics
		}
		require.Equal(t, len(c.data), total)
	})
}
