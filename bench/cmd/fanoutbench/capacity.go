package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/bench/internal/capacity"
)

func capacityCommand() *cobra.Command {
	var file, document string
	var seed uint64
	constants := func() (capacity.Constants, error) {
		if file == "" {
			return capacity.CheckedIn(), nil
		}
		return capacity.ReadConstants(file)
	}
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Say what servers hold, and simulate what happens when some go",
		Long: `Print the tables of docs/capacity.md, as they follow from measured constants and a
simulation. With --document they are written into it, and drawings into images beside it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := constants()
			if err != nil {
				return err
			}
			sections, results, err := capacity.Sections(&c, seed)
			if err != nil {
				return err
			}
			if document == "" {
				for _, s := range sections {
					fmt.Fprintf(cmd.OutOrStdout(), "# %s\n%s", s.Name, s.Text)
				}
				return nil
			}
			if err := capacity.Replace(document, sections); err != nil {
				return err
			}
			return capacity.DrawAll(filepath.Join(filepath.Dir(document), "images"), &c, results)
		},
	}
	cmd.PersistentFlags().StringVar(&file, "constants", "", "file of constants; default: those that docs/capacity.md was made with")
	cmd.PersistentFlags().Uint64Var(&seed, "seed", 1, "of what is random")
	cmd.Flags().StringVar(&document, "document", "", "where to put the tables; default: print them")
	cmd.AddCommand(handshakeCommand(), simulateCommand(constants, &seed))
	return cmd
}

func handshakeCommand() *cobra.Command {
	var handshakes int
	cmd := &cobra.Command{
		Use:   "handshake",
		Short: "Measure the CPU of a server for a TLS handshake",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if handshakes < 1 {
				return fmt.Errorf("%d handshakes: at least 1", handshakes)
			}
			took, err := capacity.Handshake(cmd.Context(), handshakes)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%.0f µs\n", float64(took)/float64(time.Microsecond))
			return nil
		},
	}
	cmd.Flags().IntVar(&handshakes, "handshakes", 2000, "how many are measured")
	return cmd
}

func simulateCommand(constants func() (capacity.Constants, error), seed *uint64) *cobra.Command {
	var f capacity.Fleet
	var happens []string
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate what happens to a fleet of your own",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := constants()
			if err != nil {
				return err
			}
			if err := f.Problem(); err != nil {
				return err
			}
			held := c.Holds(f.Node, f.Load)
			fmt.Fprintf(cmd.OutOrStdout(), "a server holds %d watches by its processors, %d by its memory, %d by its network\n",
				held.Processors, held.Memory, held.Network)
			var results []capacity.Result
			for _, name := range happens {
				r, err := capacity.Simulate(&c, f, name, *seed)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			fmt.Fprint(cmd.OutOrStdout(), capacity.ResultTable(results))
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&happens, "incident", capacity.Incidents(), "what happens: "+strings.Join(capacity.Incidents(), ", "))
	flags.IntVar(&f.Watches, "watches", 100_000, "watches of all")
	flags.IntVar(&f.PerConnection, "per-connection", 1, "watches on a connection")
	flags.IntVar(&f.Replicas, "replicas", 3, "servers")
	flags.IntVar(&f.Zones, "zones", 3, "zones that they are in")
	flags.IntVar(&f.Cores, "cores", 8, "processors of a server")
	flags.Float64Var(&f.Memory, "memory", 32, "memory of a server, in GiB")
	flags.Float64Var(&f.Network, "network", 10, "network of a server, in Gbit/s")
	flags.IntVar(&f.Hosts, "hosts", 0, "addresses that clients come from; 0: each connection has one of its own")
	flags.StringVar(&f.Balance, "balance", capacity.Least, "how a server is chosen for a connection: "+capacity.Least+" connections or "+capacity.Random)
	flags.DurationVar(&f.Restart, "restart", 30*time.Second, "until a process that has ended runs again")
	flags.BoolVar(&f.TLS, "tls", true, "connections have TLS")
	flags.Float64Var(&f.Events, "events", 1, "that a watch is told per second")
	flags.Float64Var(&f.EventBytes, "event-bytes", 308, "of an event on the wire")
	flags.Float64Var(&f.Changes, "changes", 10, "of everything, per second")
	flags.Float64Var(&f.State, "state", 100, "size of all objects, in MiB")
	flags.Float64Var(&f.Snapshot, "snapshot", 0.2, "size of what one watch sees, in MiB")
	return cmd
}
