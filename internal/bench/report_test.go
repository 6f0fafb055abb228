package bench

import (
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// reportOf has runs with these RTFs, and ticks of these milliseconds in each.
func reportOf(rtf []float64, ticks ...float64) *Report {
	r := &Report{Mode: Streaming, Device: "cpu", Format: "int4", AudioSeconds: 30, Commit: "abc", Model: "m"}
	for _, v := range rtf {
		r.Runs = append(r.Runs, Measures{RTF: v, TokensPerSecond: 12.5 / v, Tick: newTicks(ticks), ticks: ticks})
	}
	r.Measures = medians(r.Runs)
	return r
}

// The summary is the median of every metric, but for ticks, which are those of all runs.
func TestMedians(t *testing.T) {
	ten, thirty := 10.0, 30.0
	m := medians([]Measures{
		{RTF: 1, TimeToFirstText: &ten, ticks: []float64{1, 2}, Tick: newTicks([]float64{1, 2})},
		{RTF: 5, TimeToFirstText: &thirty, ticks: []float64{100, 200}, Tick: newTicks([]float64{100, 200})},
		{RTF: 2, ticks: []float64{3}, Tick: newTicks([]float64{3})},
	})
	require.InDelta(t, 2, m.RTF, 0)
	require.InDelta(t, 20, *m.TimeToFirstText, 0)
	require.Nil(t, m.TimeToFirstToken)
	require.Equal(t, &Ticks{P50: 3, P95: 200, P99: 200, Max: 200, Over80: 2, Count: 5}, m.Tick)
}

// The first line is the one that scripts look for; the warm-up is owned up to.
func TestWriteText(t *testing.T) {
	var out strings.Builder
	r := reportOf([]float64{0.25, 0.283, 0.3}, 10, 90)
	r.Machine = &machine
	require.NoError(t, r.WriteText(&out))
	first, rest, _ := strings.Cut(out.String(), "\n")
	require.Equal(t, "Voxtral RTF 0.283 (streaming, cpu, int4, 30.0 s of audio)", first)
	for _, want := range []string{"0.283 (0.250–0.300)", "not counted", "over 80 ms: 3 of 6", "first text –", "int8 A: 2000 Gop/s"} {
		require.Contains(t, strings.Join(strings.Fields(rest), " "), want)
	}
	require.NotContains(t, rest, "share", "no ops unless profiled")
	r.Ops = []OpTime{{"dec.logits", 3, 0.75}}
	out.Reset()
	require.NoError(t, r.WriteText(&out))
	require.Regexp(t, `dec\.logits +3\.0 +75\.0 %`, out.String())
}

// What is faster beyond doubt is better, whichever way the metric runs; what overlaps is not told apart.
func TestCompare(t *testing.T) {
	a := reportOf([]float64{0.40, 0.41, 0.42})
	find := func(b *Report, name string) Comparison {
		for _, c := range Compare(a, b) {
			if c.Metric == name {
				return c
			}
		}
		t.Fatalf("no %s", name)
		return Comparison{}
	}
	faster := reportOf([]float64{0.20, 0.205, 0.21})
	c := find(faster, "RTF")
	require.Equal(t, "better", c.Verdict)
	require.InDelta(t, 0.5, c.Ratio, 1e-9)
	require.True(t, c.Interval.Lo <= 0.5 && c.Interval.Hi >= 0.5 && c.Interval.Hi < 0.6)
	require.Equal(t, "better", find(faster, "tokens/s").Verdict)
	require.InDelta(t, 2, find(faster, "tokens/s").Ratio, 0.01)
	slower := reportOf([]float64{0.5, 0.51})
	require.Equal(t, "worse", find(slower, "RTF").Verdict)
	require.Equal(t, "worse", find(slower, "tokens/s").Verdict)
	require.Equal(t, "no difference shown", find(reportOf([]float64{0.39, 0.43}), "RTF").Verdict)
	require.Equal(t, "one run: unknown", find(reportOf([]float64{0.1}), "RTF").Verdict)

	var out strings.Builder
	other := reportOf([]float64{0.1, 0.1}, 50)
	other.Format = "bf16"
	require.NoError(t, WriteComparison(&out, "a.json", a, "b.json", other))
	require.Contains(t, out.String(), "format: int4 and bf16")
	require.NotContains(t, out.String(), "mode:")
	require.NotContains(t, out.String(), "tick p50", "only one of them has ticks")
}

func TestReadReportRefuses(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadReport(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, text := range []string{"", "Voxtral RTF 0.2", "{}", "[]", `{"rtf":1}`, `{"rtf":"fast","runs":[{}]}`} {
		path := filepath.Join(dir, "r.json")
		writeFile(t, path, []byte(text))
		_, err := ReadReport(path)
		require.ErrorContains(t, err, "r.json is no report of voxtral bench --json", text)
	}
}

// The plot is a PNG with the deadline in red; without ticks there is none, and nothing is left behind.
func TestPlot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ticks.png")
	require.NoError(t, reportOf([]float64{0.2, 0.3}, 10, 120, 30, 60).Plot(path))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	img, err := png.Decode(f)
	require.NoError(t, err)
	red := 0
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if r, g, b, _ := img.At(x, y).RGBA(); r > 0xb000 && g < 0x4000 && b < 0x4000 {
				red++
			}
		}
	}
	require.Greater(t, red, 100)
	require.ErrorContains(t, reportOf([]float64{0.2}).Plot(filepath.Join(dir, "b.png")), "no ticks")
	require.Error(t, reportOf([]float64{0.2}, 1).Plot(filepath.Join(dir, "no", "b.png")))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// The same noise each time, whatever its length; as loud as speech, with pauses.
func TestSpeech(t *testing.T) {
	long, short := Speech(6), Speech(2.5)
	require.Len(t, long, 96000)
	require.Equal(t, short, long[:len(short)])
	squares, silent := 0.0, 0
	for _, v := range long {
		require.LessOrEqual(t, math.Abs(float64(v)), 1.0)
		squares += float64(v) * float64(v)
		if v == 0 {
			silent++
		}
	}
	rms := math.Sqrt(squares / float64(len(long)))
	require.InDelta(t, 0.08, rms, 0.06)
	require.InDelta(t, 0.2, float64(silent)/float64(len(long)), 0.1)
}

func TestStatusBytes(t *testing.T) {
	status := []byte("Name:\tvoxtral\nVmPeak:\t  900 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 17 pages\n")
	require.EqualValues(t, 1234*1024, statusBytes(status, "VmHWM"))
	require.Zero(t, statusBytes(status, "VmRSS"))
	require.Zero(t, statusBytes(status, "VmH"))
}

// The best of several probes counts.
func TestMachineBest(t *testing.T) {
	var m Machine
	m.best(machine)
	require.Equal(t, machine, m)
	m.Peaks = []Peak{{"int8 A", 3e12}, {"int8 B", 1e12}, {"bf16 C", 2e12}}
	m.ReadBandwidth, m.Int8 = 1e9, Peak{"int8 A", 3e12}
	m.best(machine)
	require.Equal(t, []Peak{{"int8 A", 3e12}, {"int8 B", 4e12}, {"bf16 C", 2e12}}, m.Peaks)
	require.Equal(t, Peak{"int8 B", 4e12}, m.Int8)
	require.InDelta(t, 20e9, m.ReadBandwidth, 0)
}
