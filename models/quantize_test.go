package models

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"voxtral/internal/device"
)

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func pack(t testing.TB, src *Model, opt QuantizeOptions) (string, Summary) {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "tiny.voxtral")
	sum, err := Quantize(context.Background(), src, dst, opt)
	require.NoError(t, err)
	return dst, sum
}

// What is read back from a packed file is what the fit chose for each logical row, and both layouts pack to the same
// bytes but for their name and source.
func TestPackedRoundTrip(t *testing.T) {
	c := tiny()
	set := randomTensors(c, 4)
	m, hf := open(t, writeDir(t, mistralFiles(c, set))), open(t, writeDir(t, hfFiles(c, set, published)))
	for _, opt := range []QuantizeOptions{
		{Format: device.BF16}, {Format: device.Int8}, {Format: device.Int4}, {Format: device.Int4, Head: device.Int8, Group: 128},
		{Format: device.Int4, Head: device.Int4}, {Format: device.Int8, Head: device.BF16, Group: 32},
	} {
		path, sum := pack(t, m, opt)
		packed := open(t, path)
		require.Equal(t, Packed, packed.Layout)
		require.Equal(t, m.Config, packed.Config)
		require.Equal(t, m.Tokenizer, packed.Tokenizer)
		require.Equal(t, m.order, packed.order)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, info.Size(), sum.Bytes)
		require.Equal(t, sha256Hex(encodeSafetensors(set)), packed.Meta.Source)

		fromHF, _ := pack(t, hf, opt)
		requireSameModel(t, packed, open(t, fromHF))
		requirePacked(t, m, packed, opt)
	}
}

// requirePacked encodes every matrix again, row by row, and compares.
func requirePacked(t *testing.T, m, packed *Model, opt QuantizeOptions) {
	t.Helper()
	head := opt.Head
	if head == device.F32 {
		head = map[device.Format]device.Format{device.BF16: device.BF16, device.Int8: device.Int8, device.Int4: device.Int8}[opt.Format]
	}
	q := quantizer{opt: QuantizeOptions{Format: opt.Format, Head: head, Group: opt.Group}}
	for _, info := range packed.Tensors() {
		if len(info.Shape) == 1 {
			require.Equal(t, logical(t, m, info), logical(t, packed, info))
			continue
		}
		src, err := m.Matrix(info.Name)
		require.NoError(t, err)
		got, err := packed.Matrix(info.Name)
		require.NoError(t, err)
		format, group := q.target(info.Name, info.Shape)
		require.Equal(t, format, got.Format, info.Name)
		require.Equal(t, group, got.Group, info.Name)
		require.Zero(t, uintptr(unsafe.Pointer(&got.Data[0]))%packedAlign, info.Name) // the map begins at a page
		want := got
		want.Data, want.Scales = make([]byte, len(got.Data)), make([]byte, len(got.Scales))
		p := packer{src: &src, chunk: want}
		require.NoError(t, p.encode(0, &lossStats{}))
		require.Equal(t, dense(&want), dense(&got), info.Name)
	}
}

// A packed file in BF16 may be packed again with the same result; one with groups may not.
func TestPackAgain(t *testing.T) {
	m := open(t, writeDir(t, mistralFiles(tiny(), randomTensors(tiny(), 5))))
	bf16, _ := pack(t, m, QuantizeOptions{Format: device.BF16})
	requireSameModel(t, m, open(t, bf16))
	once, _ := pack(t, m, QuantizeOptions{Format: device.Int4})
	twice, _ := pack(t, open(t, bf16), QuantizeOptions{Format: device.Int4})
	requireSameModel(t, open(t, once), open(t, twice))
	require.Equal(t, open(t, once).Meta, open(t, twice).Meta)
	_, err := Quantize(context.Background(), open(t, once), filepath.Join(t.TempDir(), "x"), QuantizeOptions{Format: device.Int8})
	requireOneError(t, err, "int4 already")
}

// However packing ends early, nothing is left beside the destination and what was there stays.
func TestQuantizeIsAtomic(t *testing.T) {
	c := tiny()
	m := open(t, writeDir(t, mistralFiles(c, randomTensors(c, 6))))
	set := randomTensors(c, 6)
	binary.LittleEndian.PutUint16(set[DecoderLayer(1, W2)].data[10:], 0x7fc0)
	nan := open(t, writeDir(t, mistralFiles(c, set)))
	set = randomTensors(c, 6)
	binary.LittleEndian.PutUint16(set[DecoderNorm].data[2:], 0x7f80)
	inf := open(t, writeDir(t, mistralFiles(c, set)))
	set = randomTensors(c, 6)
	binary.LittleEndian.PutUint16(set[DecoderLayer(0, W1)].data, 0x7e00)
	large := open(t, writeDir(t, mistralFiles(c, set)))

	for name, tt := range map[string]struct {
		src  *Model
		opt  QuantizeOptions
		want []string
	}{
		"cancelled": {m, QuantizeOptions{Format: device.Int8}, []string{"canceled"}},
		"format":    {m, QuantizeOptions{Format: device.F16}, []string{"f16"}},
		"group":     {m, QuantizeOptions{Format: device.Int8, Group: 16}, []string{"16"}},
		"nan":       {nan, QuantizeOptions{Format: device.Int4}, []string{DecoderLayer(1, W2), "row 0", "column 5", "NaN"}},
		"inf":       {inf, QuantizeOptions{Format: device.BF16}, []string{DecoderNorm, "Inf"}},
		"large":     {large, QuantizeOptions{Format: device.Int4}, []string{DecoderLayer(0, W1), "row 0", "too large"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			dst := filepath.Join(dir, "m.voxtral")
			require.NoError(t, os.WriteFile(dst, []byte("before"), 0o600))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if name == "cancelled" {
				tt.opt.Progress = func(done, total int64) {
					if done > total/2 {
						cancel()
					}
				}
			}
			_, err := Quantize(ctx, tt.src, dst, tt.opt)
			requireOneError(t, err, tt.want...)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1)
			got, err := os.ReadFile(dst)
			require.NoError(t, err)
			require.Equal(t, "before", string(got))
		})
	}
	_, err := Quantize(context.Background(), m, t.TempDir(), QuantizeOptions{Format: device.Int8})
	requireOneError(t, err, "not a file")
}

