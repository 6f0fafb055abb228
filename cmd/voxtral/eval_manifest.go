package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// evalClip is one line of a manifest.
type evalClip struct {
	name string // as the manifest has it
	path string
	text string
}

// readManifest reads audio files and what is said in them. A line is a JSON object with "audio" (or "audio_filepath") and
// "text", or two fields and maybe more with tabs between them, below a line that may name them. Paths are relative to the
// manifest's folder.
func readManifest(path string) ([]evalClip, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var clips []evalClip
	for i, line := range strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" {
			continue
		}
		var c evalClip
		if strings.HasPrefix(line, "{") {
			c, err = jsonClip(line)
		} else {
			fields := strings.Split(line, "\t")
			if i == 0 && len(fields) > 1 && slices.Contains([]string{"audio", "file", "path"}, fields[0]) && fields[1] == "text" {
				continue
			}
			if len(fields) < 2 || fields[0] == "" {
				err = fmt.Errorf("want an audio file, a tab and its text")
			} else {
				c.name, c.text = fields[0], fields[1]
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, i+1, err)
		}
		c.path = c.name
		if !filepath.IsAbs(c.path) {
			c.path = filepath.Join(filepath.Dir(path), c.path)
		}
		clips = append(clips, c)
	}
	if len(clips) == 0 {
		return nil, fmt.Errorf("%s names no audio", path)
	}
	return clips, nil
}

func jsonClip(line string) (evalClip, error) {
	var doc struct {
		Audio    string  `json:"audio"`
		FilePath string  `json:"audio_filepath"`
		Text     *string `json:"text"`
	}
	if err := json.Unmarshal([]byte(line), &doc); err != nil {
		return evalClip{}, err
	}
	if doc.Audio == "" {
		doc.Audio = doc.FilePath
	}
	if doc.Audio == "" || doc.Text == nil {
		return evalClip{}, fmt.Errorf(`want "audio" and "text"`)
	}
	return evalClip{name: doc.Audio, text: *doc.Text}, nil
}
