package hip

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever keeps an AMD GPU from being used is named, with its fix.
func TestUnreachableAMD(t *testing.T) {
	dir := t.TempDir()
	libraries := map[string]string{
		"100":  stub(t, dir, "libamdhip64.so.5", "-DHIP", "-DDRIVER", "-DRTC", "-DINIT=100"),
		"101":  stub(t, dir, "libamdhip64.so.6", "-DHIP", "-DDRIVER", "-DRTC", "-DINIT=101"),
		"none": stub(t, dir, "libamdhip64.so.7", "-DHIP", "-DDRIVER", "-DRTC", "-DCOUNT=0"),
	}
	for name, c := range map[string]struct {
		prepare     func(m *machine)
		reason, fix string
	}{
		"no GPU":        {func(m *machine) { m.gpu(t, nvidiaVendor) }, "no AMD GPU on the PCI bus", ""},
		"no kfd":        {func(m *machine) { m.gpu(t, amdVendor) }, "there is no /dev/kfd", "modprobe amdgpu"},
		"no permission": {func(m *machine) { m.gpu(t, amdVendor).file(t, "dev/kfd", ""); m.denied = "dev/kfd" }, "no permission for /dev/kfd", "usermod -aG render"},
		"no permission for the render node": {func(m *machine) {
			m.gpu(t, amdVendor).file(t, "dev/kfd", "").file(t, "dev/dri/renderD128", "")
			m.denied = "dev/dri/renderD128"
		}, "no permission for /dev/dri/renderD128", "usermod -aG"},
		"hidden": {func(m *machine) {
			m.gpu(t, amdVendor).file(t, "dev/kfd", "")
			m.env["HIP_VISIBLE_DEVICES"] = "7"
		}, "no AMD GPU is reachable", "unset them"},
		"forced": {func(m *machine) {
			m.gpu(t, amdVendor).file(t, "dev/kfd", "")
			m.env[overrideVariable] = "eleven"
		}, `HSA_OVERRIDE_GFX_VERSION="eleven"`, "unset HSA_OVERRIDE_GFX_VERSION"},
		"else": {func(m *machine) { m.gpu(t, amdVendor).file(t, "dev/kfd", "") }, "no AMD GPU is reachable", "dmesg"},
	} {
		t.Run(name, func(t *testing.T) {
			for status, library := range libraries {
				m := newMachine(t)
				c.prepare(m)
				d, err := loadHIP(m.host(), []string{library})
				require.NoError(t, err)
				_, err = d.Devices()
				var problem *Problem
				require.ErrorAs(t, err, &problem)
				require.Contains(t, problem.Reason, c.reason)
				require.Contains(t, problem.Fix, c.fix)
				require.Equal(t, c.fix == "", problem.Fix == "")
				var said *Error
				if status == "none" {
					require.NotErrorAs(t, err, &said)
				} else {
					require.ErrorAs(t, err, &said)
					require.Equal(t, "hipInit", said.Call)
					require.Contains(t, "no device is detected invalid device ordinal", said.Text)
				}
				_, err = d.Open(0)
				require.ErrorAs(t, err, &problem)
			}
		})
	}
}

func TestUnreachableNVIDIA(t *testing.T) {
	dir := t.TempDir()
	none := stub(t, dir, "libcuda.so.1", "-DCUDA", "-DDRIVER", "-DINIT=100")
	stale := stub(t, dir, "libcuda.so.2", "-DCUDA", "-DDRIVER", "-DINIT=803")
	for name, c := range map[string]struct {
		library     string
		prepare     func(m *machine)
		reason, fix string
	}{
		"no GPU":    {none, func(m *machine) { m.gpu(t, amdVendor) }, "no NVIDIA GPU on the PCI bus", ""},
		"no module": {none, func(m *machine) { m.gpu(t, nvidiaVendor) }, "there is no /dev/nvidiactl", "modprobe nvidia"},
		"updated":   {stale, func(m *machine) { m.gpu(t, nvidiaVendor) }, "803", "restart the machine"},
		"hidden": {none, func(m *machine) {
			m.gpu(t, nvidiaVendor).file(t, "dev/nvidiactl", "")
			m.env["CUDA_VISIBLE_DEVICES"] = "-1"
		}, "no device is detected", "CUDA_VISIBLE_DEVICES"},
		"else": {none, func(m *machine) { m.file(t, "dev/nvidiactl", "") }, "no device is detected", "nvidia-smi"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			c.prepare(m)
			d, err := loadCUDA(m.host(), []string{c.library})
			require.NoError(t, err)
			_, err = d.Devices()
			var problem *Problem
			require.ErrorAs(t, err, &problem)
			require.Contains(t, problem.Reason, c.reason)
			require.Contains(t, problem.Fix, c.fix)
			require.Equal(t, c.fix == "", problem.Fix == "")
		})
	}
}

// A GPU is usable when there are kernels for it and the run time takes it for what it is.
func TestUsable(t *testing.T) {
	const nodes = "sys/class/kfd/kfd/topology/nodes/"
	for name, c := range map[string]struct {
		arch, forced string
		node         string // the kernel driver's number
		reason       string
	}{
		"CDNA 3":              {"gfx942:sramecc+:xnack-", "", "90402", ""},
		"CDNA 2":              {"gfx90a", "", "90010", ""},
		"relative":            {"gfx1036", "", "100306", ""},
		"old":                 {"gfx906:sramecc+", "", "90006", "no kernels for its architecture gfx906"},
		"unknown layout":      {"", "", "90402", "does not tell its architecture"},
		"forced to itself":    {"gfx1030", "10.3.0", "100300", ""},
		"forced to another":   {"gfx1030", "10.3.0", "100306", "take a gfx1036 for a gfx1030"},
		"forced with letters": {"gfx90a", "9.0.10", "90010", ""},
		"forced, two parts":   {"gfx1030", "10.3", "100300", "is no version"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t).file(t, nodes+"0/properties", "cpu_cores_count 8\ngfx_target_version 0\n").
				file(t, nodes+"1/properties", "simd_count 304\ngfx_target_version "+c.node+"\n")
			m.env[overrideVariable] = c.forced
			p := amd{m.host()}.problem(c.arch)
			if c.reason == "" {
				require.Nil(t, p)
				return
			}
			require.Contains(t, p.Reason, c.reason)
			require.NotEmpty(t, p.Fix)
		})
	}
	require.Nil(t, nvidia{}.problem("sm_90"))
	require.Nil(t, nvidia{}.problem("sm_120"))
	require.ErrorContains(t, nvidia{}.problem("sm_75"), "no kernels for its architecture sm_75")
}

// A report has every driver, and where it has no GPU it has a reason.
func TestReport(t *testing.T) {
	backends := Report()
	require.Len(t, backends, 2)
	for _, b := range backends {
		require.Equal(t, len(b.GPUs) == 0, b.Reason != "", b.Driver)
		for _, gpu := range b.GPUs {
			require.Equal(t, gpu.Usable, gpu.Reason == "", gpu.Name)
		}
	}
}
