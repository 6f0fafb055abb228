package hip

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unsafe"
)

// compileTime bounds one compilation; the largest kernels take seconds.
const compileTime = 3 * time.Minute

// Compiler is a run-time compiler: hiprtc for AMD's architectures, NVRTC for NVIDIA's. It runs each compilation in a child
// process, for some releases end the process on an architecture or an intrinsic that they do not know. Safe for concurrent
// use.
type Compiler struct {
	Name    string // "hiprtc" or "NVRTC"
	Version string // as the library says
	Path    string // the library's file
	// Cache keeps compiled code; nil: every call compiles.
	Cache *Cache

	launcher []string // a command before the child's own
	identity string   // changes whenever the code that it makes may change
	timeout  time.Duration
}

// Source is one kernel program.
type Source struct {
	Name    string // of the file, for the compiler's messages
	Text    string
	Arch    string   // gfx942:sramecc+:xnack-, sm_90
	Options []string // beside the one for the architecture
}

// Output is a compiled program.
type Output struct {
	Code   []byte
	Log    string // the compiler's warnings, and why the cache did not keep the code
	Cached bool
}

// OpenCompiler uses the compiler in a given library file, with no cache. The launcher is a command that starts this program
// in surroundings where the library loads, such as another C library's ld.so with its --library-path: cross compilation
// needs neither a GPU nor a driver. A program that calls it calls RunChild first.
func OpenCompiler(path string, launcher ...string) (*Compiler, error) {
	c := &Compiler{Path: path, launcher: launcher, timeout: compileTime}
	reply, err := runChild(c.launcher, childRequest{Library: path}, c.timeout)
	if err != nil {
		return nil, fmt.Errorf("hip: the compiler in %s: %w", path, err)
	}
	if reply.Failure != "" {
		return nil, fmt.Errorf("hip: the compiler in %s: %s", path, reply.Failure)
	}
	c.Name, c.Version = reply.Name, reply.Version
	return c, c.identify("")
}

// findCompiler takes the first of the files that is a compiler and closes it again: only children compile.
func findCompiler(name, runtimeVersion string, files []string) (*Compiler, error) {
	api := new(C.struct_rtc_api)
	lib, err := openLibrary(name, compilerLibrary(name), files, unsafe.Pointer(api))
	if err != nil {
		return nil, err
	}
	defer lib.close()
	c := &Compiler{Name: name, Path: lib.path, timeout: compileTime, Cache: UserCache()}
	if c.Version, err = rtcVersion(api); err != nil {
		return nil, err
	}
	return c, c.identify(runtimeVersion)
}

// release is the end of a library's file name: libamdhip64.so.6.4.43484.
var release = regexp.MustCompile(`\.so\.(\d+\.\d+[.\d]*)$`)

// identify sets the identity from the file, since versions have no patch level, and hiprtc says 9.0 in every release: its
// version is taken from the file's name instead. It compiles through another library, which comes with the run time.
func (c *Compiler) identify(runtimeVersion string) error {
	file, err := filepath.EvalSymlinks(c.Path)
	if err != nil {
		return fmt.Errorf("hip: %w", err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("hip: %w", err)
	}
	c.Path = file
	if named := release.FindStringSubmatch(file); named != nil && c.Name == "hiprtc" {
		c.Version = named[1]
	}
	c.identity = fmt.Sprintf("%s %s %s %d %d %s", c.Name, c.Version, c.Path, info.Size(), info.ModTime().UnixNano(), runtimeVersion)
	return nil
}

func compilerLibrary(name string) C.enum_gpu_library {
	if name == "hiprtc" {
		return C.GPU_LIBRARY_HIPRTC
	}
	return C.GPU_LIBRARY_NVRTC
}

// Compile turns source into machine code. Errors: *CompileError, also when the compiler crashed or took too long.
func (c *Compiler) Compile(s Source) (Output, error) {
	key := cacheKey(c.identity, s)
	if out, ok := c.Cache.get(key); ok {
		return out, nil
	}
	fail := &CompileError{Program: s.Name, Arch: s.Arch, Compiler: c.Name + " " + c.Version}
	reply, err := runChild(c.launcher, childRequest{Library: c.Path, Compile: true, Source: s}, c.timeout)
	var ended *childEnded
	switch {
	case errors.As(err, &ended):
		fail.Reason, fail.Log = "the compiler "+ended.how, ended.stderr
		return Output{}, fail
	case err != nil:
		fail.Reason = err.Error()
		return Output{}, fail
	case reply.Failure != "":
		fail.Reason, fail.Log = reply.Failure, reply.Log
		return Output{}, fail
	}
	out := Output{Code: reply.Code, Log: reply.Log}
	if err := c.Cache.put(key, out); err != nil {
		out.Log = strings.TrimSpace(out.Log + "\n" + err.Error())
	}
	return out, nil
}

// serve does a request in the child.
func serve(r childRequest) (reply childReply) {
	api := new(C.struct_rtc_api)
	reply.Name = "hiprtc"
	lib, err := openFile(C.GPU_LIBRARY_HIPRTC, r.Library, unsafe.Pointer(api))
	if err != nil {
		var other error
		reply.Name = "NVRTC"
		if lib, other = openFile(C.GPU_LIBRARY_NVRTC, r.Library, unsafe.Pointer(api)); other != nil {
			reply.Failure = fmt.Sprintf("it is neither hiprtc (%v) nor NVRTC (%v)", err, other)
			return reply
		}
	}
	defer lib.close()
	if !r.Compile {
		version, err := rtcVersion(api)
		if err != nil {
			reply.Failure = err.Error()
		}
		reply.Version = version
		return reply
	}
	arch := "--offload-arch="
	if reply.Name == "NVRTC" {
		arch = "--gpu-architecture="
	}
	text, name := C.CString(r.Source.Text), C.CString(r.Source.Name)
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(name))
	options := []*C.char{C.CString(arch + r.Source.Arch)}
	for _, option := range r.Source.Options {
		options = append(options, C.CString(option))
	}
	defer func() {
		for _, option := range options {
			C.free(unsafe.Pointer(option))
		}
	}()
	out := C.rtc_run(api, text, name, C.int(len(options)), unsafe.SliceData(options))
	defer C.free(unsafe.Pointer(out.code))
	defer C.free(unsafe.Pointer(out.log))
	reply.Code = C.GoBytes(unsafe.Pointer(out.code), C.int(out.code_bytes))
	reply.Log = strings.TrimRight(C.GoStringN(out.log, C.int(out.log_bytes)), "\x00\n")
	if out.status != 0 {
		reply.Failure = fmt.Sprintf("%s: %s (%d)", C.GoString(out.call), C.GoString(C.rtc_error(api, out.status)), out.status)
	} else if len(reply.Code) == 0 {
		reply.Failure = "it returned no code"
	}
	return reply
}

func rtcVersion(api *C.struct_rtc_api) (string, error) {
	var major, minor C.int
	if status := C.rtc_version(api, &major, &minor); status != 0 {
		return "", fmt.Errorf("hip: asking the compiler for its version: %s (%d)", C.GoString(C.rtc_error(api, status)), status)
	}
	return fmt.Sprintf("%d.%d", major, minor), nil
}
