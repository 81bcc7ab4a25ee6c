package main

import (
	"context"
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

	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/report"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// suiteOptions selects the runs of a suite and the files for their results.
type suiteOptions struct {
	peers, cases []string // to run; empty: all
	repeats      int
	duration     time.Duration
	output       string   // file to append records to
	document     string   // to write tables and plots into; "": none
	command      string   // the command line that the document shows
	scenarios    []string // to run; empty: all
	requireGoals bool
}

func suiteCommand() *cobra.Command {
	var b binaries
	var c suiteOptions
	names := slices.Sorted(maps.Keys(suites))
	cmd := &cobra.Command{
		Use:   "suite NAME",
		Short: "Measure many cases",
		Long: fmt.Sprintf(`Measure many cases, several times each, and print tables. The suites are %s.

The suite runs through all cases before it repeats them, so that a disturbance of the
machine does not hit all repeats of one case.`, strings.Join(names, ", ")),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			runs, err := c.runs(args[0])
			if err != nil {
				return err
			}
			if c.document != "" {
				part := suites[args[0]].part
				part.Suite = args[0]
				if err := report.Check(c.document, part); err != nil {
					return err
				}
			}
			programs, err := b.programs(cmd.Context())
			if err != nil {
				return err
			}
			defer b.remove()
			records, failed, err := c.measure(cmd, programs, args[0], runs)
			if err != nil {
				return err
			}
			if c.document != "" && len(records) > 0 {
				if err := write(c.document, records); err != nil {
					return err
				}
			}
			if err := report.Table(colorprofile.NewWriter(cmd.OutOrStdout(), os.Environ()), 0, report.Groups(records)); err != nil {
				return err
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d runs failed", failed, len(runs))
			}
			if missed := report.Missed(report.Groups(records)); c.requireGoals && len(missed) > 0 {
				return fmt.Errorf("%d goals are missed:\n  %s", len(missed), strings.Join(missed, "\n  "))
			}
			return nil
		},
	}
	c.flags(cmd)
	b.flags(cmd)
	return cmd
}

func (c *suiteOptions) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&c.peers, "peers", nil, "systems to measure; default: all")
	flags.StringArrayVar(&c.cases, "case", nil, `case to run, as the table names it, such as "1000 x 1"; default: all`)
	flags.StringSliceVar(&c.scenarios, "scenarios", nil, "scenarios to run; default: all")
	flags.BoolVar(&c.requireGoals, "require-goals", false, "fail if a goal is missed")
	flags.IntVar(&c.repeats, "repeats", 3, "runs per case")
	flags.DurationVar(&c.duration, "duration", 3*time.Second, "duration of each run")
	flags.StringVar(&c.output, "output", "fanoutbench.jsonl", "file to append a line of JSON to for each run")
	flags.StringVar(&c.document, "document", "", "page to write tables and plots into; see report")
	flags.StringVar(&c.command, "command", "fanoutbench "+strings.Join(os.Args[1:], " "), "command line that the document shows")
	flags.Lookup("command").DefValue = "this command line"
}

// runs returns the chosen runs of a suite, in order.
func (c *suiteOptions) runs(name string) ([]scenario.Parameters, error) {
	suite, ok := suites[name]
	if !ok {
		return nil, fmt.Errorf("unknown suite %q (want %s)", name, strings.Join(slices.Sorted(maps.Keys(suites)), ", "))
	}
	var runs []scenario.Parameters
	for repeat := range c.repeats {
		for _, p := range suite.runs(c.duration) {
			if !c.selects(p) {
				continue
			}
			p.Repeat = repeat
			runs = append(runs, p)
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("suite %s has no run with these peers and cases", name)
	}
	return runs, nil
}

// selects reports whether a run has the chosen peers, scenarios and cases.
func (c *suiteOptions) selects(p scenario.Parameters) bool {
	p.Complete()
	return chosen(c.peers, p.Peer) && chosen(c.scenarios, p.Scenario) && chosen(c.cases, report.Case(p))
}

// chosen reports whether a name is in a list that is empty if all are chosen.
func chosen(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }

// measure makes the runs. It continues after a run that fails.
func (c *suiteOptions) measure(cmd *cobra.Command, programs peer.Programs, suite string, runs []scenario.Parameters) (records []*scenario.Record, failed int, err error) {
	file, err := os.OpenFile(c.output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, 0, fmt.Errorf("open the output file: %w", err)
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	bar := progress(cmd, len(runs))
	for _, p := range runs {
		name := report.Case(p) + ", " + report.System(p)
		bar.Describe(name)
		record, err := scenario.Run(cmd.Context(), programs, p, scenario.Observer{Phase: func(string) {}})
		if cmd.Context().Err() != nil {
			return nil, 0, context.Cause(cmd.Context())
		}
		_ = bar.Add(1)
		if err != nil {
			failed++
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", name, err)
			continue
		}
		record.Suite, record.Command = suite, c.command
		records = append(records, record)
		if err := lines.Encode(record); err != nil {
			return nil, 0, fmt.Errorf("write the record: %w", err)
		}
	}
	_ = bar.Finish()
	return records, failed, nil
}

// progress returns a progress bar, which is visible on terminals only.
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
