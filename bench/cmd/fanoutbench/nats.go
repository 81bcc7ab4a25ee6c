package main

import (
	"flag"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// natsCommand runs NATS with the flags of NATS.
func natsCommand() *cobra.Command {
	return &cobra.Command{
		Use: peer.CommandNATS, Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			flags := flag.NewFlagSet(peer.CommandNATS, flag.ContinueOnError)
			nothing := func() {}
			options, err := server.ConfigureOptions(flags, args, nothing, nothing, nothing)
			if err != nil {
				return fmt.Errorf("configure NATS: %w", err)
			}
			nats, err := server.NewServer(options)
			if err != nil {
				return fmt.Errorf("make a NATS server: %w", err)
			}
			if err := server.Run(nats); err != nil {
				return fmt.Errorf("run NATS: %w", err)
			}
			nats.WaitForShutdown()
			return nil
		},
	}
}
