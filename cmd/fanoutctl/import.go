package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

// sourcing is where documents come from, and what of the resource they stand for.
type sourcing struct {
	scope  transfer.Scope
	format string
	raw    bool
	hidden bool
}

func (s *sourcing) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.scope.Prefix, "prefix", "", "only objects and documents below this `path`")
	cmd.Flags().BoolVar(&s.scope.Prune, "prune", false, "delete objects that no document speaks of (below --prefix, if that is given)")
	cmd.Flags().StringVar(&s.format, "format", "", "`format` of the documents where the name of the file does not say it: yaml or json")
	cmd.Flags().BoolVar(&s.raw, "raw", false, "the files of the directory are the values, and their paths the keys")
	cmd.Flags().BoolVar(&s.hidden, "hidden", false, "with --raw, also files and directories whose names begin with a dot")
}

// plan compares the documents of a source with a resource.
func (s *sourcing) plan(ctx context.Context, t *tool, resource, path string) (*transfer.Plan, error) {
	format := document.Format(s.format)
	if format != document.Auto && format != document.YAML && format != document.JSON {
		return nil, usagef("--format: must be yaml or json, not %q", s.format)
	}
	if s.hidden && !s.raw {
		return nil, usagef("--hidden is for --raw")
	}
	if path == "-" && isTerminal(t.in) {
		return nil, usagef("there is nothing in standard input")
	}
	r, err := t.resource(resource)
	if err != nil {
		return nil, err
	}
	s.scope.Prefix = strings.Trim(s.scope.Prefix, "/") // as for export
	s.scope.Derived = !takesLabels(t.codec(ctx, resource))
	s.scope.Visible = s.raw && !s.hidden
	var leftOut []string
	source := document.Source{
		Path: path, Stdin: t.in, Format: format, Raw: s.raw, Hidden: s.hidden,
		LeftOut: func(path string) { leftOut = append(leftOut, path) },
	}
	plan, err := transfer.NewPlan(ctx, r, source.Documents(), s.scope)
	switch n := len(leftOut); n {
	case 0:
	case 1:
		fmt.Fprintf(t.stderr, "fanoutctl: %s is left out, as its name begins with a dot; --hidden takes it\n", leftOut[0])
	default:
		fmt.Fprintf(t.stderr, "fanoutctl: %s and %d more are left out, as their names begin with a dot; --hidden takes them\n", leftOut[0], n-1)
	}
	if errors.Is(err, transfer.ErrNothing) {
		return nil, fmt.Errorf("%s: %w; delete them with delete if that is what you want", path, err)
	}
	if err == nil && s.scope.Prefix != "" && len(plan.Changes)+plan.Unchanged == 0 {
		fmt.Fprintf(t.stderr, "fanoutctl: %s has no document below %s\n", path, s.scope.Prefix)
	}
	return plan, err
}

const aboutDocuments = `A document is the key of an object, its content type and labels, and its value: JSON as
"value", another text as "text", anything else in base64 as "data". They come from a
file (YAML with --- between documents, or JSON), from standard input ("-"), or from
all .yaml, .yml, .json and .jsonl files of a directory. With --raw, the files of a
directory are the values themselves. Names that begin with a dot, such as .git, are left
out; with --raw, --hidden takes them.`

func importCommand(t *tool) *cobra.Command {
	var (
		s       sourcing
		dry     bool
		patient time.Duration
	)
	cmd := &cobra.Command{
		Use:   "import RESOURCE SOURCE",
		Short: "Write many objects, from files or a stream",
		Long: `Make a resource have what documents say. All of them are read first; then they are
compared with what the server has, and what differs is written, many at a time and in
no order. So an import that was interrupted goes on where it was when it is started
again, and one that is done twice does nothing the second time. Ctrl-C lets the writes
end that are under way.

` + aboutDocuments,
		Example: `  fanoutctl import config backup.yaml
  fanoutctl import config ./environments/prod --prefix prod --prune --dry-run
  fanoutctl export config --server old:7420 | fanoutctl import config - --server new:7420`,
		Args:              arguments(cobra.ExactArgs(2)),
		ValidArgsFunction: t.completeSource,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			plan, err := s.plan(ctx, t, args[0], args[1])
			if err != nil {
				return err
			}
			if dry {
				return t.showPlan(plan)
			}
			return t.apply(ctx, args[0], plan, patient)
		},
	}
	s.bind(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be done, and do nothing")
	cmd.Flags().DurationVar(&patient, "retry", time.Minute, "for how `long` to try again while the server is unavailable")
	return cmd
}

// completeSource completes a resource and the name of a file.
func (t *tool) completeSource(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return t.completeResources(cmd, args, begun)
	}
	return nil, cobra.ShellCompDirectiveDefault
}

func (t *tool) showPlan(plan *transfer.Plan) error {
	for _, c := range plan.Changes {
		if _, err := fmt.Fprintln(t.out, c.Action, c.Key); err != nil {
			return err
		}
	}
	fmt.Fprintf(t.stderr, "%d to create, %d to update, %d to delete, %d unchanged. Nothing was done.\n",
		plan.Count(transfer.Create), plan.Count(transfer.Update), plan.Count(transfer.Delete), plan.Unchanged)
	return nil
}

// reported is how many failures are told one by one.
const reported = 10

func (t *tool) apply(ctx context.Context, resource string, plan *transfer.Plan, patient time.Duration) error {
	r, err := t.resource(resource)
	if err != nil {
		return err
	}
	bar := t.progress(fmt.Sprintf("Importing into %s", resource), int64(len(plan.Changes)))
	failures := 0
	w := transfer.Writing{
		Resource: r,
		Labels:   takesLabels(t.codec(ctx, resource)),
		Patience: patient,
		Done:     func(n int) { bar.add(n) },
		Failed: func(c transfer.Change, err error) {
			if failures++; failures <= reported {
				where := ""
				if c.New != nil {
					where = c.New.Where + ": "
				}
				bar.clear()
				fmt.Fprintf(t.stderr, "fanoutctl: %s%s %q: %s\n", where, c.Action, c.Key, t.explain(exitFailed, err))
			}
		},
	}
	written, failed, err := w.Apply(ctx, plan.Changes)
	bar.finish()
	deleted := plan.Count(transfer.Delete)
	switch {
	case errors.Is(err, errInterrupted):
		return exitError{exitInterrupted, fmt.Errorf("interrupted after %d of %d changes; do the same again to go on", written, len(plan.Changes))}
	case err != nil:
		return fmt.Errorf("after %d of %d changes: %w", written, len(plan.Changes), err)
	case failed > 0:
		return fmt.Errorf("%d of %d changes could not be made", failed, len(plan.Changes))
	}
	fmt.Fprintf(t.stderr, "%d written, %d deleted, %d unchanged.\n", written-deleted, deleted, plan.Unchanged)
	return nil
}

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
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
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
