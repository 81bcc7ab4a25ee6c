package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
}

// version returns what the Go command has recorded about the source of the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "fanoutctl, unknown version"
	}
	return fmt.Sprintf("fanoutctl %s %s", info.Main.Version, info.GoVersion)
}
