package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"voxtral/cpu"
	"voxtral/hip"
	"voxtral/internal/capture"
	"voxtral/internal/device"
)

func newDevices() *cobra.Command {
	var asJSON, verbose bool
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List what can compute on this machine, and its microphones",
		Long: `List what can compute on this machine, by the names that --device takes: the CPU, and every
GPU with its architecture, memory, driver and libraries, or the reason why it cannot be
used and what to do about it. A GPU that is listed is tested when it is used. Drivers
without a GPU are only mentioned with -v, unless something can be done about it. Then
come the inputs by the names that 'voxtral listen --input' takes, if there are any.`,
		Example: `  voxtral devices
  voxtral devices --json`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := cpuInfo()
			if err != nil {
				return err
			}
			backends := hip.Report()
			inputs, inputErr := capture.Inputs()
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(append(devicesJSON(info, backends), inputsJSON(inputs)...))
			}
			var t table
			t.devices(info, backends, verbose)
			t.inputs(inputs, inputErr, verbose)
			return t.write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "also say which drivers are absent, and where libraries are")
	return cmd
}

func cpuInfo() (info device.Info, err error) {
	dev, err := cpu.Open(0)
	if err != nil {
		return info, err
	}
	return dev.Info(), dev.Close()
}

// deviceJSON is the CPU, a GPU, or a driver that has none.
type deviceJSON struct {
	Name        string        `json:"name"` // as --device takes it; of a driver without GPUs its own
	Detail      string        `json:"detail"`
	Usable      bool          `json:"usable"`
	Reason      string        `json:"reason,omitempty"` // why it is not usable
	Fix         string        `json:"fix,omitempty"`
	Threads     int           `json:"threads,omitempty"`
	Arch        string        `json:"arch,omitempty"`
	WaveSize    int           `json:"wave_size,omitempty"`
	Units       int           `json:"units,omitempty"`
	MemoryBytes int64         `json:"memory_bytes,omitempty"`
	Integrated  bool          `json:"integrated,omitempty"`
	Libraries   []libraryJSON `json:"libraries,omitempty"`
	Input       bool          `json:"input,omitempty"` // a microphone, by the name that --input takes
	Default     bool          `json:"default,omitempty"`
}

type libraryJSON struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Path    string   `json:"path"`
	Missing []string `json:"missing,omitempty"` // optional functions
}

func devicesJSON(info device.Info, backends []hip.Backend) []deviceJSON {
	list := []deviceJSON{{Name: info.Name, Detail: info.Detail, Usable: true, Threads: info.Threads}}
	for _, b := range backends {
		var libraries []libraryJSON
		for _, l := range b.Libraries {
			libraries = append(libraries, libraryJSON(l))
		}
		if b.Reason != "" {
			list = append(list, deviceJSON{Name: b.Driver, Reason: b.Reason, Fix: b.Fix, Libraries: libraries})
		}
		for _, g := range b.GPUs {
			list = append(list, deviceJSON{
				Name: fmt.Sprintf("%s:%d", b.Driver, g.Index), Detail: g.Name, Usable: g.Usable, Reason: g.Reason, Fix: g.Fix, Arch: g.Arch,
				WaveSize: g.WaveSize, Units: g.Units, MemoryBytes: g.MemoryBytes, Integrated: g.Integrated, Libraries: libraries,
			})
		}
	}
	return list
}

func inputsJSON(inputs []capture.Input) (list []deviceJSON) {
	for _, in := range inputs {
		list = append(list, deviceJSON{Name: in.Name, Detail: "input", Usable: true, Input: true, Default: in.Default})
	}
	return list
}

func (t *table) inputs(inputs []capture.Input, why error, verbose bool) {
	for _, in := range inputs {
		name := in.Name
		if in.Default {
			name += " (default)"
		}
		t.row("input\t%s", name)
	}
	switch {
	case len(inputs) > 0 || !verbose:
	case why != nil:
		t.row("input\tnone: %v", why)
	default:
		t.row("input\tnone")
	}
}

func (t *table) devices(info device.Info, backends []hip.Backend, verbose bool) {
	t.row("%s\t%s, threads: %d", info.Name, info.Detail, info.Threads)
	for _, b := range backends {
		if b.Reason != "" && (verbose || b.Fix != "") {
			t.row("%s\tno GPU: %s", b.Driver, b.Reason)
			t.fix(b.Fix)
		}
		for _, g := range b.GPUs {
			t.row("%s:%d\t%s, %s, waves of %d, %d units, %.1f GiB; %s", b.Driver, g.Index, g.Name, g.Arch, g.WaveSize, g.Units, float64(g.MemoryBytes)/(1<<30), libraryVersions(b))
			if !g.Usable {
				t.row("\tnot usable: %s", g.Reason)
				t.fix(g.Fix)
			}
		}
		for _, l := range b.Libraries {
			if verbose {
				t.row("\t%s: %s", l.Name, strings.Join(append([]string{l.Path}, lacks(l.Missing)...), ", "))
			}
		}
	}
}

func (t *table) fix(fix string) {
	if fix != "" {
		t.row("\tfix: %s", fix)
	}
}

func libraryVersions(b hip.Backend) string {
	var list []string
	for _, l := range b.Libraries {
		list = append(list, l.Name+" "+l.Version)
	}
	return strings.Join(list, ", ")
}

func lacks(missing []string) []string {
	if len(missing) == 0 {
		return nil
	}
	return []string{"without " + strings.Join(missing, ", ")}
}
