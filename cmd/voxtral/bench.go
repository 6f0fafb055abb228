package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"voxtral/audio"
	"voxtral/internal/bench"
	"voxtral/internal/device"
	"voxtral/models"
	"voxtral/runtime"
)

type benchFlags struct {
	model     string
	synthetic string
	format    string
	cacheDir  string
	seconds   float64
	mode      string
	delay     string
	deviceFlags
	repeat    int
	speculate string
	profile   bool
	compare   bool
	json      bool
	plot      string
}

func newBench() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [flags] [FILE...]",
		Short: "Measure speed: real-time factor, latency, and how close to the machine's limits",
		Long: `Measure how fast a model transcribes files, or --seconds of a noise like speech. Every
file is a stream of its own.

RTF is seconds of work for a second of audio: below 1 is faster than real time. The audio
comes whole (offline), in ticks of 80 ms as fast as possible (streaming), or when a
microphone would deliver them (paced; waiting is no work). A tick's latency is the time
from its last sample to the end of the call that heard it; in paced mode a tick that has
to wait for the one before it is later by that. The first text is counted from the start
of the audio; offline, it can be read when all of the file has been heard. Every run
has a new session; before the first comes a warm-up on other audio, not counted.

--synthetic builds a model of full size with random weights, so that speed can be known
without the published one. It is written once, in packed form, and kept.

After every run the machine itself is measured: reading 1 GiB of memory with all threads,
and every instruction for dot products in a loop that touches registers only. A decoder
step reads the matrices of all decoder layers and the LM head once; those bytes over its
time, over the measured bandwidth, is the bandwidth fraction. The encoder's longest step,
25 ticks, is timed alone; its share of the peak is

  2 × ticks × (8·conv0 + 4·(conv1 + layers) + adapter) / time / peak

with the numbers of elements of those matrices, attention not counted, and the int8 peak
for int8 and int4 weights, bf16 for others. On a GPU the memory that is read is its own,
timed by its own clock, and there is no such peak; the times of steps end when the GPU has
finished.

` + deviceHelp + `

--compare prints ratios of two reports that --json has written, with the intervals in
which they lie at 95 % confidence, found by drawing anew from the runs of both.`,
		Example: `  voxtral bench talk.wav
  voxtral bench --synthetic 4b --format int4 --seconds 30
  voxtral bench talk.wav --model voxtral-int4.safetensors --mode paced --plot ticks.png
  voxtral bench --synthetic 4b --device gpu --sdpa splitk
  voxtral bench --synthetic 4b --repeat 5 --json > after.json
  voxtral bench --compare before.json after.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.compare {
				return f.runCompare(cmd, args)
			}
			return f.run(cmd, args)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.model, "model", "m", "", "model directory or packed file at `PATH` (default: $VOXTRAL_MODEL, or the built-in demonstration model)")
	fl.StringVar(&f.synthetic, "synthetic", "", "a model with random weights, of `SIZE` "+strings.Join(models.SyntheticSizes(), ", "))
	fl.StringVar(&f.format, "format", "int4", "`FORMAT` of the synthetic model: int4, int8 or bf16")
	fl.StringVar(&f.cacheDir, "cache-dir", "", "keep synthetic models in `DIR` (default: voxtral in the user's cache)")
	fl.Float64Var(&f.seconds, "seconds", 0, "`N` seconds of noise like speech (default 30), or the first N of each FILE (default: all)")
	fl.StringVar(&f.mode, "mode", "offline", "`MODE` in which the audio comes: offline, streaming or paced")
	fl.StringVar(&f.delay, "delay", "", "how far the text trails the audio, in `MS` (default: the model's own)")
	f.add(cmd)
	fl.IntVar(&f.repeat, "repeat", 1, "`N` runs: medians and spread")
	fl.StringVar(&f.speculate, "speculate", "on", "guess tokens ahead where audio is there: `on` or off")
	fl.BoolVar(&f.profile, "profile", false, "time every op, which makes all of it slower")
	fl.BoolVar(&f.json, "json", false, "print a JSON object")
	fl.StringVar(&f.plot, "plot", "", "draw the latency of every tick to the PNG `FILE`")
	fl.BoolVar(&f.compare, "compare", false, "compare two reports: voxtral bench --compare A B")
	return cmd
}

func (f *benchFlags) runCompare(cmd *cobra.Command, paths []string) error {
	if len(paths) != 2 {
		return usagef("--compare takes two reports, not %d", len(paths))
	}
	a, err := bench.ReadReport(paths[0])
	if err != nil {
		return err
	}
	b, err := bench.ReadReport(paths[1])
	if err != nil {
		return err
	}
	return bench.WriteComparison(cmd.OutOrStdout(), paths[0], a, paths[1], b)
}

// check reads the flags that have a grammar.
func (f *benchFlags) check(cmd *cobra.Command) (mode bench.Mode, opt runtime.Options, format device.Format, err error) {
	if mode, err = bench.ParseMode(f.mode); err != nil {
		return mode, opt, format, usagef("--%w", err)
	}
	if opt.Delay, err = parseDelay(f.delay); err != nil {
		return mode, opt, format, err
	}
	opt.NoSpeculation, opt.Profile = f.speculate == "off", f.profile
	if format, err = packedFormat("--format", f.format); err != nil {
		return mode, opt, format, err
	}
	synthetic := f.synthetic != ""
	switch {
	case f.speculate != "on" && f.speculate != "off":
		err = usagef("--speculate %s: use on or off", f.speculate)
	case f.repeat < 1:
		err = usagef("--repeat %d: want 1 or more", f.repeat)
	case f.seconds < 0 || cmd.Flags().Changed("seconds") && f.seconds < tick.Seconds():
		err = usagef("--seconds %g: want 0.08 or more", f.seconds)
	case f.seconds > 3600:
		err = usagef("--seconds %g: an hour is enough", f.seconds)
	case synthetic && f.model != "":
		err = usagef("--model and --synthetic contradict each other")
	case !synthetic && cmd.Flags().Changed("format"):
		err = usagef("--format goes with --synthetic: a model has its own")
	case f.plot != "" && mode == bench.Offline:
		err = usagef("--plot needs ticks: use --mode streaming or paced")
	default:
		err = f.deviceFlags.check()
	}
	return mode, opt, format, err
}

func (f *benchFlags) run(cmd *cobra.Command, args []string) (err error) {
	mode, opt, format, err := f.check(cmd)
	if err != nil {
		return err
	}
	ctx, c := cmd.Context(), &console{w: os.Stderr}
	if isTerminal(os.Stderr) {
		c.bar = &progress{w: os.Stderr}
	}
	defer c.end()
	clips, err := f.clips(ctx, args)
	if err != nil {
		return err
	}
	open := func() (*models.Model, error) {
		m, builtIn, err := openModel(f.model)
		if builtIn {
			c.note("measuring the built-in demonstration model, which is 300 times smaller than the published one; see --synthetic")
		}
		return m, err
	}
	if f.synthetic != "" {
		if err := f.prepare(ctx, c, format); err != nil {
			return err
		}
		open = func() (*models.Model, error) { return f.openSynthetic(ctx, format, nil) }
	}
	var subject *bench.Subject
	dev, err := f.open(c, func(dev device.Device) (err error) {
		subject, err = bench.Open(open, dev, opt)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, subject.Close(), dev.Close()) }()
	r, err := bench.Measure(ctx, subject, clips, bench.Options{
		Mode: mode, Repeat: f.repeat, Commit: buildVersion().commit,
		Hardware: dev, Progress: c.phases(),
	})
	if err != nil {
		return err
	}
	c.end()
	for _, warning := range dev.Warnings() {
		c.warn(dev.Info().Name, warning)
	}
	return f.print(cmd.OutOrStdout(), r)
}

// phases shows one bar after the other.
func (c *console) phases() func(what string, done, total int) {
	current := ""
	return func(what string, done, total int) {
		if what != current {
			current = what
			c.begin(what)
		}
		c.progress(int64(done), int64(total), "")
	}
}

func (f *benchFlags) print(out io.Writer, r *bench.Report) error {
	if f.plot != "" {
		if err := r.Plot(f.plot); err != nil {
			return err
		}
	}
	if f.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return r.WriteText(out)
}

// clips are the files' audio, or one that is made.
func (f *benchFlags) clips(ctx context.Context, paths []string) ([][]float32, error) {
	if len(paths) == 0 {
		n := f.seconds
		if n == 0 {
			n = 30
		}
		return [][]float32{bench.Speech(n)}, nil
	}
	clips := make([][]float32, len(paths))
	for i, path := range paths {
		var err error
		if clips[i], err = f.clip(ctx, path); err != nil {
			return nil, err
		}
	}
	return clips, nil
}

func (f *benchFlags) clip(ctx context.Context, path string) ([]float32, error) {
	stream, err := audio.Open(ctx, path, audio.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }() // only read from
	var pcm []float32
	block := make([]float32, blockSamples)
	most := int(f.seconds * audio.SampleRate)
	for err == nil && (most == 0 || len(pcm) < most) {
		var n int
		n, err = stream.Read(block)
		pcm = append(pcm, block[:n]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if most > 0 {
		pcm = pcm[:min(most, len(pcm))]
	}
	if len(pcm) == 0 {
		return nil, fmt.Errorf("%s: there is no audio in it", path)
	}
	return pcm, nil
}

// prepare writes the synthetic model unless it is there, so that loading it can be timed.
func (f *benchFlags) prepare(ctx context.Context, c *console, format device.Format) error {
	c.begin("synthetic " + f.synthetic)
	defer c.end()
	m, err := f.openSynthetic(ctx, format, func(done, total int64) { c.progress(done, total, byteSize(total)) })
	if err != nil {
		return err
	}
	c.note("synthetic model: " + m.Path)
	err = m.Close()
	debug.FreeOSMemory() // so that the peak is that of the model at work
	return err
}

func (f *benchFlags) openSynthetic(ctx context.Context, format device.Format, progress func(done, total int64)) (*models.Model, error) {
	m, _, err := models.OpenSynthetic(ctx, f.cacheDir, f.synthetic, models.SyntheticOptions{Format: format, Progress: progress})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return m, err
}
