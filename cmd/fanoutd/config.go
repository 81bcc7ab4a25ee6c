package main

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

func configCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Look at the configuration",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("fanoutd config needs a command: print")}
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "print",
		Short: "Print the effective configuration",
		Long: `Print the configuration that the server would run with, put together from flags,
variables, file and defaults, as a configuration file. Exits with status 2 if it is
wrong. The password is not shown.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			if cfg.EtcdPasswordFile != "" {
				cfg.EtcdPassword = "" // only one of them may be set
			}
			out, err := yaml.MarshalWithOptions(cfg, yaml.IndentSequence(true))
			if err != nil {
				return fmt.Errorf("write the configuration as YAML: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(out)
			return err
		},
	})
	return cmd
}
