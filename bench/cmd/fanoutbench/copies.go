package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/bench/internal/copies"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// copyCommand keeps a copy with one of the clients for Go.
func copyCommand() *cobra.Command {
	return &cobra.Command{
		Use: copies.CommandName + " SYSTEM ADDRESS OBJECTS", Hidden: true, Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			objects, err := strconv.Atoi(args[2])
			if err != nil {
				return fmt.Errorf("the number of objects: %w", err)
			}
			return copies.Keep(cmd.Context(), args[0], args[1], objects, os.Stdout)
		},
	}
}

// copiesCommand compares clients in several languages.
func copiesCommand() *cobra.Command {
	var b binaries
	var objects, repeats int
	var languages []string
	cmd := &cobra.Command{
		Use:   "copies",
		Short: "Measure local copies with the clients of several languages",
		Long: `Measure programs that keep a copy of all objects: the informers of fanoutd's clients, and
programs that do the same with the clients of etcd and NATS.

Each program loads the copy, and then each object changes once. The table has medians. An event per second is
one that one core can take, if it does nothing else.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			programs, err := b.programs(cmd.Context())
			if err != nil {
				return err
			}
			defer b.remove()
			var chosen []copies.Program
			for _, p := range copies.Programs(programs.Self, b.source) {
				if len(languages) == 0 || slices.Contains(languages, p.Language) {
					chosen = append(chosen, p)
				}
			}
			results := make([][]*copies.Result, len(chosen))
			for range repeats {
				for i, p := range chosen {
					r, err := copies.Measure(cmd.Context(), programs, p, objects)
					if err != nil {
						return err
					}
					results[i] = append(results[i], r)
				}
			}
			return copiesTable(cmd, chosen, results)
		},
	}
	cmd.Flags().IntVar(&objects, "objects", 100_000, "objects of the copy")
	cmd.Flags().IntVar(&repeats, "repeats", 3, "runs per program")
	cmd.Flags().StringSliceVar(&languages, "languages", nil, "Go, Python or Node.js; default: all")
	b.flags(cmd)
	return cmd
}

func copiesTable(cmd *cobra.Command, programs []copies.Program, results [][]*copies.Result) error {
	right := func(title string) output.Column { return output.Column{Title: title, Right: true} }
	table := output.NewTable(cmd.OutOrStdout(), 0, output.Column{Title: "LANGUAGE"}, output.Column{Title: "CLIENT"},
		right("LOADED AFTER (S)"), right("CPU (S)"), right("MEMORY (MB)"), right("CPU PER EVENT (µS)"), right("EVENTS PER SECOND"), right("MEMORY AFTER (MB)"))
	for i, p := range programs {
		median := func(of func(*copies.Result) float64) float64 {
			var all []float64
			for _, r := range results[i] {
				all = append(all, of(r))
			}
			slices.Sort(all)
			return all[len(all)/2]
		}
		perEvent := median(func(r *copies.Result) float64 { return float64(r.ChangeCPU.Nanoseconds()) / 1e3 })
		err := table.Row(p.Language, p.Library,
			fmt.Sprintf("%.2f", median(func(r *copies.Result) float64 { return r.Load.Seconds() })),
			fmt.Sprintf("%.2f", median(func(r *copies.Result) float64 { return r.LoadCPU.Seconds() })),
			fmt.Sprintf("%.0f", median(func(r *copies.Result) float64 { return float64(r.Memory) / 1e6 })),
			fmt.Sprintf("%.1f", perEvent),
			fmt.Sprintf("%.0f", float64(time.Second/time.Microsecond)/perEvent),
			fmt.Sprintf("%.0f", median(func(r *copies.Result) float64 { return float64(r.MemoryAfter) / 1e6 })))
		if err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
	}
	return table.Flush()
}
