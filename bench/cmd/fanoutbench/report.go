package main

import (
	"fmt"
	"io"
	"os"

	"github.com/charmbracelet/colorprofile"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/bench/internal/report"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

func reportCommand() *cobra.Command {
	var plots string
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Make a table of what was measured",
		Long: `Make a table of what was measured: files with lines of JSON, - is standard input.
Runs of the same parameters are one row, with the median and from where to where the
runs go. CPU, writes and bytes are per delivery; times are in milliseconds.`,
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
	cmd.Flags().StringVar(&plots, "plots", "", "folder for plots (SVG) of what was measured with different numbers of watchers")
	return cmd
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
