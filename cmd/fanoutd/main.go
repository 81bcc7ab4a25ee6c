// Command fanoutd serves List and Watch over gRPC for data in etcd.
//
// This package reads the flags, the environment and the configuration file, and handles
// signals. internal/app builds and runs the server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/collector"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/man"
	"github.com/fanoutd/fanoutd/internal/version"
	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // a failure, which the last log line explains, or the answer "no"
	exitUsage  = 2 // invalid command line or configuration
	exitForced = 3 // a second signal ended the process before it had stopped cleanly
)

func main() {
	// The first signal stops the server cleanly, which may wait for subscribers. The second
	// one exits at once.
	ctx, cancel := context.WithCancel(context.Background())
	outlive()
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

// outlive keeps two signals from ending the process. SIGPIPE means that no process reads
// standard output or standard error any more; the server then runs on without a log. SIGHUP
// asks a server to check its files, see checkFilesOnHangup.
func outlive() {
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(hangups, syscall.SIGHUP)
}

// hangups receives SIGHUP. A signal that comes before the server runs waits in it.
var hangups = make(chan os.Signal, 1)

// checkFilesOnHangup checks the files of a server after each SIGHUP until ctx is done.
func checkFilesOnHangup(ctx context.Context, a *app.App, log *slog.Logger) {
	for {
		select {
		case <-hangups:
		case <-ctx.Done():
			return
		}
		if a.CheckFiles(ctx); ctx.Err() == nil {
			log.Info("checked the files with certificates, keys, tokens and policies; other settings need a restart", "signal", "SIGHUP")
		}
	}
}

// usageError is an error in the command line or the configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run executes the command line and returns the exit code.
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

const rootLong = `fanoutd serves List and Watch over gRPC for data in etcd. Every subscriber receives the
current state and then every change, in order and exactly once, and resumes at its position
after an interruption.

Without arguments, fanoutd serves one resource, "config", from an embedded etcd in ./data,
and listens on 127.0.0.1:7420.

Each setting can be given as a flag, as an environment variable, or in the configuration
file, in this order of precedence. The flag --log-level, for example, corresponds to the
variable FANOUTD_LOG_LEVEL and the key log-level.`

const rootExample = `  # Start with an embedded etcd in ./data
  fanoutd

  # Listen on all addresses, with TLS
  fanoutd --listen :7420 --tls-cert-file cert.pem --tls-key-file key.pem

  # Use an external etcd
  fanoutd --etcd-endpoints https://etcd-1:2379,https://etcd-2:2379 --etcd-ca-file ca.pem

  # Check the configuration with its files and its etcd
  fanoutd --config fanoutd.yaml config check --etcd`

func rootCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "fanoutd",
		Short:         "Serve List and Watch over gRPC for data in etcd",
		Long:          rootLong,
		Example:       rootExample,
		Version:       version.Line("fanoutd"),
		Args:          arguments(cobra.NoArgs),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd.Flags(), environ)
			if err != nil {
				return err
			}
			log := newLogger(cmd.ErrOrStderr(), cfg)
			slog.SetDefault(log) // for libraries
			running, stop := context.WithCancel(cmd.Context())
			var beside sync.WaitGroup
			defer beside.Wait()
			defer stop()
			if !setsCollector(environ) {
				beside.Go(func() { collector.Run(running) })
			}
			a, err := app.Build(cmd.Context(), cfg, log)
			if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				log.Info("stopped before the server was ready", "reason", err)
				return nil
			}
			if err != nil {
				return err
			}
			beside.Go(func() { checkFilesOnHangup(running, a, log) })
			return a.Run(cmd.Context())
		},
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			var names []string
			cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
			err = fmt.Errorf("%w%s", err, yamlfile.Suggest("--"+unknown.GetSpecifiedName(), names))
		}
		return usageError{err}
	})
	groups := commandLine()
	for _, g := range groups {
		cmd.PersistentFlags().AddFlagSet(g.flags)
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error { return usage(cmd, groups) })
	cmd.AddCommand(clusterCommand(environ), configCommand(environ), keysetCommand(), policyCommand(environ), recoverCommand(environ), restoreCommand(environ), tokenCommand(), versionCommand(), man.Command())
	return cmd
}

// setsCollector reports whether the environment has settings of Go's garbage collector. They win:
// whoever grants a process memory need not save it.
func setsCollector(environ []string) bool {
	return slices.ContainsFunc(environ, func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		return (name == "GOGC" || name == "GOMEMLIMIT") && value != ""
	})
}

// arguments turns the errors of check into usage errors.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// newLogger returns the logger of a validated configuration.
func newLogger(w io.Writer, cfg config.Config) *slog.Logger {
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
		Short: "Print the version of fanoutd",
		Args:  arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Line("fanoutd"))
			return err
		},
	}
}
