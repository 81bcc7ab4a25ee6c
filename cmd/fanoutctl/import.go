package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

// documentHelp describes the input of import and diff.
const documentHelp = `SOURCE is a file, a directory, or "-" for standard input. A file contains documents, as
YAML (separated by ---) or JSON. In a directory, all .yaml, .yml, .json and .jsonl files
are read.

A document has the key of an object, its content type, its labels and its value. The value
is JSON in "value", other text in "text", or base64-encoded bytes in "data".

With --raw, SOURCE is a directory whose files are the values; their paths are the keys.
Names that begin with a dot, such as .git, are skipped unless --raw --hidden is set.`

func importCommand(t *tool) *cobra.Command {
	var (
		flags  planFlags
		dryRun bool
		w      transfer.Writer
		why    string
		g      gatedFlags
	)
	cmd := &cobra.Command{
		Use:   "import RESOURCE SOURCE",
		Short: "Write objects from files or standard input",
		Long: `Write objects from documents. All documents are read and compared with the server first;
only objects that differ are written, concurrently and in no particular order.

An import can be repeated safely. An interrupted import is continued by running the same
command again. Ctrl-C waits for the writes in progress.

With --wait, wait until the watches that overlap the changed objects have applied them, as
"fanoutctl wait" does for their common path. If nothing has to be written, wait for what the
documents describe. By default, the wait lasts at most 2m.

With --rollback as well, an object that another client changes meanwhile is not replaced, and
if the import or the wait fails, the former objects are restored and new ones deleted, except
those that another client has written since. The exit code is then 10, or 11 if not all was
restored. A signal ends the command without a rollback.

` + documentHelp,
		Example: `  # Restore a backup
  fanoutctl import config backup.yaml

  # Show what would change, including deletions
  fanoutctl import config ./environments/prod --prefix prod --prune --dry-run

  # Write, and take everything back unless all watches apply it
  fanoutctl import config ./environments/prod --prefix prod --wait --rollback

  # Copy a resource to another server
  fanoutctl export config --server old:7420 | fanoutctl import config - --server new:7420`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := g.check(cmd, why); err != nil {
				return err
			}
			if dryRun && g.wait {
				return usagef("--dry-run and --wait are mutually exclusive")
			}
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			var servers []client.Server
			if g.wait {
				var err error
				if servers, err = t.eachServer(cmd.Context()); err != nil {
					return err
				}
			}
			flags.lines = dryRun
			plan, err := flags.plan(ctx, t, args[0], args[1])
			if err != nil {
				return err
			}
			if dryRun {
				return t.showPlan(ctx, args[0], plan, w.OverwriteOpaque, w.SkipValidation)
			}
			r := t.client.Resource(args[0]).Because(why)
			w.Resource, w.DerivedLabels = r, flags.scope.DerivedLabels
			if !g.wait {
				return t.apply(ctx, args[0], plan, &w)
			}
			undo := t.newUndo(cmd.Context(), r, why)
			undo.SkipValidation = w.SkipValidation
			if g.rollback {
				if err := t.prepareUndo(ctx, r, plan); err != nil {
					return err
				}
				w.Undo = undo
			}
			err = t.apply(ctx, args[0], plan, &w)
			if revision := max(plan.Newest, w.Newest()); err == nil && revision > 0 {
				err = t.awaitWrite(ctx, g.options(servers, args[0], gateOf(plan), revision))
			}
			return t.settle(cmd.Context(), err, undo)
		},
	}
	flags.bind(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the changes, and what the server refuses, without making them")
	overwriteFlag(cmd, &w.OverwriteOpaque)
	skipFlag(cmd, &w.SkipValidation)
	messageFlag(cmd, &why)
	g.bind(cmd, "the changed objects")
	cmd.Flags().DurationVar(&w.Retry, "retry", time.Minute, "`duration` for which to retry while the server is unavailable")
	return cmd
}

// planFlags are the flags of import and diff that determine the plan.
type planFlags struct {
	scope  transfer.Scope
	format string
	raw    bool
	hidden bool
	lines  bool // messages about documents name the lines of their parts
}

func (p *planFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.scope.Prefix, "prefix", "", "ignore objects and documents that are not below this `path`")
	cmd.Flags().BoolVar(&p.scope.Prune, "prune", false, "delete objects without a document (only below --prefix, if set)")
	cmd.Flags().StringVar(&p.format, "format", "", "`format` of standard input and of files without a known extension: yaml or json (default: detect)")
	cmd.Flags().BoolVar(&p.raw, "raw", false, "the files in the directory are the values, and their paths the keys")
	cmd.Flags().BoolVar(&p.hidden, "hidden", false, "with --raw, include files and directories whose names begin with a dot")
}

