package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/app"
)

const about = `fanoutd serves List and Watch over gRPC for data in etcd: every subscriber gets the
current state, then every change, in order and exactly once, and resumes at its
position after any interruption.

Without arguments it keeps one resource, "config", in an embedded etcd below ./data
and listens on 127.0.0.1:7420.

Every setting is a flag, a variable and a key of the configuration file. They have
the same name: --log-level, FANOUTD_LOG_LEVEL and log-level. A flag wins over a
variable, a variable over the file, the file over the default.`

const examples = `  fanoutd                                          embedded etcd below ./data
  fanoutd --listen :7420 --tls-cert-file cert.pem --tls-key-file key.pem
  fanoutd --etcd-endpoints https://etcd-1:2379,https://etcd-2:2379 --etcd-ca-file ca.pem
  fanoutd --config fanoutd.yaml config print       what would be used`

func rootCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "fanoutd",
		Short:         "Serve List and Watch over gRPC for data in etcd",
		Long:          about,
		Example:       examples,
		Args:          noArguments,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			log := logger(cmd.ErrOrStderr(), cfg)
			// What libraries log goes the same way.
			slog.SetDefault(log)
			return app.Run(cmd.Context(), cfg, log)
		},
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	groups := commandLine()
	for _, g := range groups {
		cmd.PersistentFlags().AddFlagSet(g.flags)
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error { return usage(cmd, groups) })
	cmd.AddCommand(configCommand(environ), keysetCommand(), policyCommand(environ), tokenCommand(), versionCommand())
	return cmd
}

// noArguments is [cobra.NoArgs] with an error that is a mistake in usage.
func noArguments(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usageError{err}
	}
	return nil
}
