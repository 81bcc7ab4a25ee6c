package main

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func diffCommand(t *tool) *cobra.Command {
	var s sourcing
	cmd := &cobra.Command{
		Use:   "diff RESOURCE SOURCE",
		Short: "Show what an import would change",
		Long: `Show what an import of the same documents would change, as a unified diff from what
the server has to what the documents say.

The exit code is 0 if there is no difference and 1 if there is one; a failure that is 1
for other commands is 2 here.

` + aboutDocuments,
		Example: `  fanoutctl diff config ./environments/prod --prefix prod --prune`,
		Args:    arguments(cobra.ExactArgs(2)), ValidArgsFunction: t.completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := t.within(cmd.Context(), 0)
			defer cancel()
			err := t.diff(func() (*transfer.Plan, error) { return s.plan(ctx, t, args[0], args[1]) })
			if err != nil && exitCode(cmd.Context(), err) == exitFailed && err != errDifferent {
				return exitError{exitTrouble, err}
			}
			return err
		},
	}
	s.bind(cmd)
	cmd.Flags().Lookup("prune").Usage = "objects that no document speaks of are differences"
	return cmd
}

// errDifferent says that there are differences, and nothing more.
var errDifferent = exitError{code: exitDifferent}

func (t *tool) diff(compare func() (*transfer.Plan, error)) error {
	plan, err := compare()
	if err != nil {
		return err
	}
	for _, c := range plan.Changes {
		text, err := transfer.Diff(c)
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			if _, err := fmt.Fprintln(t.plain, diffStyle(line).Styled(strings.TrimRight(line, "\n"))); err != nil {
				return err
			}
		}
	}
	if len(plan.Changes) > 0 {
		return errDifferent
	}
	return nil
}

func diffStyle(line string) ansi.Style {
	switch {
	case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
		return output.Bold
	case strings.HasPrefix(line, "@@"):
		return output.Name
	case strings.HasPrefix(line, "-"):
		return output.Bad
	case strings.HasPrefix(line, "+"):
		return output.Good
	}
	return output.Plain
}
