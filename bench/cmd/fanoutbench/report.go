package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/charmbracelet/colorprofile"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/bench/internal/report"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

func reportCommand() *cobra.Command {
	var plots, document string
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Print a table of records",
		Long: `Print a table of records from files with lines of JSON; - is standard input. Runs with
the same parameters share a row, which shows their median and range. CPU, writes and
bytes are per delivery; times are in milliseconds.

With --document, write the tables and plots of each suite between its marker lines.
Suites without records stay as they are.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []*scenario.Record
			for _, name := range args {
				records, err := read(cmd.InOrStdin(), name)
				if err != nil {
					return err
				}
				all = append(all, records...)
			}
			groups := report.Groups(all)
			if document != "" {
				return write(document, all)
			}
			if plots != "" {
				names, err := report.Plots(plots, groups)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%d plots in %s\n", len(names), plots)
			}
			return report.Table(colorprofile.NewWriter(cmd.OutOrStdout(), os.Environ()), 0, groups)
		},
	}
	cmd.Flags().StringVar(&plots, "plots", "", "directory for SVG plots over the number of watchers")
	cmd.Flags().StringVar(&document, "document", "", "page to write tables and plots into, between the marker lines of each suite")
	return cmd
}

// write writes the records of each suite into a document.
func write(document string, records []*scenario.Record) error {
	measured := map[string][]*scenario.Record{}
	for _, r := range records {
		measured[r.Suite] = append(measured[r.Suite], r)
	}
	var parts []report.Part
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		suite, ok := suites[name]
		if !ok {
			return fmt.Errorf("unknown suite %q", name)
		}
		part := suite.part
		part.Suite, part.Groups = name, report.Groups(measured[name])
		parts = append(parts, part)
	}
	return report.Write(document, parts...)
}

func read(stdin io.Reader, name string) ([]*scenario.Record, error) {
	if name == "-" {
		return report.Read(stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	records, err := report.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return records, nil
}
