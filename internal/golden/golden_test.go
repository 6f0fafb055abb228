package golden

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func build(t *testing.T, header map[string]any, body []byte) string {
	t.Helper()
	text, err := json.Marshal(header)
	require.NoError(t, err)
	raw := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	raw = append(append(raw, text...), body...)
	path := filepath.Join(t.TempDir(), "f.safetensors")
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	return path
}

func entry(dtype string, shape []int, from, to int) map[string]any {
	return map[string]any{"dtype": dtype, "shape": shape, "data_offsets": []int{from, to}}
}

func meta(schema string) map[string]string { return map[string]string{"schema": schema, "seed": "7"} }

// Invariant: what was written is what is read, value for value, for each type.
func TestLoadReadsEveryType(t *testing.T) {
	body := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1.5))
	body = binary.LittleEndian.AppendUint32(body, math.Float32bits(-2))
	body = binary.LittleEndian.AppendUint32(body, 33)
	body = append(body, 0x00, 0x80, 0x00, 0x40)
	f, err := Load(build(t, map[string]any{
		"__metadata__": meta(Schema),
		"a":            entry("F32", []int{2, 1}, 0, 8),
		"b":            entry("I32", []int{1}, 8, 12),
		"c":            entry("I16", []int{2}, 12, 16),
	}, body))
	require.NoError(t, err)
	data, shape := f.F32("a")
	require.Equal(t, []float32{1.5, -2}, data)
	require.Equal(t, []int{2, 1}, shape)
	require.Equal(t, []int32{33}, f.I32("b"))
	require.Equal(t, []float32{-1, 0.5}, f.PCM("c"))
	require.Equal(t, []string{"a", "b", "c"}, f.Names())
	require.Equal(t, "7", f.Meta("seed"))
	require.True(t, f.Has("a"))
	require.False(t, f.Has("z"))
	require.PanicsWithValue(t, fmt.Sprintf(`golden: %s has no tensor "z", only [a b c]`, f.path), func() { f.F32("z") })
	require.PanicsWithValue(t, fmt.Sprintf(`golden: %s: tensor "b" is I32, asked for as F32`, f.path), func() { f.F32("b") })
}

// Invariant: a fixture that cannot be trusted is an error that names the fault and the command to make it again.
func TestLoadRefuses(t *testing.T) {
	good := meta(Schema)
	for name, c := range map[string]struct {
		header map[string]any
		want   string
	}{
		"schema":    {map[string]any{"__metadata__": meta("voxtral-golden/0")}, `schema "voxtral-golden/0", want "voxtral-golden/1"`},
		"no schema": {map[string]any{}, `schema ""`},
		"outside":   {map[string]any{"__metadata__": good, "x": entry("F32", []int{9}, 0, 36)}, "tensor x: bytes [0, 36)"},
		"backwards": {map[string]any{"__metadata__": good, "x": entry("F32", []int{1}, 4, 0)}, "tensor x: bytes [4, 0)"},
		"shape":     {map[string]any{"__metadata__": good, "x": entry("F32", []int{2}, 0, 4)}, "needs 8 bytes, the file gives 4"},
		"huge":      {map[string]any{"__metadata__": good, "x": entry("F32", []int{1 << 40, 1 << 40}, 0, 4)}, "impossible shape"},
		"negative":  {map[string]any{"__metadata__": good, "x": entry("F32", []int{-1}, 0, 4)}, "impossible shape"},
		"dtype":     {map[string]any{"__metadata__": good, "x": entry("F64", []int{1}, 0, 4)}, "dtype F64"},
	} {
		_, err := Load(build(t, c.header, make([]byte, 8)))
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, "scripts/reference/make_goldens.py", name)
	}
	_, err := Load(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, raw := range [][]byte{{1, 2}, {255, 255, 255, 255, 255, 255, 255, 255, '{'}, {1, 0, 0, 0, 0, 0, 0, 0, '{'}} {
		_, err := parse(raw)
		require.Error(t, err)
	}
}

