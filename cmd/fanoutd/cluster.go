package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Prepare the machines of a cluster",
		Args:  arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("fanoutd cluster requires a command: certs")}
		},
	}
	cmd.AddCommand(clusterCertsCommand())
	return cmd
}
