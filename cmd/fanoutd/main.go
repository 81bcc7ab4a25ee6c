// Command fanoutd serves List and Watch over gRPC for data in etcd.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
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
