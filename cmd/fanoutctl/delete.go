package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

// deleteFlags are the flags of the delete command.
type deleteFlags struct {
	condition preconditions
	ignore    bool
	format    output.Format
	s         selection
	recursive bool
	yes       bool
	dryRun    bool
	retry     time.Duration
	message   string
	skip      bool
}

func deleteCommand(t *tool) *cobra.Command {
	var d deleteFlags
	cmd := &cobra.Command{
		Use:     "delete RESOURCE KEY... | RESOURCE [PATH] --recursive | RESOURCE --selector SELECTOR",
		Aliases: []string{"rm"},
		Short:   "Delete objects",
		Long: `Delete objects one by one and print the revision of each deletion, or with --output the
deleted objects, which needs the right to get them as well. If an object does not exist, the
others are still deleted and the exit code is 3.

With --recursive, delete PATH and everything below it. With --selector or --fields, delete
all objects that match; --recursive limits this to a path. Such a deletion first lists the
objects and asks for confirmation. Without a terminal it requires --yes. An object that
another client changes after the list is kept, and the exit code is 4. To continue an
interrupted deletion, run the same command again.`,
		Example: `  # Delete an object
  fanoutctl delete config shop/limits

  # Show what would be deleted below a path, then delete it
  fanoutctl delete config old --recursive --dry-run
  fanoutctl delete config old --recursive

  # Delete by label, in a script
  fanoutctl delete config -l env=test --yes`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil // the flags select objects
			}
			return checkArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.recursive || d.s.labels != "" || d.s.fields != "" {
				return t.deleteSelected(cmd, args, &d)
			}
			return t.deleteKeys(cmd, args, &d)
		},
	}
	d.condition.bind(cmd)
	f := cmd.Flags()
	f.BoolVar(&d.ignore, "ignore-not-found", false, "do not fail if an object does not exist")
	f.BoolVarP(&d.recursive, "recursive", "r", false, "delete PATH and everything below it")
	d.s.bind(cmd)
	f.BoolVarP(&d.yes, "yes", "y", false, "do not ask for confirmation")
	f.BoolVar(&d.dryRun, "dry-run", false, "print the keys that would be deleted, and delete nothing")
	messageFlag(cmd, &d.message)
	f.BoolVar(&d.skip, "skip-validation", false, "delete although the validation rules of the resource refuse it; requires the right \"skip-validation\"")
	f.DurationVar(&d.retry, "retry", time.Minute, "`duration` for which to retry while the server is unavailable")
	formatFlag(cmd, &d.format, output.Table)
	return cmd
}

// deleteKeys deletes the objects with the given keys, one by one.
func (t *tool) deleteKeys(cmd *cobra.Command, args []string, d *deleteFlags) error {
	for _, name := range []string{"dry-run", "retry"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s requires --recursive, --selector or --fields", name)
		}
	}
	if len(args) < 2 {
		return usagef("delete requires a key, --recursive, --selector or --fields")
	}
	precondition, err := d.condition.precondition(cmd)
	if err != nil {
		return err
	}
	if precondition != nil && len(args) > 2 {
		return usagef("--if-revision requires a single key")
	}
	r := t.client.Resource(args[0]).Because(d.message)
	all, cancel := t.withTimeout(cmd.Context(), 0)
	defer cancel()
	var opts []client.DeleteOption
	if precondition != nil {
		opts = append(opts, precondition)
	}
	if d.skip {
		opts = append(opts, client.SkipValidation())
	}
	var missing error
	for _, arg := range args[1:] {
		key := keyOf(arg)
		// The default timeout applies to each request, --timeout to all of them.
		ctx, cancel := t.withTimeout(all, requestTimeout)
		if cmd.Flags().Changed("output") {
			deleted, err := t.deleteAndShow(ctx, r, key, d.format, opts)
			cancel()
			if err != nil {
				return err
			}
			if !deleted && !d.ignore && missing == nil {
				missing = t.missingObject(all, r, key, args[0])
			}
			continue
		}
		revision, deleted, err := r.Delete(ctx, key, opts...)
		cancel()
		switch {
		case err != nil:
			return err
		case deleted:
			fmt.Fprintln(t.out, revision)
		case !d.ignore && missing == nil:
			missing = t.missingObject(all, r, key, fmt.Sprintf("%s (at revision %d)", args[0], revision))
		}
	}
	return missing
}

// missingObject returns the error for an object that cannot be deleted, because there is none.
func (t *tool) missingObject(ctx context.Context, r *client.Resource, key, where string) error {
	if text := t.mixup(ctx, r, &selection{key: key}); text != "" {
		return exitError{exitNotFound, fmt.Errorf(`%s: to delete them, run "fanoutctl delete %s %s --recursive"`, text, r.Name(), key)}
	}
	if err := wrongMissingKey(key); err != nil {
		return err
	}
	return fmt.Errorf("object %q %w in %s; use --ignore-not-found to ignore missing objects", key, errNotFound, where)
}

