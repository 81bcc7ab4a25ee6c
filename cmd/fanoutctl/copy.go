package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

// copyFlags are the flags of the copy command.
type copyFlags struct {
	context, resource   string // of the target
	message             string
	yes, dryRun, splits bool
	what                transfer.Copy
}

func copyCommand(t *tool) *cobra.Command {
	var c copyFlags
	cmd := &cobra.Command{
		Use:   "copy RESOURCE KEY | PATH/ --to-context NAME",
		Short: "Copy objects to another environment",
		Long: `Copy an object, or with a path that ends in a slash the objects below it, to the server of
another context. "/" is the whole resource. The target has the same resource and keys;
--to-resource names another resource there, or without --to-context on the same server.

The command compares both sides, shows the differences, asks the target which of them its
validation rules refuse, and asks for confirmation; without a terminal it requires --yes. All
changes are one transaction, and none is made if an object of the target has changed
meanwhile: the exit code is then 4. If they do not fit into a transaction, the command refuses
them without --batches. The message of the write names the source and its revision.

Labels and content types are copied, too. Objects that exist only at the target are kept,
unless --delete is set. Objects with a time to live are not copied, and not deleted at the
target. Those that the server of the source cannot decode are not copied either, and the exit
code is then 8.

The connection flags and variables are for the source. The target has only the settings of its
context, so a token must be in a file.`,
		Example: `  # Show what would change in production
  fanoutctl copy config shop/ --to-context prod --dry-run

  # Copy a tested value
  fanoutctl copy config shop/limits --to-context prod --message 'tested for a week'

  # Make everything below shop the same
  fanoutctl copy config shop/ --to-context prod --delete`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("copy requires a resource, and a key or a path that ends in a slash; usage: %s", cmd.UseLine())
			}
			if c.context == "" && c.resource == "" {
				return usagef("copy requires --to-context, --to-resource or both; usage: %s", cmd.UseLine())
			}
			if path, ok := strings.CutSuffix(args[1], "/"); ok {
				c.what.Prefix = strings.Trim(path, "/")
			} else if c.what.Key = keyOf(args[1]); c.what.Delete {
				return usagef("--delete requires a path that ends in a slash")
			}
			if !c.yes && !c.dryRun {
				if err := t.needTerminal("the changes"); err != nil {
					return err
				}
			}
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			return t.copy(ctx, args[0], args[1], &c)
		},
	}
	cmd.Args = cobra.ArbitraryArgs
	f := cmd.Flags()
	f.StringVar(&c.context, "to-context", "", "`name` of the context to copy to")
	f.StringVar(&c.resource, "to-resource", "", "`name` of the resource to copy to (default: the same)")
	f.BoolVar(&c.what.Delete, "delete", false, "delete the objects below the path that exist only at the target")
	f.BoolVarP(&c.yes, "yes", "y", false, "do not ask for confirmation")
	f.BoolVar(&c.dryRun, "dry-run", false, "show the changes, and what the target refuses, without making them")
	f.BoolVar(&c.splits, "batches", false, "make more changes than fit into one transaction, in several")
	overwriteFlag(cmd, &c.what.OverwriteOpaque)
	messageFlag(cmd, &c.message)
	_ = cmd.RegisterFlagCompletionFunc("to-context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return t.completeContexts()
	})
	return cmd
}

// copy copies the objects of a scope, which the argument path names, between two servers or resources.
func (t *tool) copy(ctx context.Context, resource, path string, c *copyFlags) error {
	to, server, name := t.client, t.settings.Server, ""
	if c.context != "" {
		other, settings, err := t.connectTo(c.context)
		if err != nil {
			return err
		}
		defer other.Close()
		to, server, name = other, settings.Server, c.context
	}
	c.resource = cmp.Or(c.resource, resource)
	c.what.From, c.what.To = t.client.Resource(resource), to.Resource(c.resource)
	c.what.DerivedLabels = derivesLabels(ctx, server, to, c.resource)
	source := placeOf(t.inContext, t.settings.Server)
	c.what.SourceName = cmp.Or(t.inContext, t.settings.Server) + " " + resource
	c.what.TargetName = cmp.Or(name, server) + " " + c.resource

	plan, err := c.what.NewPlan(ctx)
	switch {
	case errors.Is(err, transfer.ErrNothingToCopy):
		return t.nothingToCopy(ctx, c, path)
	case errors.As(err, new(transfer.TargetError)):
		return serverError{server, err}
	case err != nil:
		return err
	}
	message := copyMessage(source, resource, path, plan.Revision, c.message)
	if len(message) > maxMessageBytes {
		return usagef("the message has %d bytes with the source before it, the limit is %d", len(message), maxMessageBytes)
	}
	if err := t.showCopy(plan, placeOf(name, server)); err != nil {
		return err
	}
	if len(plan.Changes) == 0 {
		return incompleteCopy(plan)
	}
	if err := t.validateCopy(ctx, c, plan, server); err != nil {
		return err
	}
	writes := c.what.Writes(plan)
	var refusal error
	if !c.splits {
		refusal = tooMuch(writes)
	}
	switch {
	case c.dryRun && refusal != nil:
		fmt.Fprintf(t.stderr, "fanoutctl: %v\n", refusal)
		fallthrough
	case c.dryRun:
		fmt.Fprintln(t.stderr, "No changes were made.")
		return incompleteCopy(plan)
	case refusal != nil:
		return refusal
	}
	if !c.yes {
		if ok, err := t.agrees(ctx, fmt.Sprintf("Make %s to %s of %s?", english.Plural(len(writes), "change", ""), c.resource, placeOf(name, server))); err != nil {
			return err
		} else if !ok {
			return errors.New("nothing was copied")
		}
	}
	if err := t.writeAll(ctx, c.what.To.Because(message), writes, c.splits); err != nil {
		return t.explainCopy(err, server)
	}
	return incompleteCopy(plan)
}

