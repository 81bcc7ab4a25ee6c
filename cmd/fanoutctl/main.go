// Command fanoutctl reads, writes and watches the objects of a fanoutd, and shows
// its operators how it does.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// errInterrupted is why the context of a command ends when somebody stops it.
var errInterrupted = errors.New("interrupted")

// editing is true while an editor has the terminal. Ctrl-C is for the editor then, and
// nothing ends this command before the editor.
var editing atomic.Bool

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		// The first signal lets the command finish what it is doing, the second ends
		// it.
		for s := range signals {
			switch {
			case s == syscall.SIGINT && editing.Load():
			case ctx.Err() == nil:
				cancel(errInterrupted)
			case !editing.Load():
				os.Exit(exitInterrupted)
			}
		}
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole command, apart from what belongs to the process.
func run(ctx context.Context, args, environ []string, in io.Reader, stdout, stderr io.Writer) int {
	t := newTool(environ, in, stdout, stderr)
	defer t.close()
	cmd := rootCommand(t)
	cmd.SetArgs(args)
	cmd.SetOut(t.out)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if flushed := t.out.Flush(); err == nil {
		err = flushed
	}
	return t.report(ctx, err)
}
