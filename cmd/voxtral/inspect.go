package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"voxtral/models"
)

func newInspect() *cobra.Command {
	var asJSON, tensors bool
	cmd := &cobra.Command{
		Use:   "inspect [flags] [MODEL]",
		Short: "Describe a model: configuration, tokenizer, formats and size",
		Long: `Describe a model directory, a packed file or, without an argument, the built-in model:
its layout, configuration, tokenizer, the formats of its tensors, and its size.`,
		Example: `  voxtral inspect
  voxtral inspect Voxtral-Mini-4B-Realtime
  voxtral inspect --tensors voxtral-int4.safetensors
  voxtral inspect --json voxtral-int4.safetensors | jq .decoder`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			open := models.Demo
			if len(args) == 1 {
				open = func() (*models.Model, error) { return models.Open(args[0]) }
			}
			m, err := open()
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, m.Close()) }()
			d := describeModel(m, len(args) == 0)
			if !tensors {
				d.Tensors = nil
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(d)
			}
			return d.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	cmd.Flags().BoolVar(&tensors, "tensors", false, "list every tensor")
	return cmd
}

// description is a model as inspect shows it.
type description struct {
	Name       string               `json:"name"`
	Path       string               `json:"path,omitempty"` // none for the built-in model
	Layout     string               `json:"layout"`
	Source     string               `json:"source_sha256,omitempty"` // packed files only
	Encoder    models.EncoderConfig `json:"encoder"`
	Decoder    models.DecoderConfig `json:"decoder"`
	DelayMS    int64                `json:"default_delay_ms"`
	LeftPad    int                  `json:"left_pad"`
	Tokenizer  tokenizerJSON        `json:"tokenizer"`
	Formats    []formatUse          `json:"formats"`
	NumTensors int                  `json:"num_tensors"`
	Parameters int64                `json:"parameters"`
	Weights    int64                `json:"weight_bytes"`
	Disk       int64                `json:"disk_bytes,omitempty"`
	Tensors    []tensorJSON         `json:"tensors,omitempty"`
}

type tokenizerJSON struct {
	Size          int `json:"size"`
	Specials      int `json:"specials"`
	BOS           int `json:"bos"`
	EOS           int `json:"eos"`
	StreamingPad  int `json:"streaming_pad"`
	StreamingWord int `json:"streaming_word"`
}

// formatUse is how much of a model is stored in one format.
type formatUse struct {
	Format     string `json:"format"`
	Group      int    `json:"group,omitempty"`
	Tensors    int    `json:"tensors"`
	Parameters int64  `json:"parameters"`
	Bytes      int64  `json:"bytes"`
}

type tensorJSON struct {
	Name   string `json:"name"`
	Shape  []int  `json:"shape"`
	Format string `json:"format"`
	Group  int    `json:"group,omitempty"`
	Bytes  int64  `json:"bytes"`
}

func describeModel(m *models.Model, builtIn bool) *description {
	t := m.Tokenizer
	d := &description{
		Name: m.Name, Path: m.Path, Layout: m.Layout.String(), Source: m.Meta.Source,
		Encoder: m.Config.Encoder, Decoder: m.Config.Decoder,
		DelayMS: int64(m.Config.DefaultDelay) * tick.Milliseconds(), LeftPad: m.Config.LeftPad,
		Tokenizer: tokenizerJSON{t.VocabSize, specials(t), t.BOS, t.EOS, t.StreamingPad, t.StreamingWord},
	}
	if builtIn {
		d.Path = ""
	} else {
		d.Disk = diskBytes(m)
	}
	type key struct {
		format string
		group  int
	}
	at := map[key]int{}
	for _, info := range m.Tensors() {
		values := int64(1)
		for _, n := range info.Shape {
			values *= int64(n)
		}
		k := key{info.Format.String(), info.Group}
		i, known := at[k]
		if !known {
			i = len(d.Formats)
			at[k] = i
			d.Formats = append(d.Formats, formatUse{Format: k.format, Group: k.group})
		}
		use := &d.Formats[i]
		use.Tensors++
		use.Parameters += values
		use.Bytes += info.Bytes
		d.NumTensors++
		d.Parameters += values
		d.Weights += info.Bytes
		d.Tensors = append(d.Tensors, tensorJSON{info.Name, info.Shape, k.format, k.group, info.Bytes})
	}
	return d
}

