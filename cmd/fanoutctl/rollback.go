package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/past"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func rollbackCommand(t *tool) *cobra.Command {
	var (
		to, message         string
		yes, dryRun, splits bool
		overwrite, skip     bool
	)
	cmd := &cobra.Command{
		Use:   "rollback RESOURCE KEY | PATH/ --to REVISION | TIME",
		Short: "Restore objects as they were",
		Long: `Restore an object, or with a path that ends in a slash the objects below it, as they were at a
revision or a time. The resource needs a history.

The command shows what it would change, asks the server which changes its validation rules
refuse, and asks for confirmation; without a terminal it requires --yes. All changes are one
transaction, and none is made if an object has changed meanwhile: the exit code is then 4.
Nothing is changed either if the rules refuse one, without --skip-validation. If they do not fit
into a transaction (128 objects, and 1.5 MiB in etcd, or 3.25 MiB in an embedded one, with their
records in the history), the command refuses them without --batches.

A time means the same revision for all objects of the resource. An object whose state at
that revision is not known is listed and left as it is, and the exit code is 8: another
program has written it, it expired, or neither its history nor etcd goes back so far. An
object that had a time to live is restored without one.`,
		Example: `  # Restore the value of an hour ago
  fanoutctl rollback config shop/limits --to 1h

  # Show what would restore everything below shop
  fanoutctl rollback config shop/ --to 4711 --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("rollback requires a key, or a path that ends in a slash; usage: %s", cmd.UseLine())
			}
			if to == "" {
				return usagef("rollback requires --to, a revision or a time; usage: %s", cmd.UseLine())
			}
			if !yes && !dryRun {
				if err := t.needTerminal("the changes"); err != nil {
					return err
				}
			}
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			r := t.client.Resource(args[0])
			revision, err := revisionOf(ctx, r, historyScope(args), args[1], to)
			if err != nil {
				return err
			}
			because := fmt.Sprintf("rollback to revision %d", revision)
			if message != "" {
				because += ": " + message
			}
			if n := len(because); n > maxMessageBytes {
				return usagef("the message has %d bytes with %q before it, the limit is %d", n, strings.TrimSuffix(because, message), maxMessageBytes)
			}
			changes, err := past.Changes(ctx, r, historyScope(args), revision)
			if err != nil {
				return tooManyKeys(err)
			}
			if key, ok := keyArgument(args); ok && len(changes) == 0 {
				if err := t.checkKnown(ctx, r, key); err != nil {
					return err
				}
			}
			known, unknown := t.splitKnown(changes)
			plan := changesBack(known)
			refusals := make([]error, len(known))
			if !skip {
				if refusals, err = t.refusals(ctx, args[0], plan, overwrite); err != nil {
					return err
				}
			}
			refused := t.showRollback(known, plan, refusals)
			if err := t.out.Flush(); err != nil {
				return err
			}
			writes := t.rollbackWrites(ctx, r, known, overwrite, skip)
			var obstacle error // a flag overcomes it
			if !splits {
				obstacle = tooMuch(writes)
			}
			if !overwrite && obstacle == nil {
				obstacle = foreignValues(known)
			}
			var refusal error
			if refused > 0 {
				refusal = exitError{exitUsage, fmt.Errorf("the server refuses %d of %s; with --skip-validation, the rollback is made nevertheless",
					refused, english.Plural(len(known), "change", ""))}
			}
			switch {
			case dryRun:
				if obstacle != nil {
					fmt.Fprintf(t.stderr, "fanoutctl: %v\n", obstacle)
				}
				fmt.Fprintf(t.stderr, "%s to revision %d. No changes were made.\n", english.Plural(len(known), "change leads back", "changes lead back"), revision)
				return cmp.Or(refusal, unknownStates(len(unknown)))
			case len(known) == 0:
				fmt.Fprintf(t.stderr, "Nothing to restore: no known object differs from revision %d.\n", revision)
				return unknownStates(len(unknown))
			case refusal != nil || obstacle != nil:
				return t.explainRollback(ctx, cmp.Or(refusal, obstacle))
			}
			if !yes {
				if ok, err := t.agrees(ctx, fmt.Sprintf("Make %s?", english.Plural(len(known), "change", ""))); err != nil {
					return err
				} else if !ok {
					return errors.New("nothing was changed")
				}
			}
			if err := t.writeAll(ctx, r.Because(because), writes, splits); err != nil {
				return t.explainRollback(ctx, err)
			}
			if err := t.out.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(t.stderr, "%s made.\n", english.Plural(len(known), "change", ""))
			return unknownStates(len(unknown))
		},
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.Flags().StringVar(&to, "to", "", "a `revision`, a time such as 2026-11-27T15:04:05Z, or how long ago, such as 24h")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the changes, and what the server refuses, without making them")
	cmd.Flags().BoolVar(&splits, "batches", false, "make more changes than fit into one transaction, in several")
	overwriteFlag(cmd, &overwrite)
	skipFlag(cmd, &skip)
	messageFlag(cmd, &message)
	return cmd
}

// explainRollback says how much was changed before an error.
func (t *tool) explainRollback(ctx context.Context, err error) error {
	code := exitCode(ctx, err)
	text := t.message(code, err)
	partly, ok := errors.AsType[partlyWritten](err)
	switch unsure := transfer.Uncertain(err) || code == exitTimeout || code == exitInterrupted; {
	case ok && unsure:
		text = fmt.Sprintf("%s; %d of %d changes were made, and perhaps more", text, partly.done, partly.of)
	case ok:
		text = fmt.Sprintf("%d of %d changes were made: %s", partly.done, partly.of, text)
	case unsure:
		text += "; it is not known whether anything was changed"
	default:
		text = "nothing was changed: " + text
	}
	return exitError{code, errors.New(text)}
}

// changesBack returns the changes as those of a plan.
func changesBack(changes []past.Change) []transfer.Change {
	plan := make([]transfer.Change, len(changes))
	for i, c := range changes {
		switch plan[i].Key = c.Key; {
		case c.Object == nil:
			plan[i].Action = transfer.Delete
			continue
		case c.Present == nil:
			plan[i].Action = transfer.Create
		default:
			plan[i].Action = transfer.Update
		}
		plan[i].New = new(document.Exact(c.Object))
	}
	return plan
}

// revisionOf returns the revision that a revision or a time of the command line means. Name is the key or path of the scope.
func revisionOf(ctx context.Context, r *client.Resource, of client.Scope, name, text string) (int64, error) {
	revision, moment, err := parseMoment(text)
	if err != nil {
		return 0, err
	}
	if revision > 0 {
		return revision, checkReached(ctx, r, of, revision)
	}
	if revision, err = r.RevisionAt(ctx, of, moment); err == nil && revision == 0 {
		var begins string
		if begins, err = historyBegins(ctx, r, of, name); err == nil {
			err = exitError{exitNotFound, fmt.Errorf("the history of %s does not go back to %s: %s", r.Name(), moment.UTC().Format(time.RFC3339), begins)}
		}
	}
	return revision, err
}

// historyBegins says where the history of a key or path begins.
func historyBegins(ctx context.Context, r *client.Resource, of client.Scope, name string) (string, error) {
	oldest, err := past.Begin(ctx, r, of)
	switch {
	case err != nil:
		return "", err
	case oldest == nil:
		return fmt.Sprintf("there is no write of %s", name), nil
	}
	return fmt.Sprintf("that of %s begins with %s", name, past.When(oldest)), nil
}

// checkReached returns an error if a revision does not exist yet: the state at it would be the present one, and another
// one after the next write.
func checkReached(ctx context.Context, r *client.Resource, of client.Scope, revision int64) error {
	for _, err := range r.History(ctx, of, client.HistoryUpTo(revision), client.HistoryPageSize(1)) {
		return err
	}
	return nil
}

// splitKnown returns the changes that are known and those that are not, and prints the latter.
func (t *tool) splitKnown(changes []past.Change) (known, unknown []past.Change) {
	for _, c := range changes {
		if c.Unknown == "" {
			known = append(known, c)
			continue
		}
		unknown = append(unknown, c)
		fmt.Fprintf(output.Visible(t.stderr), "fanoutctl: %s stays as it is: %s\n", c.Key, c.Unknown)
	}
	return known, unknown
}

// showRollback prints the changes, and on standard error what to know about them. It returns how many the rules refuse.
func (t *tool) showRollback(changes []past.Change, plan []transfer.Change, refusals []error) (refused int) {
	out, w := output.Visible(t.out), output.Visible(t.stderr)
	for i, c := range changes {
		if refusals[i] == nil {
			fmt.Fprintln(out, plan[i].Action, c.Key)
		}
		if c.EndsTTL() {
			fmt.Fprintf(w, "fanoutctl: %s then has no time to live any more\n", c.Key)
		}
		if overwrites(c) {
			fmt.Fprintf(w, "fanoutctl: the server cannot decode the present value of %s, which may belong to another program\n", c.Key)
		}
	}
	return printRefusals(t.stderr, plan, refusals)
}

// overwrites reports whether a change replaces a value that the server cannot decode. A deletion needs no consent.
func overwrites(c past.Change) bool { return c.Object != nil && c.Present != nil && c.Present.Opaque }

// foreignValues returns the error for changes that replace values that the server cannot decode.
func foreignValues(changes []past.Change) error {
	n := 0
	for _, c := range changes {
		if overwrites(c) {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return exitError{exitConflict, fmt.Errorf("the server cannot decode the present %s of %s; use --overwrite-opaque to replace %s",
		english.PluralWord(n, "value", ""), english.Plural(n, "object", ""), english.PluralWord(n, "it", "them"))}
}

// unknownStates returns the error for so many objects whose former state is not known.
func unknownStates(objects int) error {
	if objects == 0 {
		return nil
	}
	return exitError{exitPartial, fmt.Errorf("the former state of %s is not known", english.Plural(objects, "object", ""))}
}

// rollbackWrites returns the writes that make the changes. Each requires the present revision of its object.
func (t *tool) rollbackWrites(ctx context.Context, r *client.Resource, changes []past.Change, overwrite, skip bool) []transfer.Write {
	derived := t.derivesLabels(ctx, r.Name())
	writes := make([]transfer.Write, len(changes))
	for i, c := range changes {
		var present int64
		if c.Present != nil {
			present = c.Present.ModRevision
		}
		writes[i].Bytes = writtenBytes(c)
		if c.Object == nil {
			opts := []client.DeleteOption{client.IfRevision(present)}
			if skip {
				opts = append(opts, client.SkipValidation())
			}
			writes[i].Op = client.OpDelete(c.Key, opts...)
			continue
		}
		v := c.Object.AsValue()
		if len(v.Labels) > 0 && derived() {
			v = v.WithLabels(nil)
		}
		opts := []client.WriteOption{client.IfRevision(present)}
		if overwrite {
			opts = append(opts, client.OverwriteOpaque())
		}
		if skip {
			opts = append(opts, client.SkipValidation())
		}
		writes[i].Op = client.OpPut(c.Key, v, opts...)
	}
	return writes
}

// writtenBytes returns about how many bytes a change writes in etcd: the object, and its record in the history.
func writtenBytes(c past.Change) int {
	n := 4*len(c.Key) + 512
	if c.Object == nil {
		return n
	}
	for name, value := range c.Object.Labels {
		n += 2 * (len(name) + len(value))
	}
	return n + 2*len(c.Object.Value)
}
