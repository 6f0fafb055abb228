package cpu

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// masks are the CPUs that each thread of this process may use, by thread.
func masks(t *testing.T) map[string]string {
	files, err := filepath.Glob("/proc/self/task/*/status")
	require.NoError(t, err)
	all := map[string]string{}
	for _, file := range files {
		status, err := os.ReadFile(file)
		if err != nil { // the thread has ended
			continue
		}
		_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:\t")
		list, _, _ = strings.Cut(list, "\n")
		all[file] = list
	}
	return all
}

// pinnedBy opens a device of so many threads and returns the masks of threads that are kept to one CPU by it.
func pinnedBy(t *testing.T, threads int) []string {
	before := masks(t)
	d, err := Open(threads)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	var one []string
	for thread, mask := range masks(t) {
		if before[thread] != mask && !strings.ContainsAny(mask, ",-") {
			one = append(one, mask)
		}
	}
	return one
}

// Asked to, each worker keeps to a CPU of its own, also those of two devices; otherwise none does.
func TestPinning(t *testing.T) {
	var allowed unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &allowed))
	n := allowed.Count()
	if n < 2 {
		t.Skip("there is one CPU, to which every thread is kept")
	}
	require.Empty(t, pinnedBy(t, n+1))
	t.Setenv("VOXTRAL_CPU_PIN", "1")
	a, b := pinnedBy(t, n/2+1), pinnedBy(t, n-n/2+1)
	all := slices.Concat(a, b)
	slices.Sort(all)
	require.Len(t, slices.Compact(all), n, "%v and %v", a, b)
}
