package hip

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// childVariable is set in the environment of a child, and nowhere else.
	childVariable = "VOXTRAL_HIP_CHILD"
	replyFile     = 3 // the child's descriptor for its reply: libraries may print on 1 and 2
	maxReply      = 256 << 20
	stderrTail    = 4 << 10
)

// childRequest asks a child for a driver's report, or to load a compiler and, if told so, to compile.
type childRequest struct {
	Driver  string // of the report; empty: it is about a compiler
	Library string
	Compile bool
	Source  Source
}

type childReply struct {
	Name, Version string // of the compiler
	Code          []byte
	Log           string
	Failure       string
	Backend       Backend
}

// childEnded is a child that gave no reply.
type childEnded struct {
	how    string // "ended: signal: aborted"
	stderr string // the last it printed
}

func (e *childEnded) Error() string {
	return strings.TrimSpace("its process " + e.how + "\n" + e.stderr)
}

// hooked says that this program calls RunChild: without it, a child would be this program once more.
var hooked atomic.Bool

// RunChild does the work of a child process, if this is one, and then returns true: the program ends. A program that uses
// GPUs calls it first thing in main, a test binary in TestMain. A child has no arguments and a pipe for its reply, so that the
// variable alone, left in a shell, does nothing.
func RunChild() bool {
	hooked.Store(true)
	if os.Getenv(childVariable) == "" || len(os.Args) > 1 || !isPipe(replyFile) {
		return false
	}
	noCore := unix.Rlimit{}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &noCore) // what crashes here is reported; if this fails there is a core file more
	reply := os.NewFile(replyFile, "reply")
	var request childRequest
	err := gob.NewDecoder(os.Stdin).Decode(&request)
	if err == nil {
		err = gob.NewEncoder(reply).Encode(answer(request))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "voxtral: child:", err)
		os.Exit(1)
	}
	// The reply is out. What a library does at the end of its process, and what it never freed, shall not spoil it.
	syscall.Exit(0)
	return true
}

func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

func answer(r childRequest) childReply {
	if r.Driver != "" {
		diePlainly()
		return childReply{Backend: look(r.Driver)}
	}
	return serve(r)
}

// runChild runs a request in a process of its own, which may crash or hang.
func runChild(launcher []string, request childRequest, timeout time.Duration) (childReply, error) {
	if !hooked.Load() {
		return childReply{}, errors.New("this program does not call hip.RunChild at the start of main")
	}
	self, err := os.Executable()
	if err != nil {
		return childReply{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	command := append(append([]string(nil), launcher...), self)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.WaitDelay = time.Second // a grandchild may hold on to standard error
	tail := &tailWriter{}
	cmd.Stdout, cmd.Stderr = tail, tail
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return childReply{}, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return childReply{}, err
	}
	defer func() { _ = from.Close() }() // nothing is lost by then
	cmd.ExtraFiles = []*os.File{to}
	if err := errors.Join(cmd.Start(), to.Close()); err != nil {
		return childReply{}, err
	}
	// The child reads all of its request before it does anything, and its end closes the pipes. A grandchild that holds on to one is cut off.
	sent := errors.Join(gob.NewEncoder(stdin).Encode(request), stdin.Close())
	stop := context.AfterFunc(ctx, func() { _ = from.SetReadDeadline(time.Now()) })
	defer stop()
	var reply childReply
	got := gob.NewDecoder(io.LimitReader(from, maxReply)).Decode(&reply)
	waited := cmd.Wait()
	if got == nil && sent == nil && waited == nil {
		return reply, nil
	}
	how := fmt.Sprintf("gave no reply: %v", errors.Join(sent, got))
	if waited != nil {
		how = "ended: " + waited.Error()
	}
	if ctx.Err() != nil {
		how = fmt.Sprintf("was stopped after %v", timeout)
	}
	return childReply{}, &childEnded{how: how, stderr: string(tail.text)}
}

// tailWriter keeps the last of what is written.
type tailWriter struct{ text []byte }

func (w *tailWriter) Write(p []byte) (int, error) {
	w.text = append(w.text, p...)
	if extra := len(w.text) - stderrTail; extra > 0 {
		w.text = append(w.text[:0], w.text[extra:]...)
	}
	return len(p), nil
}
