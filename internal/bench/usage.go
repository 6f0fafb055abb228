package bench

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is how much processor time this process has used so far, in all of its threads.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentMemory reads a line of /proc/self/status, such as "VmHWM" for the most memory that was ever resident; 0
// where the system has none.
func residentMemory(name string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	return statusBytes(status, name)
}

// loadAverage is how many threads of the whole system were busy over the last minute; 0 where the system does not say.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	load, _ := strconv.ParseFloat(string(first), 64) // the kernel writes numbers
	return load
}

func statusBytes(status []byte, name string) int64 {
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == name+":" && string(fields[2]) == "kB" {
			kb, _ := strconv.ParseInt(string(fields[1]), 10, 64) // the kernel writes numbers
			return kb << 10
		}
	}
	return 0
}
