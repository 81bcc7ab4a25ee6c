package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/app"
)

func clusterCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Prepare and form a cluster of several servers",
		Args:  arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("fanoutd cluster requires a command: certs or form")}
		},
	}
	cmd.AddCommand(clusterCertsCommand(), clusterFormCommand(environ))
	return cmd
}

func clusterFormCommand(environ []string) *cobra.Command {
	var without []string
	cmd := &cobra.Command{
		Use:   "form",
		Short: "Found the cluster without servers that cannot answer",
		Long: `Found the cluster without servers that cannot answer, such as a machine that has not
arrived. By default, a new cluster is founded once all listed servers answer.

Run it with the settings and as the user of the server that founds: the first of the list
that is not left out. The server may be running. A server that is left out joins when it
comes, so its directory must be empty. If it answers before the cluster is founded, it is not
left out any more. Only a minority can be left out.`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(without) == 0 {
				return usageError{errors.New("fanoutd cluster form requires --without")}
			}
			cfg, err := load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			return printResult(cmd, app.FormWithout(cfg, without),
				"This server founds the cluster without %s once the others answer.\n", strings.Join(without, ", "))
		},
	}
	cmd.Flags().StringSliceVar(&without, "without", nil, "`names` of the servers to leave out")
	return cmd
}
