package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is where the help of flags wraps, in columns.
const helpWidth = "92"

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "voxtral",
		Short: "Speech to text with Voxtral Realtime, on this machine",
		Long: `voxtral turns speech into text with Mistral's Voxtral Mini 4B Realtime, on this machine
and without a network.

A small demonstration model is built in, so that everything can be tried at once; it
knows simple sentences in synthetic voices. For real speech, name a checkpoint or a file
made by 'voxtral quantize' with --model or in the environment variable VOXTRAL_MODEL.`,
		Example: `  voxtral transcribe talk.wav
  voxtral transcribe --model voxtral-int4.safetensors --format srt --output-dir subtitles *.mp3
  voxtral inspect voxtral-int4.safetensors`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       buildVersion().String(),
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", "Flags.FlagUsagesWrapped "+helpWidth+" "))
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(newTranscribe(), newListen(), newQuantize(), newInspect(), newBench(), newEval(), newDevices(), newVersion())
	return root
}

func unknownCommand(root *cobra.Command, name string) error {
	if _, err := os.Stat(name); err == nil {
		return usagef("unknown command %q: to transcribe a file, run 'voxtral transcribe %s'", name, name)
	}
	if similar := root.SuggestionsFor(name); len(similar) > 0 {
		return usagef("unknown command %q: did you mean %q?", name, similar[0])
	}
	return usagef("unknown command %q", name)
}

// atMost makes cobra's check of the number of arguments a usage error.
func atMost(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("unexpected argument %q", args[n])
		}
		return nil
	}
}
