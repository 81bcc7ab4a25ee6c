package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"

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

// copiesRow has the results of a program.
type copiesRow struct {
	program copies.Program
	results []*copies.Result
}

// median returns the median of a figure.
func (r copiesRow) median(of func(*copies.Result) float64) float64 {
	var all []float64
	for _, one := range r.results {
		all = append(all, of(one))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func copiesTable(cmd *cobra.Command, programs []copies.Program, results [][]*copies.Result) error {
	figure := func(title, format string, of func(*copies.Result) float64) output.Column[copiesRow] {
		return output.Column[copiesRow]{
			Title: title, Right: true, Cell: func(r copiesRow) string { return fmt.Sprintf(format, r.median(of)) },
		}
	}
	perEvent := func(r *copies.Result) float64 { return float64(r.ChangeCPU.Nanoseconds()) / 1e3 }
	columns := []output.Column[copiesRow]{
		{Title: "LANGUAGE", Cell: func(r copiesRow) string { return r.program.Language }},
		{Title: "CLIENT", Cell: func(r copiesRow) string { return r.program.Library }},
		figure("LOADED AFTER (S)", "%.2f", func(r *copies.Result) float64 { return r.Load.Seconds() }),
		figure("CPU (S)", "%.2f", func(r *copies.Result) float64 { return r.LoadCPU.Seconds() }),
		figure("MEMORY (MB)", "%.0f", func(r *copies.Result) float64 { return float64(r.Memory) / 1e6 }),
		figure("CPU PER EVENT (µS)", "%.1f", perEvent),
		figure("EVENTS PER SECOND", "%.0f", func(r *copies.Result) float64 { return 1e6 / perEvent(r) }),
		figure("MEMORY AFTER (MB)", "%.0f", func(r *copies.Result) float64 { return float64(r.MemoryAfter) / 1e6 }),
	}
	var rows []copiesRow
	for i, p := range programs {
		rows = append(rows, copiesRow{p, results[i]})
	}
	return output.Records(output.Printer{W: cmd.OutOrStdout(), Format: output.Table}, columns, rows)
}
