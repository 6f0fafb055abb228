package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"voxtral/internal/device"
	"voxtral/internal/subtitle"
	"voxtral/runtime"
)

type transcribeFlags struct {
	format    string
	outputDir string
	model     string
	delay     string
	deviceFlags
	channel int
	quiet   bool
	verbose bool
}

func newTranscribe() *cobra.Command {
	var f transcribeFlags
	cmd := &cobra.Command{
		Use:   "transcribe [flags] FILE... | -",
		Short: "Write down what is said in audio files or standard input",
		Long: `Write down what is said in audio files, or in standard input when the file is "-".

Text comes out while it is being decoded; the other formats come when the file ends. WAV
is read directly, every other kind of audio through the ffmpeg program. Messages go to
standard error, transcripts and nothing else to standard output.

The first Ctrl-C stops reading and writes down what was heard until then, the second one
quits. The exit code is 0, or 1 if some input failed, 2 for a mistake in the command line,
130 after Ctrl-C.

` + deviceHelp,
		Example: `  voxtral transcribe talk.wav
  voxtral transcribe --format srt lecture.mp3 > lecture.srt
  voxtral transcribe --format json --output-dir transcripts recordings/*.wav
  ffmpeg -v error -i film.mkv -f wav - | voxtral transcribe -
  voxtral transcribe --model voxtral-int4.safetensors --delay 960 interview.wav
  voxtral transcribe --device cuda:0 talk.wav`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no input: name audio files, or - to read standard input")
			}
			return f.run(cmd.Context(), args)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.format, "format", "f", "text", "`FORMAT` of the transcript: text, json, srt, vtt or tsv")
	fl.StringVarP(&f.outputDir, "output-dir", "o", "", "write FILE.txt, FILE.srt, ... into `DIR` instead of standard output")
	fl.StringVarP(&f.model, "model", "m", "", "model directory or packed file at `PATH` (default: $VOXTRAL_MODEL, or the built-in demonstration model)")
	fl.StringVar(&f.delay, "delay", "", "how far the text trails the audio, in `MS`: 80 to 1200 in steps of 80, or 2400; more delay, fewer errors (default: the model's own)")
	f.add(cmd)
	fl.IntVar(&f.channel, "channel", 0, "listen to channel `N` only, counted from 1 (default: the mean of all)")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "print only text and errors")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "describe the model, the device and every input; RTF is seconds of work for a second of audio")
	return cmd
}

