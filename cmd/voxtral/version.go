package main

import (
	"fmt"
	goruntime "runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says where the program comes from.
type build struct {
	version, commit, goVersion, platform string
}

func (b build) String() string {
	return fmt.Sprintf("voxtral %s, commit %s, %s, %s", b.version, b.commit, b.goVersion, b.platform)
}

// buildVersion reads what the Go tool has put into the program.
func buildVersion() build {
	b := build{version: "(devel)", commit: "unknown", goVersion: goruntime.Version(), platform: goruntime.GOOS + "/" + goruntime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.version = info.Main.Version
	}
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " with changes"
		}
	}
	b.commit += modified
	return b
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the platform",
		Example: "  voxtral version",
		Args:    atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), buildVersion())
			return err
		},
	}
}