// deleteAndShow deletes an object and prints it. It returns false if there was none.
func (t *tool) deleteAndShow(ctx context.Context, r *client.Resource, key string, format output.Format, opts []client.DeleteOption) (bool, error) {
	done, err := r.TryDelete(ctx, key, opts...)
	switch {
	case err != nil:
		return false, err
	case !done.Applied && done.Object == nil:
		return false, exitError{exitConflict, fmt.Errorf("%q does not exist (at revision %d)", key, done.Revision)}
	case !done.Applied:
		return false, exitError{exitConflict, fmt.Errorf("%q has changed: it is at revision %d", key, done.Object.ModRevision)}
	case !done.Deleted:
		return false, nil
	}
	return true, t.printer(format).Object(done.Object)
}

// deleteSelected lists the selected objects, asks for confirmation and deletes them. It keeps the objects
// that have changed since they were listed.
func (t *tool) deleteSelected(cmd *cobra.Command, args []string, d *deleteFlags) error {
	switch {
	case len(args) > 2:
		return usagef("--recursive, --selector and --fields accept one path")
	case len(args) == 2 && !d.recursive:
		return usagef("to select objects below %s, add --recursive", args[1])
	case cmd.Flags().Changed("if-revision") || cmd.Flags().Changed("output") || d.skip:
		return usagef("--if-revision, --output and --skip-validation require a key")
	}
	if !d.yes && !d.dryRun {
		if err := t.needTerminal("the objects"); err != nil {
			return err
		}
	}
	d.s.setPath(args)
	r := t.client.Resource(args[0]).Because(d.message)
	ctx, cancel := t.withTimeout(cmd.Context(), 0)
	defer cancel()
	changes, err := listDeletions(ctx, r, d.s)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s in %s%s", english.Plural(len(changes), "object", ""), args[0], &d.s)
	switch {
	case len(changes) == 0:
		fmt.Fprintf(t.stderr, "No objects found in %s%s.\n", args[0], &d.s)
		return nil
	case d.dryRun:
		for _, c := range changes {
			fmt.Fprintln(t.printer(output.Key).W, c.Key)
		}
		fmt.Fprintf(t.stderr, "%s to delete. No changes were made.\n", what)
		return nil
	}
	if !d.yes {
		if err := t.confirm(ctx, changes, what); err != nil {
			return err
		}
	}
	return t.deleteAll(ctx, r, changes, d.retry)
}

// listDeletions returns the deletions of the selected objects, PATH itself included.
func listDeletions(ctx context.Context, r *client.Resource, s selection) ([]transfer.Change, error) {
	below, err := transfer.Deletions(ctx, r, s.forList()...)
	if err != nil || s.prefix == "" {
		return below, err
	}
	path := selection{key: s.prefix, labels: s.labels, fields: s.fields}
	own, err := transfer.Deletions(ctx, r, path.forList()...)
	return append(own, below...), err
}

// shownDeletions is how many keys a question for confirmation shows.
const shownDeletions = 10

// confirm asks whether to delete. Any answer but yes is an error.
func (t *tool) confirm(ctx context.Context, changes []transfer.Change, what string) error {
	w := output.Visible(t.stderr)
	for i, c := range changes {
		if i == shownDeletions {
			fmt.Fprintf(w, "  and %d more\n", len(changes)-i)
			break
		}
		fmt.Fprintf(w, "  %s\n", c.Key)
	}
	if ok, err := t.agrees(ctx, fmt.Sprintf("Delete %s?", what)); ok || err != nil {
		return err
	}
	return errors.New("nothing was deleted")
}

// deleteAll deletes the objects that have not changed since they were listed.
func (t *tool) deleteAll(ctx context.Context, r *client.Resource, changes []transfer.Change, retry time.Duration) error {
	changed := 0
	w := transfer.Writer{Resource: r, Retry: retry}
	deleted, failed, err := t.makeChanges(ctx, &w, changes, "Deleting from "+r.Name(), "deletions", func(c transfer.Change, err error) string {
		if errors.Is(err, client.ErrPreconditionFailed) {
			changed++
			return fmt.Sprintf("%q has changed meanwhile and is kept", c.Key)
		}
		return fmt.Sprintf("%s %q: %s", c.Action, c.Key, t.explain(exitFailed, err))
	})
	switch {
	case err != nil:
		return err
	case failed > 0 && failed == changed:
		return exitError{exitConflict, fmt.Errorf("%d of %s deleted; the others have changed meanwhile", deleted, english.Plural(len(changes), "object", ""))}
	case failed > 0:
		return fmt.Errorf("%d of %d deletions failed", failed, len(changes))
	}
	fmt.Fprintf(t.stderr, "%s deleted.\n", english.Plural(deleted, "object", ""))
	return nil
}