// run transcribes all inputs, however many of them fail.
func (f *transcribeFlags) run(ctx context.Context, paths []string) (err error) {
	format, delay, err := f.check()
	if err != nil {
		return err
	}
	inputs, err := plan(paths, f.outputDir, format)
	if err != nil {
		return err
	}
	onStdout := f.outputDir == ""
	if onStdout && len(inputs) > 1 && format != subtitle.Text && format != subtitle.JSON {
		return usagef("%d inputs do not make one %s file: use --output-dir", len(inputs), format)
	}
	for _, in := range inputs {
		if in.path == "-" && isTerminal(os.Stdin) {
			return usagef("standard input is a terminal: pipe audio into it")
		}
	}
	c := &console{w: os.Stderr, quiet: f.quiet, verbose: f.verbose}
	// A bar between the words on a terminal would garble both.
	words := onStdout && format == subtitle.Text && isTerminal(os.Stdout)
	if isTerminal(os.Stderr) && !f.quiet && !words {
		c.bar = &progress{w: os.Stderr}
	}
	if f.outputDir != "" {
		if err := os.MkdirAll(f.outputDir, 0o777); err != nil {
			return fmt.Errorf("--output-dir: %w", err)
		}
	}
	t, closeAll, err := f.open(delay, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	t.interrupted = sync.OnceFunc(func() {
		if words {
			c.newline()
		}
		c.note("interrupted: finishing what was heard; again to quit at once")
	})
	defer context.AfterFunc(ctx, t.interrupted)()
	return f.all(ctx, t, inputs, format)
}

// check reads the flags that have a grammar.
func (f *transcribeFlags) check() (format subtitle.Format, delay time.Duration, err error) {
	if format, err = subtitle.ParseFormat(f.format); err != nil {
		return "", 0, usagef("--%w", err)
	}
	if delay, err = parseDelay(f.delay); err != nil {
		return "", 0, err
	}
	if f.channel < 0 {
		return "", 0, usagef("--channel %d: channels count from 1", f.channel)
	}
	if f.quiet && f.verbose {
		return "", 0, usagef("--quiet and --verbose contradict each other")
	}
	return format, delay, f.deviceFlags.check()
}

// parseDelay reads milliseconds or a duration with its unit; nothing is the model's own delay, 0.
func parseDelay(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if n, numErr := strconv.Atoi(s); numErr == nil {
		d, err = time.Duration(n)*time.Millisecond, nil
	}
	ok := d >= tick && d <= 15*tick && d%tick == 0 || d == 30*tick
	if err != nil || !ok {
		return 0, usagef("--delay %s: use 80 to 1200 milliseconds in steps of 80, or 2400", s)
	}
	return d, nil
}

// open prepares the model on the device; the function it returns closes everything.
func (f *transcribeFlags) open(delay time.Duration, c *console) (*transcriber, func() error, error) {
	var closers []func() error
	closeAll := func() error {
		var errs []error
		for i := len(closers) - 1; i >= 0; i-- {
			errs = append(errs, closers[i]())
		}
		return errors.Join(errs...)
	}
	fail := func(err error) (*transcriber, func() error, error) {
		return nil, nil, errors.Join(err, closeAll())
	}
	started := time.Now()
	model, builtIn, err := openModel(f.model)
	if err != nil {
		return fail(err)
	}
	closers = append(closers, model.Close)
	if builtIn {
		c.note("using the built-in demonstration model: simple sentences in synthetic voices only; see --model")
	}
	var engine *runtime.Engine
	var session *runtime.Session
	dev, err := f.deviceFlags.open(c, func(dev device.Device) (err error) {
		if engine, err = runtime.Open(model, dev); err != nil {
			return err
		}
		if session, err = engine.NewSession(runtime.Options{Delay: delay}); err != nil {
			return errors.Join(err, engine.Close())
		}
		return nil
	})
	if err != nil {
		return fail(err)
	}
	closers = append(closers, dev.Close, engine.Close, session.Close)
	info := dev.Info()
	c.detail("model %s: %s layout, loaded in %.2f s", model.Name, model.Layout, time.Since(started).Seconds())
	if info.Threads > 0 {
		info.Detail += fmt.Sprintf(", threads: %d", info.Threads)
	}
	c.detail("device %s: %s", info.Name, info.Detail)
	policy, attention := dev.Attention()
	c.detail("attention %s: %s", policy, strings.Join(attention, "; "))
	c.detail("delay %d ms", session.Delay().Milliseconds())
	return &transcriber{session: session, model: model, channel: f.channel, console: c}, func() error {
		for _, warning := range dev.Warnings() {
			c.warn(info.Name, warning)
		}
		return closeAll()
	}, nil
}

// all transcribes the inputs in order. An error of one does not stop the others.
func (f *transcribeFlags) all(ctx context.Context, t *transcriber, inputs []input, format subtitle.Format) error {
	failed := false
	headings := len(inputs) > 1 && !f.quiet && f.outputDir == "" && format == subtitle.Text
	for i, in := range inputs {
		if ctx.Err() != nil {
			break
		}
		var text *textStream
		if f.outputDir == "" && format == subtitle.Text {
			text = &textStream{w: os.Stdout}
			if headings {
				text.heading = fmt.Sprintf("==> %s <==\n", in.name)
			}
			if headings && i > 0 {
				text.heading = "\n" + text.heading
			}
		}
		err := f.one(ctx, t, in, format, text)
		if errors.As(err, &stdoutError{}) {
			return err
		}
		if err != nil && !errors.Is(err, errInterrupted) {
			t.console.error(err)
			failed = true
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed:
		return errReported
	}
	return nil
}

// one transcribes one input and writes what was heard, even when reading failed half-way.
func (f *transcribeFlags) one(ctx context.Context, t *transcriber, in input, format subtitle.Format, text *textStream) error {
	transcript, err := t.transcribe(ctx, in, text)
	switch {
	case text != nil || transcript == nil:
		return err
	case in.out != "":
		if writeErr := writeFile(in.out, format, transcript); writeErr != nil {
			return errors.Join(err, writeErr)
		}
		t.console.detail("%s: written to %s", in.name, in.out)
		return err
	}
	if writeErr := format.Write(os.Stdout, transcript); writeErr != nil {
		return stdoutError{fmt.Errorf("standard output: %w", writeErr)}
	}
	return err
}
