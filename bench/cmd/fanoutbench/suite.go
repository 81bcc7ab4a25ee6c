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

// choice is which runs of a suite are made, and what becomes of what they measure.
type choice struct {
	peers, cases []string // only these; all, if there are none
	repeats      int
	duration     time.Duration
	output       string // file that is appended to
	document     string // that is written into, if it is not ""
	command      string // that the document says
}

func suiteCommand() *cobra.Command {
	var b binaries
	var c choice
	names := slices.Sorted(maps.Keys(suites))
	cmd := &cobra.Command{
		Use:   "suite NAME",
		Short: "Measure many cases side by side",
		Long: fmt.Sprintf(`Measure many cases side by side, several times each, and show tables of them. There
are these suites: %s.

Repeats of a case are not made one after another, so that what a machine does
meanwhile does not hit one of them alone.`, strings.Join(names, ", ")),
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
				return fmt.Errorf("%d runs of %d have failed", failed, len(runs))
			}
			return nil
		},
	}
	c.flags(cmd)
	b.flags(cmd)
	return cmd
}

func (c *choice) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&c.peers, "peers", nil, "only these")
	flags.StringArrayVar(&c.cases, "case", nil, `only this, as in the table, such as "1000 x 1"`)
	flags.IntVar(&c.repeats, "repeats", 3, "how often each case is measured")
	flags.DurationVar(&c.duration, "duration", 3*time.Second, "how long is measured in each run")
	flags.StringVar(&c.output, "output", "fanoutbench.jsonl", "file that a line of JSON is appended to for each run")
	flags.StringVar(&c.document, "document", "", "document that tables and plots are written into; see report")
	flags.StringVar(&c.command, "command", "fanoutbench "+strings.Join(os.Args[1:], " "), "what the document says that it was measured with")
	flags.Lookup("command").DefValue = "this one"
}

// runs returns the runs of a suite that were chosen, in the order in which they are made.
func (c *choice) runs(name string) ([]scenario.Parameters, error) {
	suite, ok := suites[name]
	if !ok {
		return nil, fmt.Errorf("suite %q: one of %s", name, strings.Join(slices.Sorted(maps.Keys(suites)), ", "))
	}
	var runs []scenario.Parameters
	for repeat := range c.repeats {
		for _, p := range suite.runs(c.duration) {
			if len(c.peers) > 0 && !slices.Contains(c.peers, p.Peer) || len(c.cases) > 0 && !slices.Contains(c.cases, report.Case(p)) {
				continue
			}
			p.Repeat = repeat
			runs = append(runs, p)
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("no run of suite %s is of these peers and cases", name)
	}
	return runs, nil
}

// measure makes the runs. One that fails does not keep the others from being made.
func (c *choice) measure(cmd *cobra.Command, programs peer.Programs, suite string, runs []scenario.Parameters) (records []*scenario.Record, failed int, err error) {
	file, err := os.OpenFile(c.output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, 0, fmt.Errorf("open the file for what is measured: %w", err)
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	bar := progress(cmd, len(runs))
	for _, p := range runs {
		name := report.Case(p) + ", " + report.Who(p)
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
			return nil, 0, fmt.Errorf("write down what was measured: %w", err)
		}
	}
	_ = bar.Finish()
	return records, failed, nil
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
