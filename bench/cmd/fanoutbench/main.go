// Command fanoutbench measures fanoutd beside what its users would pick instead.
//
// It starts all that it measures by itself, as processes of their own, on this
// machine: fanoutd as it is in the folder above, etcd, NATS and a floor of
// hand-built frames in versions that go.mod pins.
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
		Short:         "Measure fanoutd beside what its users would pick instead",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(runCommand(), suiteCommand(), reportCommand(), capacityCommand())
	cmd.AddCommand(processes()...)
	return cmd
}
