// Command fanoutbench measures fanoutd and compares it with the alternatives.
//
// It starts each measured system as a process on this machine: fanoutd, built from the
// parent directory; etcd and NATS in the versions of go.mod; and the floor, a minimal
// server that writes prebuilt HTTP/2 frames.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fanoutbench:", err)
		stop()
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "fanoutbench",
		Short:         "Measure fanoutd and compare it with the alternatives",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(runCommand(), suiteCommand(), reportCommand(), capacityCommand(), copiesCommand())
	cmd.AddCommand(processes()...)
	return cmd
}
