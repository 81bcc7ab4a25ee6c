package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/app"
)

func configCheckCommand(environ []string) *cobra.Command {
	var (
		etcd    bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate the configuration and open what it names",
		Long: `Validate the configuration and open the files that it names: certificates and their keys,
authorities, tokens, the policy, keysets and descriptor sets. Check that the server could write
its data and the audit log. Warn of subjects and groups of the policy that no caller can have, as
far as that is known. All problems are reported at once, and nothing is changed. A server
with this configuration may be running.

With --etcd, also read from the external etcd, for each resource, with the configured
credentials, and check the right to write the key fanoutd-epoch. Warn of values that the codec
of their resource cannot decode, as a sample of the first 256 shows, and name the codec that can.

The exit code is 2 if there are problems, and 1 if only etcd fails.`,
		Example: `  # Check a file before a restart
  fanoutd --config /etc/fanoutd/fanoutd.yaml config check

  # Try etcd, too
  fanoutd --config /etc/fanoutd/fanoutd.yaml config check --etcd --timeout 10s`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usageError{errors.New("--timeout must be positive")}
			}
			cfg, locate, err := read(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			problems := append(validate(&cfg), app.CheckFiles(cfg)...)
			if problems = locate(problems); len(problems) > 0 {
				return usageError{problems}
			}
			warnings, err := app.CheckSubjects(cfg)
			if err != nil {
				return err
			}
			for _, warning := range warnings {
				fmt.Fprintln(cmd.OutOrStdout(), "warning:", warning)
			}
			what := "the configuration and its files are"
			if etcd {
				ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
				defer cancel()
				warnings, err := app.CheckEtcd(ctx, cfg, slog.New(slog.DiscardHandler))
				if err != nil {
					return err
				}
				for _, warning := range warnings {
					fmt.Fprintln(cmd.OutOrStdout(), "warning:", warning)
				}
				what = "the configuration, its files and its etcd are"
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), what, "valid")
			return err
		},
	}
	cmd.Flags().BoolVar(&etcd, "etcd", false, "also read from etcd")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "time limit for etcd, as a `duration`")
	return cmd
}
