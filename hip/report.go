package hip

/*
#include <signal.h>

static void die_of(int sig) { signal(sig, SIG_DFL); }
*/
import "C"

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"time"
)

// reportTime bounds a driver's start. That of eight GPUs without a persistent driver may take half a minute.
const reportTime = 2 * time.Minute

// Backend is what one driver has to say about this machine.
type Backend struct {
	Driver    string // "hip" or "cuda"
	Present   bool   // there is a GPU for it, usable or not, as far as the driver or the PCI bus tells
	Libraries []LibraryVersion
	GPUs      []GPU
	Reason    string // why there are no GPUs, if there are none
	Fix       string // what to do about that; empty: nothing
}

// backends are the drivers, in the order in which they are looked for.
var backends = []struct {
	name, vendor string
	load         func() (Driver, error)
}{{"hip", amdVendor, LoadHIP}, {"cuda", nvidiaVendor, LoadCUDA}}

// Load finds a driver's libraries by its name. An error is a *Problem.
func Load(name string) (Driver, error) {
	for _, b := range backends {
		if b.name == name {
			return b.load()
		}
	}
	return nil, &Problem{Reason: "there is no driver " + name, Fix: "use hip or cuda"}
}

// Report looks for GPUs through every driver, each in a child process: a library that crashes or hangs as it starts is one
// more reason why there is no GPU. A program that calls it calls RunChild first.
func Report() []Backend {
	out := make([]Backend, len(backends))
	var wait sync.WaitGroup
	for i, b := range backends {
		wait.Go(func() { out[i] = reportOf(b.name, b.vendor, reportTime) })
	}
	wait.Wait()
	return out
}

func reportOf(name, vendor string, timeout time.Duration) Backend {
	reply, err := runChild(nil, childRequest{Driver: name}, timeout)
	if err == nil {
		return reply.Backend
	}
	found, known := thisHost().display(vendor)
	b := Backend{Driver: name, Present: found || !known, Reason: "looking for GPUs failed: " + err.Error()}
	var ended *childEnded
	if errors.As(err, &ended) {
		b.Reason = "the driver's libraries fail as they start: " + strings.Join(strings.Fields(err.Error()), " ")
		b.Fix = "install kernel driver and run time of one release, and start the machine again"
	}
	return b
}

// diePlainly makes a crash the end of the process without Go's stacks, which would bury what the library printed.
func diePlainly() {
	for _, fatal := range []syscall.Signal{syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGSEGV, syscall.SIGTRAP} {
		C.die_of(C.int(fatal))
	}
}

// look is a driver's report, made in this process.
func look(name string) Backend {
	b := Backend{Driver: name}
	d, err := Load(name)
	if err == nil {
		b.Libraries = d.Versions()
		b.GPUs, err = d.Devices()
	}
	for _, driver := range backends {
		if driver.name == name {
			found, _ := thisHost().display(driver.vendor)
			b.Present = found || len(b.GPUs) > 0
		}
	}
	var problem *Problem
	switch {
	case err == nil:
	case errors.As(err, &problem):
		b.Reason, b.Fix = problem.Reason, problem.Fix
	default:
		b.Reason = strings.TrimPrefix(err.Error(), "hip: ")
	}
	return b
}
