package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/bench/internal/report"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

func suiteCommand() *cobra.Command {
	var b binaries
	var path string
	var repeats int
	var duration time.Duration
	var peers, cases []string
	cmd := &cobra.Command{
		Use:   "suite NAME",
		Short: "Measure many cases side by side",
		Long: `Measure many cases side by side, several times each, and show a table of them.
Repeats of a case are not made one after another, so that what a machine does
meanwhile does not hit one of them alone.`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: slices.Sorted(maps.Keys(suites)),
		RunE: func(cmd *cobra.Command, args []string) error {
			suite, ok := suites[args[0]]
			if !ok {
				return fmt.Errorf("suite %q: one of %s", args[0], strings.Join(cmd.ValidArgs, ", "))
			}
			runs := suite(duration)
			runs = slices.DeleteFunc(runs, func(p scenario.Parameters) bool {
				return len(peers) > 0 && !slices.Contains(peers, p.Peer) ||
					len(cases) > 0 && !slices.Contains(cases, report.Case(p))
			})
			if len(runs) == 0 {
				return fmt.Errorf("no run of suite %s is of these peers and cases", args[0])
			}
			programs, err := b.programs(cmd.Context())
			if err != nil {
				return err
			}
			defer b.remove()
			file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
			if err != nil {
				return fmt.Errorf("open the file for what is measured: %w", err)
			}
			defer file.Close()
			lines := json.NewEncoder(file)
			bar := progress(cmd, len(runs)*repeats)
			var records []*scenario.Record
			var failed int
			for repeat := range repeats {
				for _, p := range runs {
					p.Repeat = repeat
					name := report.Case(p) + ", " + report.Who(p)
					bar.Describe(name)
					record, err := scenario.Run(cmd.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
					if cmd.Context().Err() != nil {
						return cmd.Context().Err()
					}
					_ = bar.Add(1)
					if err != nil {
						failed++
						fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", name, err)
						continue
					}
					records = append(records, record)
					if err := lines.Encode(record); err != nil {
						return fmt.Errorf("write down what was measured: %w", err)
					}
				}
			}
			_ = bar.Finish()
			if err := report.Table(colorprofile.NewWriter(cmd.OutOrStdout(), os.Environ()), 0, report.Groups(records)); err != nil {
				return err
			}
			if failed > 0 {
				return fmt.Errorf("%d runs of %d have failed", failed, len(runs)*repeats)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&path, "output", "fanoutbench.jsonl", "file that a line of JSON is appended to for each run")
	flags.IntVar(&repeats, "repeats", 3, "how often each case is measured")
	flags.DurationVar(&duration, "duration", 3*time.Second, "how long is measured in each run")
	flags.StringSliceVar(&peers, "peers", nil, "only these")
	flags.StringArrayVar(&cases, "case", nil, `only this, as in the table, such as "1000 x 1"`)
	b.flags(cmd)
	return cmd
}

// progress shows on a terminal how far it is.
func progress(cmd *cobra.Command, runs int) *progressbar.ProgressBar {
	info, err := os.Stderr.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return progressbar.NewOptions(runs,
		progressbar.OptionSetWriter(cmd.ErrOrStderr()),
		progressbar.OptionSetVisibility(terminal),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionFullWidth(),
	)
}
