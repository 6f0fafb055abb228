// Command voxtral turns speech into text on the command line. It holds no model code: flags become options of the
// packages below, events become output.
//
//	main.go        signals, errors and exit codes
//	root.go        the command tree and what its commands share
//	console.go     messages on standard error, kept apart from the text on standard output
//	progress.go    the progress bar
//	model.go       which model
//	device.go      which device: names, self-test, falling back
//	transcribe.go  voxtral transcribe: flags, and all inputs in turn
//	input.go       one input from its samples to its transcript
//	output.go      where transcripts go: text as it is decoded, files written in one step
//	quantize.go    voxtral quantize
//	inspect.go     voxtral inspect
//	bench.go       voxtral bench; the measuring is in internal/bench
//	eval.go        voxtral eval; its manifest, report and drift in eval_*.go
//	devices.go     voxtral devices
//	version.go     voxtral version
//	table.go       aligned columns
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"voxtral/hip"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1   // some input failed
	exitUsage       = 2   // the command line makes no sense
	exitInterrupted = 130 // Ctrl-C
)

var (
	// errReported ends the command after its errors have been printed.
	errReported = errors.New("some inputs failed")
	// errInterrupted is the cause of a cancelled context.
	errInterrupted = errors.New("interrupted")
)

// usageError is a mistake in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() {
	if hip.RunChild() { // this process looks for GPUs, or compiles for one, and that is all
		return
	}
	ctx := interruptible(context.Background())
	root := newRoot()
	cmd, err := root.ExecuteContextC(ctx)
	os.Exit(report(os.Stderr, cmd, err))
}

// interruptible returns a context that the first Ctrl-C cancels, so that work ends in order; the second one quits.
func interruptible(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel(errInterrupted)
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx
}

// report prints what has not been printed yet and chooses the exit code, which tells even when printing fails.
func report(w io.Writer, cmd *cobra.Command, err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, errReported):
		return exitFailed
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(w, "voxtral: %s\nsee '%s --help'\n", plain(err), cmd.CommandPath())
		return exitUsage
	}
	_, _ = fmt.Fprintf(w, "voxtral: %s\n", plain(err))
	return exitFailed
}

// plain is an error in one line, without the names of the packages that it came through.
func plain(err error) string {
	text := ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	for _, pkg := range []string{"audio", "models", "runtime", "cpu", "bench", "hip"} {
		text = strings.ReplaceAll(text, ": "+pkg+": ", ": ")
	}
	return text[2:]
}
