package hip

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each generation of AMD's run time is usable, with its compiler inside or beside it; what it lacks costs what needs it.
func TestGenerations(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		flags   []string
		version string
		beside  string // the compiler's file, if it is one of its own
		missing []string
	}{
		"5":                                    {"libamdhip64.so.5", []string{"-DVERSION=50731921", "-DRTC"}, "5.7.31921", "", nil},
		"6":                                    {"libamdhip64.so.6", []string{"-DVERSION=60443484", "-DRTC"}, "6.4.43484", "", nil},
		"7":                                    {"libamdhip64.so.7", []string{"-DVERSION=70253211"}, "7.2.53211", "libhiprtc.so.7", nil},
		"newer, properties in the long layout": {"libamdhip64.so.10", []string{"-DVERSION=100000001", "-DARCH_AT=1160"}, "10.0.1", "libhiprtc.so.10", nil},
		"without occupancy or graphs": {"libamdhip64.so", []string{"-DRTC", "-DhipModuleOccupancyMaxActiveBlocksPerMultiprocessor=o", "-DhipGraphLaunch=g"}, "6.4.43484", "",
			[]string{"hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", "hipGraphLaunch"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := stub(t, dir, c.file, append(c.flags, "-DHIP", "-DDRIVER")...)
			if c.beside != "" {
				stub(t, dir, c.beside, "-DHIP", "-DRTC")
			}
			d, err := loadHIP(newMachine(t).host(), candidates(amdNames("libamdhip64"), []string{dir}))
			require.NoError(t, err)
			require.Equal(t, file, d.lib.path)
			versions := d.Versions()
			require.Equal(t, LibraryVersion{"HIP", c.version, file, c.missing}, versions[0])
			compiler := file
			if c.beside != "" {
				compiler = filepath.Join(dir, c.beside)
			}
			require.Equal(t, LibraryVersion{"hiprtc", "9.0", compiler, nil}, versions[1])

			gpus, err := d.Devices()
			require.NoError(t, err)
			require.Equal(t, []GPU{{Name: "Stub GPU 0", Arch: "gfx942:sramecc+:xnack-", WaveSize: 64, Units: 304, ThreadsPerUnit: 2048,
				MemoryBytes: 1 << 20, LDSBytes: 64 << 10, L2Bytes: 4 << 20, Usable: true}}, gpus)
			x, err := d.Open(0)
			require.NoError(t, err)
			if c.missing != nil {
				require.ErrorIs(t, x.BeginCapture(), ErrNoGraphs)
				require.ErrorContains(t, x.BeginCapture(), "hipGraphLaunch")
			}
			require.NoError(t, x.Close())
		})
	}
}

// A library that does not load is an error that tells which files were tried and what was wrong with each that is there.
func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	h := newMachine(t).gpu(t, amdVendor).host()

	_, err := loadHIP(h, candidates(amdNames("libabsent"), []string{dir}))
	var problem *Problem
	require.ErrorAs(t, err, &problem)
	require.Contains(t, problem.Reason, "libamdhip64) not found, tried libabsent.so.10, libabsent.so.9")
	require.Contains(t, problem.Reason, filepath.Join(dir, "libabsent.so.7"))
	require.Contains(t, problem.Fix, "libamdhip64-dev")

	broken := newMachine(t).file(t, "libamdhip64.so.6", "no library")
	_, err = loadHIP(h, []string{filepath.Join(broken.root, "libamdhip64.so.6"), "libabsent.so"})
	require.ErrorAs(t, err, &problem)
	require.Contains(t, problem.Reason, "file too short")
	require.NotContains(t, problem.Reason, "libabsent")

	lacking := stub(t, dir, "libamdhip64.so.6", "-DHIP", "-DDRIVER", "-DhipMalloc=m", "-DhipInit=i")
	_, err = loadHIP(h, []string{lacking})
	require.ErrorContains(t, err, lacking+" lacks hipInit, hipMalloc")

	// The next candidate is taken where one lacks something.
	whole := stub(t, dir, "libamdhip64.so.5", "-DHIP", "-DDRIVER", "-DRTC")
	d, err := loadHIP(h, []string{lacking, whole})
	require.NoError(t, err)
	require.Equal(t, whole, d.lib.path)
}

// Without its compiler a GPU is listed but refused, with the package to install.
func TestNoCompiler(t *testing.T) {
	h := newMachine(t).host()
	dir := t.TempDir()
	hip, err := loadHIP(h, []string{stub(t, dir, "libamdhip64.so.77", "-DHIP", "-DDRIVER", "-DVERSION=770000000")})
	require.NoError(t, err)
	cuda, err := loadCUDA(h, []string{stub(t, dir, "libcuda.so.1", "-DCUDA", "-DDRIVER", "-DVERSION=1000")})
	require.NoError(t, err)
	for d, fix := range map[*native]string{hip: "libamdhip64-dev", cuda: "nvidia-cuda-toolkit"} {
		if d.compiler != nil {
			continue // this machine has one in its search path
		}
		gpus, err := d.Devices()
		require.NoError(t, err)
		require.False(t, gpus[0].Usable)
		require.Contains(t, gpus[0].Reason, "no run-time compiler")
		require.Contains(t, gpus[0].Fix, fix)
		_, err = d.Open(0)
		require.ErrorContains(t, err, "GPU 0 (Stub GPU 0, ")
		require.ErrorContains(t, err, fix)
		require.Len(t, d.Versions(), 1)
	}
}

// The newest installation goes first, by number.
func TestByRelease(t *testing.T) {
	m := newMachine(t)
	for _, release := range []string{"6.4.3", "10.0.0", "7.2.0"} {
		m.file(t, "opt/rocm-"+release+"/lib/x", "")
	}
	m.env["ROCM_PATH"] = "/chosen"
	var got []string
	for _, folder := range amdFolders(m.host()) {
		rel, err := filepath.Rel(m.root, folder)
		require.NoError(t, err)
		got = append(got, rel)
	}
	require.Equal(t, []string{"opt/rocm-10.0.0/lib", "opt/rocm-7.2.0/lib", "opt/rocm-6.4.3/lib"}, got[1:])
	require.Equal(t, "/chosen/lib", amdFolders(m.host())[0])
}
