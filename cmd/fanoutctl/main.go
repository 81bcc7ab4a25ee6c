// Command fanoutctl reads, writes and watches the objects of a fanoutd, and shows
// its operators how it does.
package main

import (
	"context"
	"io"
	"os"
)

func main() {
	os.Exit(run(stoppable(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
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
