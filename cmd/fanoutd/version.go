package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/version"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Line("fanoutd"))
			return err
		},
	}
}
