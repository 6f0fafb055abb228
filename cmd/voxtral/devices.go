package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newDevices() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List what can compute on this machine",
		Long:  "List what can compute on this machine, by the names that --device takes.",
		Example: `  voxtral devices
  voxtral devices --json`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			dev, err := openDevice("cpu", 0)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, dev.Close()) }()
			info := dev.Info()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode([]deviceJSON{{info.Name, info.Detail, info.Threads}})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s  %s, threads: %d\n", info.Name, info.Detail, info.Threads)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

type deviceJSON struct {
	Name    string `json:"name"`
	Detail  string `json:"detail"`
	Threads int    `json:"threads"`
}
