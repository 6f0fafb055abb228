// Import turns the demo model as its training script leaves it (demo.json and demo-N.safetensors) into an ordinary
// Hugging Face directory: config.json, the shards with their index, and a tekken.json of the published structure.
//
//	go run ./scripts/demo/import SRC DST
package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"voxtral/models"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/demo/import SRC DST")
		os.Exit(2)
	}
	if err := convert(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "import:", err)
		os.Exit(1)
	}
}

func convert(src, dst string) error {
	doc, err := os.ReadFile(filepath.Join(src, "demo.json"))
	if err != nil {
		return err
	}
	var demo struct {
		Config json.RawMessage `json:"config"`
		Vocab  [][]int         `json:"vocab"` // for each rank its byte values
	}
	if err := json.Unmarshal(doc, &demo); err != nil {
		return fmt.Errorf("demo.json: %w", err)
	}
	if err := os.MkdirAll(dst, 0o755); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(dst, "config.json"), demo.Config); err != nil {
		return err
	}
	if err := writeTekken(filepath.Join(dst, "tekken.json"), demo.Vocab); err != nil {
		return err
	}
	if err := copyShards(src, dst); err != nil {
		return err
	}
	// Whatever the loader refuses should be known now.
	m, err := models.Open(dst)
	if err != nil {
		return err
	}
	return m.Close()
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

const specials = 1000

// specialNames are those that the published tokenizer names among its first ids; the others are fillers.
var specialNames = map[int]string{
	0: "<unk>", 1: "<s>", 2: "</s>", 11: "<pad>", 24: "[AUDIO]", 25: "[BEGIN_AUDIO]", 32: "[STREAMING_PAD]", 33: "[STREAMING_WORD]",
}

type special struct {
	Rank    int    `json:"rank"`
	Str     string `json:"token_str"`
	Control bool   `json:"is_control"`
}

type token struct {
	Rank  int     `json:"rank"`
	Bytes string  `json:"token_bytes"`
	Str   *string `json:"token_str"` // null where the bytes are no UTF-8 of their own
}

type audio struct {
	SamplingRate int            `json:"sampling_rate"`
	FrameRate    float64        `json:"frame_rate"`
	Encoding     map[string]int `json:"audio_encoding_config"`
	ChunkLength  *float64       `json:"chunk_length_s"`
	Transcript   string         `json:"transcription_format"`
	DelayMS      int            `json:"transcription_delay_ms"`
	LookAheadMS  float64        `json:"streaming_look_ahead_ms"`
	LookBackMS   float64        `json:"streaming_look_back_ms"`
	LeftPad      int            `json:"streaming_n_left_pad_tokens"`
}

// writeTekken leaves out the pattern that splits text, as nothing here encodes, and white space, as the file is embedded.
func writeTekken(path string, vocab [][]int) error {
	tokens := make([]token, len(vocab))
	for rank, values := range vocab {
		b := make([]byte, len(values))
		for i, v := range values {
			if v < 0 || v > 255 {
				return fmt.Errorf("demo.json: vocab rank %d has the byte value %d", rank, v)
			}
			b[i] = byte(v)
		}
		tokens[rank] = token{Rank: rank, Bytes: base64.StdEncoding.EncodeToString(b)}
		if utf8.Valid(b) {
			text := string(b)
			tokens[rank].Str = &text
		}
	}
	control := make([]special, specials)
	for id := range control {
		name, ok := specialNames[id]
		if !ok {
			name = fmt.Sprintf("<SPECIAL_%d>", id)
		}
		control[id] = special{id, name, true}
	}
	b, err := json.Marshal(map[string]any{
		"config": map[string]any{
			"num_vocab_tokens": len(tokens), "default_vocab_size": specials + len(tokens),
			"default_num_special_tokens": specials, "version": "v13",
		},
		"vocab":          tokens,
		"special_tokens": control,
		"audio": audio{
			SamplingRate: models.SampleRate, FrameRate: 12.5, Transcript: "streaming", DelayMS: 480, LookAheadMS: 2.5, LookBackMS: 52.5, LeftPad: 32,
			Encoding: map[string]int{"num_mel_bins": 128, "hop_length": models.HopLength, "window_size": models.WindowSize},
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// copyShards copies the weights, which have their names already, and writes the index.
func copyShards(src, dst string) error {
	paths, err := filepath.Glob(filepath.Join(src, "demo-*.safetensors"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("%s has no demo-N.safetensors", src)
	}
	slices.Sort(paths)
	weights, total := map[string]string{}, int64(0)
	for i, path := range paths {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(paths))
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		tensors, err := tensorNames(data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, t := range tensors {
			weights[t] = name
		}
		total += int64(len(data))
		if err := os.WriteFile(filepath.Join(dst, name), data, 0o644); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(dst, "model.safetensors.index.json"), map[string]any{
		"metadata": map[string]any{"total_size": total}, "weight_map": weights,
	})
}

func tensorNames(file []byte) ([]string, error) {
	if len(file) < 8 || binary.LittleEndian.Uint64(file) > uint64(len(file)-8) {
		return nil, io.ErrUnexpectedEOF
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(file[8:8+binary.LittleEndian.Uint64(file)], &header); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(header))
	for name := range header {
		if name != "__metadata__" {
			names = append(names, name)
		}
	}
	return names, nil
}