// Every single damaged bit of a packed file is noticed, at Open or when its tensor is used.
func TestPackedBitFlips(t *testing.T) {
	path, _ := pack(t, open(t, writeDir(t, mistralFiles(tiny(), randomTensors(tiny(), 7)))), QuantizeOptions{Format: device.Int4})
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = OpenBytes("whole", data)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(7, 7))
	for range 150 {
		bit := rng.IntN(8 * len(data))
		damaged := append([]byte(nil), data...)
		damaged[bit/8] ^= 1 << (bit % 8)
		require.Error(t, useAll(damaged), "bit %d", bit)
	}
	for _, n := range []int{0, 7, 8, 100, len(data) / 2, len(data) - 1} {
		_, err = OpenBytes("short", data[:n])
		requireOneError(t, err, "short")
	}
}

// useAll reads every byte of a packed file that matters; padding is checked here too.
func useAll(data []byte) error {
	m, err := OpenBytes("damaged", data)
	if err != nil {
		return err
	}
	for _, name := range m.order {
		if _, err := m.lookup(name); err != nil {
			return err
		}
	}
	p := packedFile{container: m.files[0]}
	if err := p.readChecksums(); err != nil {
		return err
	}
	for i := range p.tensors {
		if t := &p.tensors[i]; t.name != checksumsTensor {
			if err := p.verify(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// On Gaussian and on heavy-tailed rows the search beats the plain scale max|x| / 7 (or / 127), in the weighted error
// that it minimises and in the plain one.
func TestFitBeatsAbsMax(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	rows := map[string]func() float32{
		"gaussian": func() float32 { return float32(rng.NormFloat64()) * 0.02 },
		"student t, 4 degrees": func() float32 {
			chi := 0.0
			for range 4 {
				v := rng.NormFloat64()
				chi += v * v
			}
			return float32(0.02 * rng.NormFloat64() / math.Sqrt(chi/4))
		},
	}
	for name, draw := range rows {
		for format, tt := range map[device.Format]struct {
			g     *grid
			group int
			gain  float64 // of the plain error
		}{device.Int4: {&int4Grid, 32, 0.95}, device.Int8: {&int8Grid, 64, 0.99}} {
			x, w, codes := make([]float32, 2048), make([]float32, 2048), make([]float32, tt.group)
			for i := range x {
				x[i] = draw()
			}
			weigh(w, x)
			var ours, plain, oursW, plainW float64
			for i := 0; i < len(x); i += tt.group {
				xs, ws := x[i:i+tt.group], w[i:i+tt.group]
				half, ok := tt.g.fit(codes, xs, ws)
				require.True(t, ok)
				var peak float32
				for _, v := range xs {
					peak = max(peak, abs(v))
				}
				simple := device.HalfToFloat(device.FloatToHalf(peak / tt.g.hi))
				for j, v := range xs {
					a := float64(v - codes[j]*device.HalfToFloat(half))
					b := float64(v - simple*tt.g.round(v/simple))
					ours, plain = ours+a*a, plain+b*b
					oursW, plainW = oursW+float64(ws[j])*a*a, plainW+float64(ws[j])*b*b
				}
			}
			require.Less(t, math.Sqrt(ours/plain), tt.gain, "%s %s", name, format)
			require.Less(t, math.Sqrt(oursW/plainW), tt.gain, "%s %s", name, format)
		}
	}
}

// Groups at the edges of F16 keep their codes within range and never become NaN.
func TestFitEdges(t *testing.T) {
	for _, peak := range []float32{0, 1e-30, 3e-8, 1e-6, 1e-4, 1, 4e5} {
		x, w, codes := make([]float32, 32), make([]float32, 32), make([]float32, 32)
		for i := range x {
			x[i] = peak * float32(i-16) / 16
		}
		weigh(w, x)
		half, ok := int4Grid.fit(codes, x, w)
		require.True(t, ok, "%g", peak)
		for i, c := range codes {
			require.True(t, c >= -8 && c <= 7)
			require.InDelta(t, x[i], c*device.HalfToFloat(half), float64(max(peak/10, 1.0/(1<<23))), "%g", peak)
		}
	}
}