// plan compares the documents at path with the resource.
func (p *planFlags) plan(ctx context.Context, t *tool, resource, path string) (*transfer.Plan, error) {
	format := document.Format(p.format)
	if format != document.Auto && format != document.YAML && format != document.JSON {
		return nil, usagef("--format: unknown format %q (want yaml or json)", p.format)
	}
	if p.hidden && !p.raw {
		return nil, usagef("--hidden requires --raw")
	}
	if path == "-" && isTerminal(t.in) {
		return nil, usagef("standard input is a terminal: pipe or redirect the documents")
	}
	r := t.client.Resource(resource)
	p.scope.Prefix = strings.Trim(p.scope.Prefix, "/")
	p.scope.DerivedLabels = t.derivesLabels(ctx, resource)
	p.scope.SkipHidden = p.raw && !p.hidden
	var skipped []string
	source := document.Source{
		Path: path, Stdin: t.in, Format: format, Raw: p.raw, Hidden: p.hidden,
		Lines: p.lines, Skipped: func(path string) { skipped = append(skipped, path) },
	}
	var plan *transfer.Plan
	documents, err := source.Documents(ctx)
	if err == nil {
		plan, err = transfer.NewPlan(ctx, r, documents, p.scope)
	}
	switch n := len(skipped); n {
	case 0:
	case 1:
		fmt.Fprintf(t.stderr, "fanoutctl: skipped %s, whose name begins with a dot; use --hidden to include it\n", skipped[0])
	default:
		fmt.Fprintf(t.stderr, "fanoutctl: skipped %s and %d more, whose names begin with a dot; use --hidden to include them\n", skipped[0], n-1)
	}
	if errors.Is(err, transfer.ErrNoDocuments) {
		err = fmt.Errorf("%s: %w; to delete all objects, use the delete command", path, err)
	}
	if err != nil && !errors.As(err, new(*client.Error)) && ctx.Err() == nil {
		return nil, inputError(err)
	}
	if err == nil && p.scope.Prefix != "" && len(plan.Changes)+plan.Unchanged == 0 {
		fmt.Fprintf(t.stderr, "fanoutctl: %s has no document below %s\n", path, p.scope.Prefix)
	}
	return plan, err
}

// showPlan prints the changes of a dry run, and on standard error those that the rules of the server refuse.
func (t *tool) showPlan(ctx context.Context, resource string, plan *transfer.Plan, overwrite, skip bool) error {
	refusals := make([]error, len(plan.Changes))
	if !skip {
		var err error
		if refusals, err = t.refusals(ctx, resource, plan.Changes, overwrite); err != nil {
			return err
		}
	}
	allowed := transfer.Plan{Unchanged: plan.Unchanged}
	for i, c := range plan.Changes {
		if refusals[i] == nil {
			allowed.Changes = append(allowed.Changes, c)
			fmt.Fprintln(t.out, c.Action, c.Key)
		}
	}
	refused := printRefusals(t.stderr, plan.Changes, refusals)
	fmt.Fprintf(t.stderr, "%d to create, %d to update, %d to delete, %d unchanged", allowed.Count(transfer.Create),
		allowed.Count(transfer.Update), allowed.Count(transfer.Delete), allowed.Unchanged)
	if refused == 0 {
		fmt.Fprintln(t.stderr, ". No changes were made.")
		return nil
	}
	fmt.Fprintf(t.stderr, ", %d refused. No changes were made.\n", refused)
	return exitError{exitUsage, fmt.Errorf("the server refuses %d of %s", refused, english.Plural(len(plan.Changes), "change", ""))}
}

// apply makes the changes of a plan. The writer has the options.
func (t *tool) apply(ctx context.Context, resource string, plan *transfer.Plan, w *transfer.Writer) error {
	written, failed, err := t.makeChanges(ctx, w, plan.Changes, "Importing into "+resource, "changes", t.describeFailure)
	switch {
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d of %d changes failed", failed, len(plan.Changes))
	}
	deleted := plan.Count(transfer.Delete)
	fmt.Fprintf(t.stderr, "%d written, %d deleted, %d unchanged.\n", written-deleted, deleted, plan.Unchanged)
	return nil
}

// describeFailure returns the message for a change that the server refuses.
func (t *tool) describeFailure(c transfer.Change, err error) string {
	where := ""
	if c.New != nil {
		where = c.New.Where + ": "
	}
	return fmt.Sprintf("%s%s %q: %s", where, c.Action, c.Key, t.explain(exitFailed, err))
}

// maxReportedFailures is how many failed changes are reported one by one.
const maxReportedFailures = 10

// makeChanges makes changes with a progress bar, and reports the first that fail. It returns how many were made and
// how many have failed.
func (t *tool) makeChanges(ctx context.Context, w *transfer.Writer, changes []transfer.Change, title, noun string, describe func(transfer.Change, error) string) (made, failed int, err error) {
	bar := t.countObjects(title, int64(len(changes)))
	failures := 0
	w.Done = bar.add
	w.Failed = func(c transfer.Change, err error) {
		text := describe(c, err)
		if failures++; failures <= maxReportedFailures {
			bar.printf("fanoutctl: %s\n", text)
		}
	}
	made, failed, err = w.Apply(ctx, changes)
	bar.finish()
	switch {
	case errors.Is(err, errInterrupted):
		err = exitError{exitInterrupted, fmt.Errorf("interrupted after %d of %d %s; run the same command again to continue", made, len(changes), noun)}
	case err != nil:
		err = fmt.Errorf("failed after %d of %d %s: %w", made, len(changes), noun, err)
	}
	return made, failed, err
}
