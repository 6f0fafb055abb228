package golden

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Invariant: sixty clips, half of them by each synthesizer, every one there and with a golden run at delay 6, and three
// of them at delays 2 and 12.
func TestLoadDemo(t *testing.T) {
	dir, err := Path("demo")
	require.NoError(t, err)
	clips, err := LoadDemo(dir)
	require.NoError(t, err)
	engines, delays := map[string]int{}, map[int]int{}
	for _, c := range clips {
		engines[c.Engine()]++
		require.FileExists(t, c.Path)
		require.NotEmpty(t, c.Text)
		for _, r := range c.Runs {
			delays[r.Delay]++
			require.NotEmpty(t, r.Tokens)
			require.Positive(t, r.MinMargin)
			require.Less(t, r.MinMarginAt, len(r.Tokens))
		}
	}
	require.Equal(t, map[string]int{"espeak-ng": 30, "flite": 30}, engines)
	require.Equal(t, map[int]int{6: 60, 2: 3, 12: 3}, delays)
}

// Invariant: goldens that cannot be trusted are an error that names the file and how to make it again.
func TestLoadDemoRefuses(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	_, err := LoadDemo(dir)
	require.ErrorContains(t, err, "make_clips.py")
	put("manifest.tsv", "file\ttext\tvoice\na.flac\tHello.\n")
	_, err = LoadDemo(dir)
	require.ErrorContains(t, err, "demo_goldens.py")
	put("golden.json", `{"schema":"x"}`)
	_, err = LoadDemo(dir)
	require.ErrorContains(t, err, `golden.json: schema "x"`)
	put("golden.json", `{"schema":"voxtral-demo-golden/1","runs":[]}`)
	_, err = LoadDemo(dir)
	require.ErrorContains(t, err, "manifest.tsv line 2: 2 fields")
	put("golden.json", `{`)
	_, err = LoadDemo(dir)
	require.ErrorContains(t, err, "golden.json")
}
