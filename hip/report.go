package hip

import (
	"errors"
	"strings"
)

// Backend is what one driver has to say about this machine.
type Backend struct {
	Driver    string // "hip" or "cuda"
	Libraries []LibraryVersion
	GPUs      []GPU
	Reason    string // why there are no GPUs, if there are none
	Fix       string // what to do about that; empty: nothing
}

// Report looks for GPUs through every driver.
func Report() []Backend {
	return []Backend{report("hip", LoadHIP), report("cuda", LoadCUDA)}
}

func report(name string, load func() (Driver, error)) Backend {
	b := Backend{Driver: name}
	d, err := load()
	if err == nil {
		b.Libraries = d.Versions()
		b.GPUs, err = d.Devices()
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
