// Command fanoutd serves List and Watch over gRPC for data in etcd.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/version"
)

// What the process ends with.
const (
	exitOK     = 0
	exitFailed = 1 // it could not go on, and the last log line says why; or the answer is no
	exitUsage  = 2 // the command line or the configuration is wrong
	exitForced = 3 // a second signal ended it before it had stopped cleanly
)

func main() {
	// The first signal stops cleanly, the second at once: a stop may wait for
	// subscribers, and who asks twice does not want to.
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitForced)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// usageError is a mistake of who has started the command.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run is the whole command, apart from what belongs to the process.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	cmd := rootCommand(environ)
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	switch err := cmd.ExecuteContext(ctx); {
	case err == nil:
		return exitOK
	case errors.Is(err, errNo):
		return exitFailed
	case errors.As(err, new(usageError)):
		fmt.Fprintf(stderr, "%v\nRun fanoutd --help for usage.\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "fanoutd: %v\n", err)
		return exitFailed
	}
}

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

// logger returns the logger that the configuration asks for. Its level and format
// have been checked.
func logger(w io.Writer, cfg config.Config) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

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
