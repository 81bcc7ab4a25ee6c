package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/charmbracelet/colorprofile"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/bench/internal/report"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

func reportCommand() *cobra.Command {
	var plots, document, command string
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
			if document != "" {
				return write(document, groups, command)
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
	cmd.Flags().StringVar(&plots, "plots", "", "folder for plots (SVG) of what was measured with different numbers of watchers")
	cmd.Flags().StringVar(&document, "document", "", "document that tables and plots are written into, between the lines that it has for them")
	cmd.Flags().StringVar(&command, "command", "make bench", "what the document says that it was measured with")
	return cmd
}

// write puts tables into a document, and plots into a folder beside it.
func write(document string, groups []*report.Group, command string) error {
	const folder = "images/benchmarks"
	plots, err := report.Plots(filepath.Join(filepath.Dir(document), folder), groups)
	if err != nil {
		return err
	}
	text, err := report.Markdown(groups, command, folder, plots)
	if err != nil {
		return err
	}
	return report.Replace(document, text)
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