// Invariant: every committed fixture loads, its greedy tokens are the argmax it records, and no step is a near tie.
func TestCommittedFixtures(t *testing.T) {
	for _, name := range []string{"tiny-a", "tiny-b"} {
		path, err := Path(name, "golden.safetensors")
		require.NoError(t, err)
		f, err := Load(path)
		require.NoError(t, err)
		for _, delay := range []int{1, 6, 12, 30} {
			p := fmt.Sprintf("d%d.", delay)
			tokens, top := f.I32(p+"tokens"), f.I32(p+"top.ids")
			margin, _ := f.F32(p + "margins")
			logits, shape := f.F32(p + "logits")
			require.Len(t, f.I32(p+"prompt"), 33+delay)
			require.Len(t, top, 5*len(tokens))
			require.Len(t, margin, len(tokens))
			for k, id := range tokens {
				require.Equal(t, id, top[5*k])
				require.Greater(t, margin[k], float32(1e-3))
			}
			for r, k := range f.I32(p + "logits.rows") {
				row := logits[r*shape[1] : (r+1)*shape[1]]
				for _, v := range row {
					require.LessOrEqual(t, v, row[tokens[k]])
				}
			}
		}
	}
	path, err := Path("audio.safetensors")
	require.NoError(t, err)
	f, err := Load(path)
	require.NoError(t, err)
	require.NotEmpty(t, f.PCM("pcm"))
}

type recorder struct {
	testing.TB
	failed, logged string
}

func (r *recorder) Helper()                        {}
func (r *recorder) Errorf(format string, a ...any) { r.failed = fmt.Sprintf(format, a...) }
func (r *recorder) Logf(format string, a ...any)   { r.logged = fmt.Sprintf(format, a...) }

// Invariant: Close fails exactly when a value is outside the tolerance, and says where it starts.
func TestClose(t *testing.T) {
	nan := float32(math.NaN())
	want := []float32{100, -100, 0.001}
	for name, c := range map[string]struct {
		got  []float32
		tol  Tol
		fail string
	}{
		"equal":         {[]float32{100, -100, 0.001}, Tol{}, ""},
		"within abs":    {[]float32{100.5, -100, 0.001}, Tol{Abs: 0.5}, ""},
		"beyond abs":    {[]float32{100, -100.75, 0.001}, Tol{Abs: 0.5}, "x: 1 of 3 values bad, max abs 0.75"},
		"within rel":    {[]float32{101, -99, 0.001}, Tol{Rel: 0.011}, ""},
		"rel of small":  {[]float32{100, -100, 0.002}, Tol{Rel: 0.011}, "[2] got"},
		"rms of small":  {[]float32{100, -100, 0.002}, Tol{RMS: 1e-4}, ""},
		"beyond rms":    {[]float32{100, -100, 0.1}, Tol{RMS: 1e-4}, "[2] got 0.100000001, want"},
		"nan":           {[]float32{100, nan, 0.001}, Tol{Abs: 1e9}, "[1] got NaN"},
		"short":         {[]float32{100}, Tol{Abs: 1e9}, "x: 1 values, want 3"},
		"first of more": {[]float32{0, 0, 0}, Tol{Abs: 0.01}, "\n  [0] got 0, want 100\n  [1] got 0, want -100"},
	} {
		r := &recorder{}
		Close(r, "x", c.got, want, c.tol)
		if c.fail == "" {
			require.Empty(t, r.failed, name)
			require.Contains(t, r.logged, "x: 0 of 3 values bad", name)
			continue
		}
		require.Contains(t, r.failed, c.fail, name)
	}
	r := &recorder{}
	Close(r, "x", nil, nil, Tol{})
	require.Equal(t, "x: nothing to compare", r.failed)
}

// Invariant: the cosine tells a scaled vector (1) from a turned one (-1), and equal zeros count as equal.
func TestCompareCosine(t *testing.T) {
	require.InDelta(t, 1, Compare([]float32{2, 4}, []float32{1, 2}, Tol{}).Cosine, 1e-12)
	require.InDelta(t, -1, Compare([]float32{-1, -2}, []float32{1, 2}, Tol{}).Cosine, 1e-12)
	require.InDelta(t, 1, Compare([]float32{0, 0}, []float32{0, 0}, Tol{}).Cosine, 0)
	require.InDelta(t, 0, Compare([]float32{1, 0}, []float32{0, 0}, Tol{}).Cosine, 0)
	require.Equal(t, 1, strings.Count(Compare([]float32{1}, []float32{0}, Tol{}).String(), "[0]"))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, 0, 0, 0, 0, '{', '}'})
	f.Add([]byte(`@` + "\x00\x00\x00\x00\x00\x00\x00" + `{"__metadata__":{"schema":"voxtral-golden/1"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := parse(raw)
		if err == nil && file.Meta("schema") != Schema {
			t.Fatal("accepted without a schema")
		}
	})
}
