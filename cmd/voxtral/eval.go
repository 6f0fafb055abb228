package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"voxtral/audio"
	"voxtral/internal/device"
	"voxtral/internal/wer"
	"voxtral/runtime"
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
	own, err := f.hear(ctx, c, clips, delay)
	if err != nil {
		return err
	}
	r.Run = newEvalRun(own, clips, norm, f.seed)
	if drift {
		reference, err := base.hear(ctx, c, clips, delay)
		if err != nil {
			return err
		}
		r.Drift = newEvalDrift(own, reference, r.Run, newEvalRun(reference, clips, norm, f.seed), f.seed)
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

// heard is what one model on one device made of all clips.
type heard struct {
	model, device string
	delay         time.Duration
	clips         []heardClip
}

type heardClip struct {
	text   string
	events []runtime.Event
	audio  time.Duration
	spent  time.Duration
}

// hear transcribes all clips, one after another in one session. A clip that cannot be read ends it: rates over fewer
// clips than the manifest has would not be comparable.
func (f *evalFlags) hear(ctx context.Context, c *console, clips []evalClip, delay time.Duration) (h *heard, err error) {
	model, builtIn, err := openModel(f.model)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	h = &heard{model: model.Name, clips: make([]heardClip, len(clips))}
	if builtIn {
		h.model += " (built in)"
	}
	var engine *runtime.Engine
	var session *runtime.Session
	dev, err := f.open(c, func(dev device.Device) (err error) {
		if engine, err = runtime.Open(model, dev); err != nil {
			return err
		}
		if session, err = engine.NewSession(runtime.Options{Delay: delay}); err != nil {
			return errors.Join(err, engine.Close())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close(), engine.Close(), dev.Close()) }()
	h.device, h.delay = dev.Info().Name, session.Delay()
	c.begin(h.model + " on " + h.device)
	defer c.end()
	for i, clip := range clips {
		if h.clips[i], err = hearClip(ctx, session, clip.path); err != nil {
			return nil, err
		}
		c.progress(int64(i+1), int64(len(clips)), fmt.Sprintf("%d of %d clips", i+1, len(clips)))
	}
	return h, nil
}

func hearClip(ctx context.Context, session *runtime.Session, path string) (h heardClip, err error) {
	stream, err := audio.Open(ctx, path, audio.Options{})
	if err != nil {
		return h, err
	}
	defer func() { _ = stream.Close() }() // only read from
	session.Reset()
	block := make([]float32, blockSamples)
	for err == nil {
		var n int
		n, err = readBlock(stream, block)
		started := time.Now()
		if feedErr := session.Feed(block[:n]); feedErr != nil {
			return h, fmt.Errorf("%s: %w", path, feedErr)
		}
		h.spent += time.Since(started)
		if ctx.Err() != nil {
			return h, context.Cause(ctx)
		}
	}
	if !errors.Is(err, io.EOF) {
		return h, err
	}
	started := time.Now()
	if err := session.Finish(); err != nil {
		return h, fmt.Errorf("%s: %w", path, err)
	}
	h.spent += time.Since(started)
	var text strings.Builder
	for ev := range session.Events() {
		h.events = append(h.events, ev)
		text.WriteString(ev.Text)
	}
	h.text, h.audio = text.String(), session.AudioTime()
	return h, nil
}
