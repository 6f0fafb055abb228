package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"voxtral/internal/device"
	"voxtral/models"
)

type quantizeFlags struct {
	out     string
	format  string
	head    string
	group   int
	force   bool
	verbose bool
}

func newQuantize() *cobra.Command {
	var f quantizeFlags
	cmd := &cobra.Command{
		Use:   "quantize [flags] DIR -o FILE",
		Short: "Pack a checkpoint into one smaller file",
		Long: `Pack a checkpoint, a directory in Mistral's or in Hugging Face's layout, into one file
that --model takes: weights, configuration and tokenizer. The file appears whole or not at
all. A table tells the error of every kind of tensor: the root mean square of the error
over that of the weights, and the largest error.`,
		Example: `  voxtral quantize Voxtral-Mini-4B-Realtime -o voxtral-int4.safetensors
  voxtral quantize Voxtral-Mini-4B-Realtime -o voxtral.safetensors --format int4 --head int8
  voxtral quantize -v checkpoint -o model.safetensors --format int8 --group 32`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("no model: name the directory of a checkpoint")
			case f.out == "":
				return usagef("no output: name the file to write with -o FILE")
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.out, "output", "o", "", "`FILE` to write")
	fl.StringVar(&f.format, "format", "int4", "`FORMAT` of most matrices: int4, int8 or bf16")
	fl.StringVar(&f.head, "head", "", "`FORMAT` of the embeddings, which are also the LM head (default: int8 beside int4, else as --format)")
	fl.IntVar(&f.group, "group", 0, "`N` weights share a scale: 32, 64 or 128 (default: 32 for int4, 64 for int8)")
	fl.BoolVar(&f.force, "force", false, "overwrite FILE")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "list every tensor")
	return cmd
}

func (f *quantizeFlags) check() (opt models.QuantizeOptions, err error) {
	if opt.Format, err = packedFormat("--format", f.format); err != nil {
		return opt, err
	}
	if f.head != "" {
		if opt.Head, err = packedFormat("--head", f.head); err != nil {
			return opt, err
		}
	}
	if f.group != 0 && !device.ValidGroup(f.group) {
		return opt, usagef("--group %d: use 32, 64 or 128", f.group)
	}
	opt.Group = f.group
	return opt, nil
}

func packedFormat(flag, name string) (device.Format, error) {
	format, err := device.ParseFormat(name)
	if err != nil || !format.Grouped() && format != device.BF16 {
		return 0, usagef("%s %s: use int4, int8 or bf16", flag, name)
	}
	return format, nil
}

func (f *quantizeFlags) run(ctx context.Context, out io.Writer, path string) (err error) {
	opt, err := f.check()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(f.out); err == nil && !f.force {
		return fmt.Errorf("%s exists: use --force to overwrite it", f.out)
	}
	m, err := models.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	c := &console{w: os.Stderr}
	if isTerminal(os.Stderr) {
		c.bar = &progress{w: os.Stderr}
	}
	c.begin(m.Name)
	defer c.end()
	errs := errorTable{byKind: !f.verbose}
	opt.Report = errs.add
	opt.Progress = func(done, total int64) { c.progress(done, total, byteSize(total)) }
	sum, err := models.Quantize(ctx, m, f.out, opt)
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	c.end()
	before := int64(0)
	for _, t := range m.Tensors() {
		before += t.Bytes
	}
	if err := errs.print(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n%d tensors, %s parameters, error %.3f %%: %s to %s, %.2f times smaller\nwritten to %s\n", sum.Tensors, count(sum.Values), 100*sum.RelRMS,
		byteSize(before), byteSize(sum.Bytes), float64(before)/float64(sum.Bytes), f.out)
	return err
}

// errorTable gathers what packing did to the tensors, all layers of one kind in one row or every tensor in its own.
type errorTable struct {
	byKind bool
	rows   []errorRow
}

type errorRow struct {
	name    string
	format  string
	tensors int
	values  float64
	squares float64 // values × relative error²
	worst   float64 // relative error
	maxAbs  float64
	bytes   int64
}

var layerNumber = regexp.MustCompile(`\blayers\.\d+\.`)

func (t *errorTable) add(r models.TensorReport) {
	name := r.Name
	if t.byKind {
		name = layerNumber.ReplaceAllString(strings.TrimPrefix(name, "mm_streams_embeddings.embedding_module."), "layers.*.")
	}
	format := r.Format.String()
	if r.Group > 0 {
		format = fmt.Sprintf("%s/%d", format, r.Group)
	}
	at := -1
	for i := range t.rows {
		if t.rows[i].name == name && t.rows[i].format == format {
			at = i
		}
	}
	if at < 0 {
		at = len(t.rows)
		t.rows = append(t.rows, errorRow{name: name, format: format})
	}
	row := &t.rows[at]
	values := 1.0
	for _, n := range r.Shape {
		values *= float64(n)
	}
	row.tensors++
	row.values += values
	row.squares += values * r.RelRMS * r.RelRMS
	row.worst = max(row.worst, r.RelRMS)
	row.maxAbs = max(row.maxAbs, r.MaxAbs)
	row.bytes += r.Bytes
}

func (t *errorTable) print(out io.Writer) error {
	var w table
	w.row("tensor\tn\tformat\terror %\tworst %\tlargest\tsize")
	for _, r := range t.rows {
		w.row("%s\t%d\t%s\t%.3f\t%.3f\t%.2g\t%s", r.name, r.tensors, r.format, 100*math.Sqrt(r.squares/r.values), 100*r.worst, r.maxAbs, byteSize(r.bytes))
	}
	return w.write(out)
}