func specials(t *models.Tokenizer) int {
	n := 0
	for n < t.VocabSize && t.Special(n) {
		n++
	}
	return n
}

// diskBytes adds up the files that the layout consists of.
func diskBytes(m *models.Model) int64 {
	patterns := map[models.Layout][]string{
		models.Mistral:     {"params.json", "consolidated.safetensors", "tekken.json"},
		models.HuggingFace: {"config.json", "model*.safetensors", "model.safetensors.index.json", "tekken.json"},
		models.Packed:      {""},
	}
	total := int64(0)
	for _, pattern := range patterns[m.Layout] {
		paths := []string{m.Path}
		if pattern != "" {
			paths, _ = filepath.Glob(filepath.Join(m.Path, pattern)) // the patterns are well formed
		}
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil {
				total += info.Size()
			}
		}
	}
	return total
}

func (d *description) print(out io.Writer) error {
	var w table
	e, c, t := d.Encoder, d.Decoder, d.Tokenizer
	name := d.Name
	if d.Path == "" {
		name += " (built in)"
	}
	w.row("model\t%s", name)
	w.row("layout\t%s", d.Layout)
	if d.Source != "" {
		w.row("source\tsha256 %s", d.Source)
	}
	w.row("encoder\t%d layers, dim %d, %s, hidden %d", e.Layers, e.Dim, headWords(e.Heads, e.KVHeads, e.HeadDim), e.Hidden)
	w.row("\twindow %d rows (%s), %d mel bins, %d rows a position, theta %g, eps %g", e.Window, shortTime(tick/4*time.Duration(e.Window)), e.MelBins, e.Downsample, e.RopeTheta, e.NormEps)
	w.row("decoder\t%d layers, dim %d, %s, hidden %d", c.Layers, c.Dim, headWords(c.Heads, c.KVHeads, c.HeadDim), c.Hidden)
	w.row("\twindow %d positions (%s), at most %d, ada dim %d, theta %g, eps %g", c.Window, shortTime(tick*time.Duration(c.Window)), c.MaxPositions, c.AdaDim, c.RopeTheta, c.NormEps)
	w.row("tokenizer\t%d ids, of them %d special (bos %d, eos %d, pad %d, word %d)", t.Size, t.Specials, t.BOS, t.EOS, t.StreamingPad, t.StreamingWord)
	w.row("delay\t%d ms unless chosen, after %d tokens of silence", d.DelayMS, d.LeftPad)
	for i, f := range d.Formats {
		label := ""
		if i == 0 {
			label = "formats"
		}
		group := ""
		if f.Group > 0 {
			group = fmt.Sprintf(" in groups of %d", f.Group)
		}
		w.row("%s\t%s%s: %s parameters, %s (tensors: %d)", label, f.Format, group, count(f.Parameters), byteSize(f.Bytes), f.Tensors)
	}
	w.row("tensors\t%d, %s parameters", d.NumTensors, count(d.Parameters))
	size := byteSize(d.Weights) + " of weights"
	if d.Disk > 0 {
		size += ", " + byteSize(d.Disk) + " on disk"
	}
	w.row("size\t%s", size)
	if err := w.write(out); err != nil || d.Tensors == nil {
		return err
	}
	w = table{}
	w.row("\ntensor\tshape\tformat\tsize")
	for _, t := range d.Tensors {
		w.row("%s\t%s\t%s\t%s", t.Name, shapeWords(t.Shape), t.Format, byteSize(t.Bytes))
	}
	return w.write(out)
}

func headWords(heads, kv, dim int) string {
	return fmt.Sprintf("%d heads of %d (%d for keys and values)", heads, dim, kv)
}

func shapeWords(shape []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", "×"), "[]")
}
