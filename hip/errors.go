package hip

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoGraphs says that the library in use cannot capture.
var ErrNoGraphs = errors.New("hip: the GPU library has no graphs")

// ErrNotTogether says that the library in use cannot promise that all blocks of a grid run at once.
var ErrNotTogether = errors.New("hip: the GPU library has no cooperative launches")

// errStuck: a kernel's blocks waited for each other in vain.
var errStuck = errors.New("the blocks of a grid did not all run at once, though the GPU library promised it: use --step kernels")

var (
	errClosed  = errors.New("hip: the context is closed")
	errForeign = errors.New("hip: the object belongs to another context or is closed")
)

// Error is a status that a GPU library returned.
type Error struct {
	Call string // the library's function
	Code int
	Name string // the library's name for the code
	Text string // the library's words
}

func (e *Error) Error() string {
	return fmt.Sprintf("hip: %s: %s (%s, %d)", e.Call, e.Text, e.Name, e.Code)
}

// Problem is why GPUs, or one of them, cannot be used, and what to do about it.
type Problem struct {
	Reason string
	Fix    string // empty: nothing can be done
	Err    error  // what the library said, if it was asked
}

func (p *Problem) Error() string {
	if p.Fix == "" {
		return "hip: " + p.Reason
	}
	return "hip: " + p.Reason + ": " + p.Fix
}

func (p *Problem) Unwrap() error { return p.Err }

// OutOfMemory is an allocation that did not fit.
type OutOfMemory struct {
	Device      string
	Need        int64 // bytes asked for
	Free, Total int64 // bytes of the device; 0 if it did not tell
	Pinned      bool  // it was the host's memory
	Err         error
}

func (e *OutOfMemory) Error() string {
	if e.Pinned {
		return fmt.Sprintf("hip: %s: out of pinned host memory: %s needed: raise the limit of locked memory (ulimit -l) or free memory", e.Device, size(e.Need))
	}
	return fmt.Sprintf("hip: %s: out of memory: %s needed at once, %s of %s free: close what else uses this GPU, "+
		"choose a smaller format (voxtral quantize), fewer streams or another device", e.Device, size(e.Need), size(e.Free), size(e.Total))
}

func (e *OutOfMemory) Unwrap() error { return e.Err }

// size is a number of bytes for people.
func size(bytes int64) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%d bytes", bytes)
	}
	if bytes < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30))
}

// Attempt is a library file that was tried and why it did not do.
type Attempt struct{ File, Reason string }

// LoadError is a library that could not be loaded under any of its names.
type LoadError struct {
	Library string
	Tried   []Attempt
}

// Found says whether some file was there but unusable.
func (e *LoadError) Found() bool { return len(e.broken()) > 0 }

// broken are the attempts that failed for another reason than that there is no such file.
func (e *LoadError) broken() []Attempt {
	var broken []Attempt
	for _, a := range e.Tried {
		if !strings.HasPrefix(a.Reason, a.File+": cannot open shared object file: No such file") {
			broken = append(broken, a)
		}
	}
	return broken
}

func (e *LoadError) Error() string {
	show, verb := e.broken(), "cannot be used"
	if len(show) == 0 {
		names := make([]string, len(e.Tried))
		for i, a := range e.Tried {
			names[i] = a.File
		}
		return fmt.Sprintf("hip: %s not found, tried %s", e.Library, strings.Join(names, ", "))
	}
	reasons := make([]string, len(show))
	for i, a := range show {
		reasons[i] = a.Reason
		if !strings.Contains(a.Reason, a.File) {
			reasons[i] = a.File + ": " + a.Reason
		}
	}
	return fmt.Sprintf("hip: %s %s: %s", e.Library, verb, strings.Join(reasons, "; "))
}

// CompileError is a kernel that did not compile, or a compiler that did not come back.
type CompileError struct {
	Program  string
	Arch     string
	Compiler string // name and version
	Reason   string // the compiler's word for it, or how its process ended
	Log      string // what the compiler printed
}

func (e *CompileError) Error() string {
	text := fmt.Sprintf("hip: compiling %s for %s with %s: %s", e.Program, e.Arch, e.Compiler, e.Reason)
	if log := strings.TrimSpace(e.Log); log != "" {
		text += "\n" + log
	}
	return text
}
