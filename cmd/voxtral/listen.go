package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"voxtral/internal/capture"
	"voxtral/internal/device"
	"voxtral/internal/listen"
	"voxtral/internal/subtitle"
	"voxtral/models"
	"voxtral/runtime"
)

type listenFlags struct {
	piped    bool // standard input is listened to
	format   string
	model    string
	delay    string
	input    string
	url      string
	raw      capture.Raw
	channel  int
	maxLag   time.Duration
	restart  time.Duration
	save     string
	saveText string
	deviceFlags
	quiet   bool
	verbose bool
}

func newListen() *cobra.Command {
	var f listenFlags
	cmd := &cobra.Command{
		Use:   "listen [flags] [-]",
		Short: "Write down what is being said, while it is being said",
		Long: `Write down what is being said, while it is being said: into the microphone, or with - what
comes through standard input, as WAV or, with --raw, as samples without a header, or with
--url whatever the ffmpeg program opens, such as a radio station or a camera.

Words appear as they are recognised, as far behind the speaker as --delay says. In a pipe
they are appended and flushed one by one. --format json writes an object a line: words
with their place in the audio in seconds, what was dropped, and the end. On a terminal a
line below the text shows the level, how far the text lags behind the audio, and RTF,
seconds of work for a second of audio.

--save keeps the audio and --save-text the transcript, both whole however listen ends.

Ctrl-C ends the audio: the last words still come, and the exit code is 0. A second Ctrl-C
quits at once. The exit code is 1 if the audio broke off or something could not be
written, 2 for a mistake in the command line.

` + deviceHelp,
		Example: `  voxtral listen
  voxtral listen --input "USB" --save talk.wav --save-text talk.txt
  voxtral listen --url https://radio.example/stream.mp3
  arecord -q -f S16_LE -r 16000 -t raw | voxtral listen --raw s16le --rate 16000 -
  arecord -q -f cd | voxtral listen --format json --max-lag 5s --save talk.wav -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("unexpected argument %q", args[1])
			}
			if len(args) == 1 && args[0] != "-" {
				return usagef("listen takes - for standard input: to transcribe a file, run 'voxtral transcribe %s'", args[0])
			}
			f.piped = len(args) == 1
			if f.raw.Encoding == "" && (cmd.Flags().Changed("rate") || cmd.Flags().Changed("channels")) {
				return usagef("--rate and --channels are for --raw: other audio says so itself")
			}
			return f.run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.format, "format", "f", "text", "`FORMAT` of the transcript: text, json, srt or vtt")
	fl.StringVarP(&f.model, "model", "m", "", "model directory or packed file at `PATH` (default: $VOXTRAL_MODEL, or the built-in demonstration model)")
	fl.StringVar(&f.delay, "delay", "", "how far the text trails the audio, in `MS`: 80 to 1200 in steps of 80, or 2400; more delay, fewer errors (default: the model's own)")
	fl.StringVar(&f.input, "input", "", "listen to the microphone of this `NAME`, or the only one with it as a part (see 'voxtral devices'; default: the system's own)")
	fl.StringVar(&f.url, "url", "", "listen to what ffmpeg opens at `URL`")
	fl.StringVar(&f.raw.Encoding, "raw", "", "standard input is samples without a header, in `ENCODING`: "+strings.Join(capture.Encodings(), ", "))
	fl.IntVar(&f.raw.Rate, "rate", 16000, "samples per second with --raw, `HZ`")
	fl.IntVar(&f.raw.Channels, "channels", 1, "channels with --raw, `N`")
	fl.IntVar(&f.channel, "channel", 0, "listen to channel `N` only, counted from 1 (default: the mean of all)")
	fl.DurationVar(&f.maxLag, "max-lag", 0, "most audio that may wait for the model, `TIME` such as 5s; beyond it some is dropped, the oldest silence first, and you are told (default: 10s for a microphone; pipes and URLs have to wait)")
	fl.DurationVar(&f.restart, "restart-after", 0, "let the model start afresh at the first pause of a second after `TIME` of audio; no word is lost (default: 2h30m, well before the model's last position; 5s for the built-in model, which is trained on single sentences)")
	fl.StringVar(&f.save, "save", "", "keep the audio as the model hears it in a WAV `FILE`")
	fl.StringVar(&f.saveText, "save-text", "", "keep the transcript in a `FILE` as well")
	f.add(cmd)
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "print only text and errors")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "describe the model, the device and the audio")
	return cmd
}

// check reads the flags that have a grammar.
func (f *listenFlags) check() (format subtitle.Format, delay time.Duration, err error) {
	if format, err = subtitle.ParseFormat(f.format); err != nil || format == subtitle.TSV {
		return "", 0, usagef("--format %q is unknown: use text, json, srt or vtt", f.format)
	}
	if delay, err = parseDelay(f.delay); err != nil {
		return "", 0, err
	}
	if f.raw.Encoding != "" {
		if err := f.raw.Check(); err != nil {
			return "", 0, usagef("--raw: %s", plain(err))
		}
	}
	const shortest = time.Second // less and a hiccup of the machine would cost words
	switch {
	case f.piped && (f.input != "" || f.url != ""), f.input != "" && f.url != "":
		return "", 0, usagef("listen to one at a time: -, --input or --url")
	case f.raw.Encoding != "" && !f.piped:
		return "", 0, usagef("--raw is for standard input: add -")
	case f.channel < 0:
		return "", 0, usagef("--channel %d: channels count from 1", f.channel)
	case f.maxLag != 0 && f.maxLag < shortest:
		return "", 0, usagef("--max-lag %v: use at least %v", f.maxLag, shortest)
	case f.restart < 0:
		return "", 0, usagef("--restart-after %v: want a time such as 10m", f.restart)
	case f.quiet && f.verbose:
		return "", 0, usagef("--quiet and --verbose contradict each other")
	}
	return format, delay, f.deviceFlags.check()
}

// microphoneLag is --max-lag of a source that cannot be kept waiting.
const microphoneLag = 10 * time.Second

// source is where the audio comes from, and how much of it may wait for the model.
func (f *listenFlags) source() (name string, open capture.Open, maxLag time.Duration, err error) {
	switch {
	case f.url != "":
		return f.url, capture.URL(f.url, f.channel), f.maxLag, nil
	case !f.piped:
		maxLag = f.maxLag
		if maxLag == 0 {
			maxLag = microphoneLag
		}
		return "microphone", capture.Microphone(f.input, f.channel), maxLag, nil
	case isTerminal(os.Stdin):
		return "", nil, 0, usagef("standard input is a terminal: pipe audio into it, or leave out - to listen to the microphone")
	}
	var raw *capture.Raw
	if f.raw.Encoding != "" {
		raw = &f.raw
	}
	name = "standard input"
	return name, capture.Pipe(os.Stdin, name, raw, f.channel), f.maxLag, nil
}

// run listens until the audio or the user's patience ends.
func (f *listenFlags) run(ctx context.Context) (err error) {
	format, delay, err := f.check()
	if err != nil {
		return err
	}
	name, source, maxLag, err := f.source()
	if err != nil {
		return err
	}
	if err := f.noInputOverwritten(); err != nil {
		return err
	}
	// A closed pipe is an error that leaves the files whole, not the end of the process.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	screen := newScreen(os.Stdout, os.Stderr, format == subtitle.Text, f.quiet)
	c := &console{w: screen.messages(), quiet: f.quiet, verbose: f.verbose}
	l := &listener{name: name, console: c, screen: screen, out: newLiveWriter(screen, format)}
	opt := listen.Options{MaxLag: maxLag, Open: func(ctx context.Context) (capture.Source, error) {
		s, err := source(ctx)
		if err == nil && !f.piped {
			c.note(fmt.Sprintf("listening to %s; Ctrl-C ends", s.Detail()))
		}
		return s, err
	}}
	if f.save != "" {
		if l.audio, err = newRecorder(f.save, c.error); err != nil {
			return err
		}
		defer l.audio.close()
		opt.Tap = l.audio.add
	}
	if f.saveText != "" {
		if l.text, err = newSavedText(f.saveText, format, c.error); err != nil {
			return err
		}
	}
	model, builtIn, session, closeAll, err := f.open(delay, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	opt.Restart, opt.Limit = f.restarts(model, builtIn)
	l.assembler = newAssembler(session.Words(), model.Tokenizer.StreamingPad)
	defer context.AfterFunc(ctx, func() { c.note("stopping: the last words follow; Ctrl-C again quits at once") })()
	return l.listen(ctx, session, opt)
}

// noInputOverwritten keeps --save and --save-text from destroying the audio, or each other.
func (f *listenFlags) noInputOverwritten() error {
	if f.save != "" && f.save == f.saveText {
		return usagef("--save and --save-text both name %s", f.save)
	}
	var input os.FileInfo
	var err error
	switch {
	case f.piped:
		input, err = os.Stdin.Stat()
	case f.url != "":
		input, err = os.Stat(strings.TrimPrefix(f.url, "file:"))
	}
	if input == nil || err != nil {
		return nil // no file that could be overwritten
	}
	for _, path := range []string{f.save, f.saveText} {
		if out, err := os.Stat(path); err == nil && input.Mode().IsRegular() && os.SameFile(input, out) {
			return usagef("%s is the audio that is listened to: keep it elsewhere", path)
		}
	}
	return nil
}

// restarts is when a session starts afresh: at a pause after the first time, and at the second one even without.
func (f *listenFlags) restarts(model *models.Model, builtIn bool) (pause, limit time.Duration) {
	const ends = 128 // positions that silence before and after the audio take, and more
	limit = time.Duration(max(model.Config.Decoder.MaxPositions-ends, ends)) * tick
	pause = f.restart
	switch {
	case pause == 0 && builtIn:
		pause = 5 * time.Second
	case pause == 0:
		pause = 150 * time.Minute
	}
	return min(pause, limit), limit
}

// open prepares the model on the device; the function it returns closes everything.
func (f *listenFlags) open(delay time.Duration, c *console) (model *models.Model, builtIn bool, session *runtime.Session, closeAll func() error, err error) {
	started := time.Now()
	if model, builtIn, err = openModel(f.model); err != nil {
		return nil, false, nil, nil, err
	}
	if builtIn {
		c.note("using the built-in demonstration model: simple sentences in synthetic voices only; see --model")
	}
	var engine *runtime.Engine
	dev, err := f.deviceFlags.open(c, func(dev device.Device) (err error) {
		if engine, err = runtime.Open(model, dev); err != nil {
			return err
		}
		if session, err = engine.NewSession(runtime.Options{Delay: delay, IgnoreEOS: true}); err != nil {
			return errors.Join(err, engine.Close())
		}
		return nil
	})
	if err != nil {
		return nil, false, nil, nil, errors.Join(err, model.Close())
	}
	info := dev.Info()
	c.detail("model %s: %s layout, loaded in %.2f s", model.Name, model.Layout, time.Since(started).Seconds())
	c.detail("device %s: %s", info.Name, info.Detail)
	c.detail("delay %d ms", session.Delay().Milliseconds())
	return model, builtIn, session, func() error {
		for _, warning := range dev.Warnings() {
			c.warn(info.Name, warning)
		}
		return errors.Join(session.Close(), engine.Close(), dev.Close(), model.Close())
	}, nil
}

// listener takes one run's output to where it belongs.
type listener struct {
	name      string
	console   *console
	screen    *screen
	out       liveWriter
	assembler *assembler
	audio     *recorder  // may be nil
	text      *savedText // may be nil

	lost listen.Losses // not yet told
	told time.Time
}

func (l *listener) listen(ctx context.Context, session *runtime.Session, opt listen.Options) error {
	opt.Heard = func(ev runtime.Event) error { return l.write(ev, l.assembler.add(ev)) }
	opt.Dropped = l.dropped
	opt.Restarted = func(at time.Duration) {
		l.console.warn(l.name, fmt.Sprintf("sound but no words for long: the model starts afresh at %s", shortTime(at)))
	}
	opt.Idle = func(s listen.Status) { l.screen.show(statusLine(s)) }
	report, err := listen.Run(ctx, session, opt)
	if errors.Is(err, errInterrupted) {
		err = nil // before the first sample
	}
	if report == nil {
		report = &listen.Report{}
	}
	if err == nil {
		err = l.write(runtime.Event{}, l.assembler.flush())
	}
	if l.text != nil {
		l.text.close(report)
	}
	if err == nil {
		err = l.stdout(l.out.end(report))
	}
	l.screen.hide()
	if err != nil {
		return err
	}
	l.tell(shortTime(report.Captured))
	for _, warning := range report.Warnings {
		l.console.warn(l.name, warning)
	}
	if report.Clipped > report.Captured/50 { // a peak at full scale now and then is no fault
		l.console.warn(l.name, fmt.Sprintf("%.1f s of the audio are clipped: a lower input level gives fewer errors", report.Clipped.Seconds()))
	}
	l.summary(report, opt.MaxLag > 0)
	if report.SourceErr != nil {
		l.console.error(report.SourceErr)
		return errReported
	}
	if l.audio != nil && l.audio.err != nil || l.text != nil && l.text.err != nil {
		return errReported
	}
	return nil
}

// write hands on an output, first to the file: standard output may be closed.
func (l *listener) write(ev runtime.Event, words []subtitle.Word) error {
	if l.text != nil {
		l.text.hear(ev, words)
	}
	return l.stdout(l.out.hear(ev, words))
}

func (l *listener) stdout(err error) error {
	if err != nil {
		return stdoutError{fmt.Errorf("standard output: %w", err)}
	}
	return nil
}

// dropped notes lost audio. The first loss is told at once, further ones together: an overload loses audio all the time.
func (l *listener) dropped(d listen.Drop) error {
	l.lost.Add(d)
	if time.Since(l.told) > tellPeriod {
		l.tell(shortTime(d.End))
	}
	if l.text != nil {
		l.text.dropped(d)
	}
	return l.stdout(l.out.dropped(d))
}

const tellPeriod = 10 * time.Second

// tell warns of losses not yet told; only silence is lost without a word under -q.
func (l *listener) tell(until string) {
	lost := l.lost
	l.told, l.lost = time.Now(), listen.Losses{}
	if lost.Sound > 0 || lost.Silence > 0 && !l.console.quiet {
		l.console.printf("warning: %s: the model lags behind: dropped %.2f s of silence and %.2f s of other audio up to %s",
			l.name, lost.Silence.Seconds(), lost.Sound.Seconds(), until)
	}
}

// summary says how the run went.
func (l *listener) summary(r *listen.Report, lossy bool) {
	if r.Detail == "" {
		return
	}
	l.console.detail("%s: %s; the model has started afresh %d times", l.name, r.Detail, r.Restarts)
	text := fmt.Sprintf("heard %s of audio, RTF %.3f, lag up to %.2f s", shortTime(r.Heard), r.RTF(), r.WorstLag.Seconds())
	if lossy {
		text += fmt.Sprintf(", late ticks: %d of %d, dropped: %.2f s of silence and %.2f s of other audio",
			r.Late, r.Heard/tick, r.Lost.Silence.Seconds(), r.Lost.Sound.Seconds())
	}
	l.console.note(text)
}
