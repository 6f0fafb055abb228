package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"voxtral/internal/wer"
)

type evalFlags struct {
	deviceFlags
	model         string
	delay         string
	normalize     string
	against       string
	againstDevice string
	maxWER        float64
	maxIncrease   float64
	seed          uint64
	kl            bool
	json          bool
}

func newEval() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval [flags] MANIFEST",
		Short: "Measure word and character error rates over clips with known text",
		Long: `Transcribe the clips of a manifest and compare what is heard with what is said: word and
character error rate with what was substituted, deleted and inserted, a 95 % interval by
drawing clips again and again, a line a clip, and RTF.

A line of MANIFEST is an audio file, a tab and its text, or a JSON object with "audio" and
"text". Files are looked for beside the manifest.

With --against or --against-device the same clips also run on another model or device, the
baseline: how many tokens agree, where each clip first differs and by what margins, and how
much the error rate rises. The margin is how far the best logit led the second best, so a
small one on both sides means a near tie. The exit code is 1 when a bound that was given is
exceeded, or when some clip could not be read.

` + deviceHelp,
		Example: `  voxtral eval clips.tsv
  voxtral eval --model voxtral-int4.voxtral --against CHECKPOINT --max-wer-increase 0.5 clips.tsv
  voxtral eval --device gpu --against-device cpu --json clips.jsonl`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no manifest: name a file of audio files and their texts")
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.model, "model", "m", "", "model directory or packed file at `PATH` (default: $VOXTRAL_MODEL, or the built-in demonstration model)")
	fl.StringVar(&f.delay, "delay", "", "how far the text trails the audio, in `MS` (default: the model's own)")
	fl.StringVar(&f.normalize, "normalize", "english", "`HOW` texts are made comparable: english (as published rates are), basic (any language) or plain")
	fl.StringVar(&f.against, "against", "", "baseline model at `PATH`")
	fl.StringVar(&f.againstDevice, "against-device", "", "baseline device `NAME`, as for --device")
	fl.BoolVar(&f.kl, "kl", false, "also measure how far the predictions diverge from the baseline's; holds both models and a clip's logits in memory, and is slow")
	fl.Float64Var(&f.maxWER, "max-wer", math.Inf(1), "fail above this word error rate, in `PERCENT`")
	fl.Float64Var(&f.maxIncrease, "max-wer-increase", math.Inf(1), "fail when the word error rate lies more than `POINTS` above the baseline's")
	fl.Lookup("max-wer").DefValue, fl.Lookup("max-wer-increase").DefValue = "", ""
	fl.Uint64Var(&f.seed, "seed", 1, "`N` that the draws of the interval begin with")
	fl.BoolVar(&f.json, "json", false, "print a JSON object")
	f.add(cmd)
	return cmd
}

func (f *evalFlags) run(ctx context.Context, out io.Writer, manifest string) error {
	delay, err := parseDelay(f.delay)
	if err != nil {
		return err
	}
	norm, err := wer.ParseNormalizer(f.normalize)
	if err != nil {
		return usagef("--normalize %w", err)
	}
	drift := f.against != "" || f.againstDevice != ""
	switch {
	case !(f.maxWER >= 0):
		return usagef("--max-wer %g: want 0 or more", f.maxWER)
	case math.IsNaN(f.maxIncrease):
		return usagef("--max-wer-increase is not a number")
	case !drift && f.kl:
		return usagef("--kl needs a baseline: name one with --against or --against-device")
	case !drift && !math.IsInf(f.maxIncrease, 1):
		return usagef("--max-wer-increase needs a baseline: name one with --against or --against-device")
	}
	if err := f.check(); err != nil {
		return err
	}
	base := *f
	if f.against != "" {
		base.model = f.against
	}
	if f.againstDevice != "" {
		base.device = f.againstDevice
		if err := base.check(); err != nil {
			return err
		}
	}
	clips, err := readManifest(manifest)
	if err != nil {
		return err
	}
	c := &console{w: os.Stderr}
	if isTerminal(os.Stderr) {
		c.bar = &progress{w: os.Stderr}
	}
	r := &evalReport{Manifest: manifest, Normalize: norm, seed: f.seed}
	runs := []*evalFlags{f}
	if drift {
		runs = append(runs, &base)
	}
	results, kl, err := hearAll(ctx, c, runs, clips, delay)
	if err != nil {
		return err
	}
	own := results[0]
	r.Run = newEvalRun(own, clips, norm, f.seed)
	if drift {
		r.Drift = newEvalDrift(own, results[1], r.Run, newEvalRun(results[1], clips, norm, f.seed), f.seed)
		r.Drift.KL = kl
	}
	if f.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = r.print(out)
	}
	if err != nil {
		return err
	}
	return f.judge(r)
}

// judge holds the report to the bounds.
func (f *evalFlags) judge(r *evalReport) error {
	var errs []error
	if got := r.Run.WER.Percent; got > f.maxWER {
		errs = append(errs, fmt.Errorf("the word error rate is %.2f %%, above --max-wer %g", got, f.maxWER))
	}
	if r.Drift != nil && r.Drift.Increase > f.maxIncrease {
		errs = append(errs, fmt.Errorf("the word error rate lies %.2f points above the baseline's, more than --max-wer-increase %g", r.Drift.Increase, f.maxIncrease))
	}
	return errors.Join(errs...)
}