// placeOf names a server in a message: the context, if there is one, and the address.
func placeOf(context, server string) string {
	if context == "" {
		return server
	}
	return fmt.Sprintf("%s (%s)", context, server)
}

// maxSourceBytes is the longest source in a message. A key may be as long as a message.
const maxSourceBytes = 512

// copyMessage returns the message of the write: the source, then what the user says.
func copyMessage(source, resource, path string, revision int64, message string) string {
	where := fmt.Sprintf("%s, %s %s", source, resource, path)
	if len(where) > maxSourceBytes {
		end := maxSourceBytes - len("…")
		for !utf8.RuneStart(where[end]) {
			end--
		}
		where = where[:end] + "…"
	}
	where = fmt.Sprintf("copy of %s at revision %d", where, revision)
	if message == "" {
		return where
	}
	return where + ": " + message
}

// nothingToCopy returns the error for a source without objects.
func (t *tool) nothingToCopy(ctx context.Context, c *copyFlags, path string) error {
	r := c.what.From
	switch {
	case c.what.Key != "" && isPath(ctx, r, c.what.Key):
		return exitError{exitNotFound, fmt.Errorf("there is no object %q, but there are objects below it: to copy them, end the path with a slash", c.what.Key)}
	case c.what.Key == "" && c.what.Prefix != "" && isKey(ctx, r, c.what.Prefix):
		return exitError{exitNotFound, fmt.Errorf("there are no objects below %s, but %q is an object: to copy it, leave out the slash", c.what.Prefix, c.what.Prefix)}
	}
	return fmt.Errorf("objects to copy %w: the source has none for %s %s", errNotFound, r.Name(), path)
}

// showCopy prints the differences, and on standard error a summary and what is not copied.
func (t *tool) showCopy(plan *transfer.CopyPlan, target string) error {
	if err := t.showDiff(&plan.Plan); err != nil && err != errDifferent {
		return err
	}
	if err := t.out.Flush(); err != nil {
		return err
	}
	w := output.Visible(t.stderr)
	for _, c := range plan.Changes {
		if c.Action == transfer.Update && c.Old.HasTTL {
			fmt.Fprintf(w, "fanoutctl: %s has a time to live at the target, and will have none\n", c.Key)
		}
	}
	for _, s := range plan.Skipped {
		fmt.Fprintf(w, "fanoutctl: %s is not copied: %s\n", s.Key, s.Why)
	}
	fmt.Fprintf(w, "%s: %d to create, %d to update, %d to delete, %d unchanged", target,
		plan.Count(transfer.Create), plan.Count(transfer.Update), plan.Count(transfer.Delete), plan.Unchanged)
	if plan.Kept > 0 {
		fmt.Fprintf(w, ", %d only there and kept", plan.Kept)
	}
	_, err := fmt.Fprintln(w, ".")
	return err
}

// validateCopy asks the target which changes its rules refuse, and prints all faults.
func (t *tool) validateCopy(ctx context.Context, c *copyFlags, plan *transfer.CopyPlan, server string) error {
	refusals, err := c.what.Validate(ctx, plan)
	if err != nil {
		return t.explainCopy(err, server)
	}
	if n := printRefusals(t.stderr, plan.Changes, refusals); n > 0 {
		return exitError{exitUsage, fmt.Errorf("the target refuses %d of %s; nothing was copied", n, english.Plural(len(plan.Changes), "change", ""))}
	}
	return nil
}

// explainCopy returns the error of a write to the target.
func (t *tool) explainCopy(err error, server string) error {
	e, ok := errors.AsType[*client.Error](err)
	if ok && e.Reason == client.ErrPreconditionFailed {
		before := ""
		if partly, ok := errors.AsType[partlyWritten](err); ok {
			before = fmt.Sprintf("%d of %d changes were made: ", partly.done, partly.of)
		}
		return exitError{exitConflict, fmt.Errorf("%s%q has changed at the target since the comparison (it is at revision %s), and the transaction was refused: run the command again to see the present differences",
			before, e.Metadata["key"], e.Metadata["mod_revision"])}
	}
	return serverError{server, err}
}

// incompleteCopy returns the error for objects that could not be copied.
func incompleteCopy(plan *transfer.CopyPlan) error {
	lost := 0
	for _, s := range plan.Skipped {
		if s.Loses {
			lost++
		}
	}
	if lost == 0 {
		return nil
	}
	return exitError{exitPartial, fmt.Errorf("%s cannot be copied", english.Plural(lost, "object", ""))}
}
