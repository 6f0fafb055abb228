package golden

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// DemoSchema is the version of the demonstration model's goldens that this package reads.
const DemoSchema = "voxtral-demo-golden/1"

// Clip is one held-out clip of the demonstration model: a 16 kHz 16-bit mono FLAC file.
type Clip struct {
	Path  string
	Text  string // what is spoken
	Voice string // synthesizer, voice and its settings
	Runs  []Run  // at delay 6 always, at other delays for a few clips
}

// Engine is the synthesizer that spoke the clip, "espeak-ng" or "flite".
func (c Clip) Engine() string {
	engine, _, _ := strings.Cut(c.Voice, " ")
	return engine
}

// Run is the greedy fp32 output of the Hugging Face implementation on one clip.
type Run struct {
	File   string  `json:"file"`
	Delay  int     `json:"delay"`  // tokens of 80 ms
	Text   string  `json:"text"`   // the transcript
	Tokens []int32 `json:"tokens"` // one id for each position from the end of the prompt to the last of the audio
	// MinMargin is the smallest distance of the two best logits over all steps, MinMarginAt the index of that token: a run
	// of our own that differs there first has met a near tie.
	MinMargin   float32 `json:"min_margin"`
	MinMarginAt int     `json:"min_margin_at"`
}

// LoadDemo reads the manifest of the held-out clips in dir (testdata/demo) and the goldens beside it.
func LoadDemo(dir string) ([]Clip, error) {
	manifest, err := os.ReadFile(filepath.Join(dir, "manifest.tsv"))
	if err != nil {
		return nil, fmt.Errorf("golden: %w; make the clips: scripts/demo-clips/make_clips.py", err)
	}
	path := filepath.Join(dir, "golden.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("golden: %w; make it: python scripts/reference/demo_goldens.py", err)
	}
	var doc struct {
		Schema string `json:"schema"`
		Runs   []Run  `json:"runs"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("golden: %s: %w", path, err)
	}
	if doc.Schema != DemoSchema {
		return nil, fmt.Errorf("golden: %s: schema %q, want %q; make it again: python scripts/reference/demo_goldens.py", path, doc.Schema, DemoSchema)
	}
	runs := map[string][]Run{}
	for _, r := range doc.Runs {
		runs[r.File] = append(runs[r.File], r)
	}
	var clips []Clip
	for i, line := range strings.Split(strings.TrimRight(string(manifest), "\n"), "\n") {
		fields := strings.Split(line, "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("golden: %s line %d: %d fields, want file, text and voice", filepath.Join(dir, "manifest.tsv"), i+1, len(fields))
		}
		if i == 0 {
			continue // the names of the columns
		}
		clips = append(clips, Clip{Path: filepath.Join(dir, fields[0]), Text: fields[1], Voice: fields[2], Runs: runs[fields[0]]})
	}
	return clips, nil
}
