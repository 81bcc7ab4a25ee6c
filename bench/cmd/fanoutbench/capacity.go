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
			return capacity.DefaultConstants(), nil
		}
		return capacity.ReadConstants(file)
	}
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Calculate the capacity of servers and simulate their failure",
		Long: `Print the tables of docs/dev/capacity.md, calculated from measured constants and a
simulation. With --document, write them into that page, and plots into images beside it.`,
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
	cmd.PersistentFlags().StringVar(&file, "constants", "", "file of constants; default: the constants of docs/dev/capacity.md")
	cmd.PersistentFlags().Uint64Var(&seed, "seed", 1, "seed of the random numbers")
	cmd.Flags().StringVar(&document, "document", "", "page to write the tables into; default: print them")
	cmd.AddCommand(handshakeCommand(), simulateCommand(constants, &seed))
	return cmd
}

func handshakeCommand() *cobra.Command {
	var handshakes int
	cmd := &cobra.Command{
		Use:   "handshake",
		Short: "Measure the CPU time of a TLS handshake on the server",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if handshakes < 1 {
				return fmt.Errorf("--handshakes %d: must be at least 1", handshakes)
			}
			took, err := capacity.Handshake(cmd.Context(), handshakes)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%.0f µs\n", float64(took)/float64(time.Microsecond))
			return nil
		},
	}
	cmd.Flags().IntVar(&handshakes, "handshakes", 2000, "number of handshakes")
	return cmd
}

func simulateCommand(constants func() (capacity.Constants, error), seed *uint64) *cobra.Command {
	var f capacity.Fleet
	var happens []string
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate incidents of your own fleet",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := constants()
			if err != nil {
				return err
			}
			if err := f.Validate(); err != nil {
				return err
			}
			held := c.NodeCapacity(f.Node, f.Load)
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
	flags.StringSliceVar(&happens, "incident", capacity.Incidents(), "incidents to simulate: "+strings.Join(capacity.Incidents(), ", "))
	flags.IntVar(&f.Watches, "watches", 100_000, "watches of the whole fleet")
	flags.IntVar(&f.PerConnection, "per-connection", 1, "watches per connection")
	flags.IntVar(&f.Replicas, "replicas", 3, "servers")
	flags.IntVar(&f.Zones, "zones", 3, "zones of the servers")
	flags.IntVar(&f.Cores, "cores", 8, "processors per server")
	flags.Float64Var(&f.Memory, "memory", 32, "memory per server, in GiB")
	flags.Float64Var(&f.Network, "network", 10, "network bandwidth per server, in Gbit/s")
	flags.IntVar(&f.Hosts, "hosts", 0, "client addresses; 0: one per connection")
	flags.StringVar(&f.Balance, "balance", capacity.Least, "load balancing of connections: "+capacity.Least+" connections or "+capacity.Random)
	flags.DurationVar(&f.Restart, "restart", 30*time.Second, "time until a failed process runs again")
	flags.BoolVar(&f.TLS, "tls", true, "use TLS")
	flags.Float64Var(&f.Events, "events", 1, "events per second and watch")
	flags.Float64Var(&f.EventBytes, "event-bytes", 308, "bytes per event on the wire")
	flags.Float64Var(&f.Changes, "changes", 10, "changes per second in the whole resource")
	flags.Float64Var(&f.State, "state", 100, "size of all objects, in MiB")
	flags.Float64Var(&f.Snapshot, "snapshot", 0.2, "size of the snapshot of a watch, in MiB")
	return cmd
}
