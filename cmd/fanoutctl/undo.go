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

// gatedFlags are the flags of put and import that wait for the watches, and take the write back if they refuse it.
type gatedFlags struct {
	gateFlags
	wait     bool
	rollback bool
}

func (g *gatedFlags) bind(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&g.wait, "wait", false, "wait until the watches that overlap "+what+" have applied the write")
	cmd.Flags().BoolVar(&g.rollback, "rollback", false, "with --wait: if they do not, restore what was there before")
	g.gateFlags.bind(cmd)
}

// check validates the flags.
func (g *gatedFlags) check(cmd *cobra.Command, message string) error {
	for _, name := range append([]string{"rollback"}, gateFlagNames...) {
		if cmd.Flags().Changed(name) && !g.wait {
			return usagef("--%s requires --wait", name)
		}
	}
	if n := len(rollbackMessage(1<<63-1, message)); g.rollback && n > maxMessageBytes {
		return usagef("the message is too long for the one of a rollback: it has %d bytes, the limit is %d", len(message), maxMessageBytes-(n-len(message)))
	}
	return g.gateFlags.check()
}

// rollbackMessage returns the message of the write that takes back those of a revision.
func rollbackMessage(revision int64, message string) string {
	text := fmt.Sprintf("rollback of revision %d", revision)
	if message != "" {
		text += ": " + message
	}
	return text
}

// rollbackRetry is how long a rollback retries while the server is unavailable.
const rollbackRetry = time.Minute

// newUndo returns what takes writes back. The message is that of the writes.
func (t *tool) newUndo(ctx context.Context, r *client.Resource, message string) *transfer.Undo {
	return &transfer.Undo{
		Resource: r, Retry: rollbackRetry, DerivedLabels: t.derivesLabels(ctx, r.Name()),
		Message: func(revision int64) string { return rollbackMessage(revision, message) },
	}
}

// prepareUndo reads the objects that an import replaces, as they are stored, so that they can be restored.
func (t *tool) prepareUndo(ctx context.Context, r *client.Resource, plan *transfer.Plan) error {
	if err := transfer.ReadOld(ctx, r, plan.Changes); err != nil {
		return err
	}
	return t.checkRestorable(plan.Changes, false)
}

// checkRestorable returns an error if an old object of changes could not be restored, and warns of those that would not be
// quite the same. A write that keeps the times to live keeps them in a rollback, too.
func (t *tool) checkRestorable(changes []transfer.Change, keepsTTL bool) error {
	for _, c := range changes {
		if c.Old != nil && (c.Old.Opaque || c.Old.Value == nil) {
			return exitError{exitConflict, fmt.Errorf("nothing was written: the server cannot decode or decrypt the present value of %q, so --rollback could not restore it", c.Key)}
		}
	}
	w := output.Visible(t.stderr)
	for _, c := range changes {
		if c.Old != nil && c.Old.HasTTL && !keepsTTL {
			fmt.Fprintf(w, "fanoutctl: %s has a time to live; a rollback restores it without one\n", c.Key)
		}
	}
	return nil
}

// contendedPuts is how often putOver tries again because other clients write the object at the same time.
const contendedPuts = 16

// putOver writes an object and notes the write, with the object that it replaces. Other writers make it start over, unless the
// command line has a precondition.
func (t *tool) putOver(ctx context.Context, u *transfer.Undo, key string, own *preconditions, write func(...client.WriteOption) (int64, error)) (int64, error) {
	for attempt := 0; ; attempt++ {
		c := transfer.Change{Action: transfer.Create, Key: key}
		old, err := u.Resource.Get(ctx, key)
		var found int64
		switch {
		case err == nil:
			c.Action, c.Old, found = transfer.Update, old, old.ModRevision
		case !isNotFound(err):
			return 0, err
		}
		if own.given() && own.revision != found {
			return 0, exitError{exitConflict, errors.New(conflictOf(key, own.revision, found))}
		}
		if err := t.checkRestorable([]transfer.Change{c}, u.KeepTTL); err != nil {
			return 0, err
		}
		revision, err := write(client.IfRevision(found))
		switch {
		case err == nil:
			u.Note(revision, c)
			return revision, nil
		case transfer.Uncertain(err) && !errors.Is(err, client.ErrWriteNotApplied):
			code := exitCode(ctx, err)
			return 0, exitError{code, fmt.Errorf("%s; the write may or may not have been applied, and was not rolled back", t.explain(code, err))}
		case own.given() || !errors.Is(err, client.ErrPreconditionFailed) || attempt == contendedPuts:
			return 0, err
		}
	}
}

// settle takes writes back if they or the wait for the watches have failed, and returns the error of the command. After a signal,
// it takes nothing back: the user may want to look first. Only a signal ends ctx, because --timeout does not limit a rollback.
func (t *tool) settle(ctx context.Context, err error, u *transfer.Undo) error {
	if err == nil || u.Empty() {
		return err
	}
	code := exitCode(ctx, err)
	text := t.explain(code, err)
	if code == exitInterrupted {
		return exitError{code, fmt.Errorf("%s; what was written stays, and was not rolled back", text)}
	}
	fmt.Fprintf(t.stderr, "fanoutctl: %s\n", text)
	done := u.TakeBack(ctx)
	t.showUndone(ctx, u.Resource.Name(), done)
	restored, newest := 0, int64(0)
	for _, d := range done {
		if d.Outcome == transfer.Restored {
			restored, newest = restored+1, max(newest, d.Revision)
		}
	}
	hint := ""
	if newest > 0 {
		hint = fmt.Sprintf(`; "fanoutctl wait %s --revision %d" waits until the watches have that`, u.Resource.Name(), newest)
	}
	if restored < len(done) {
		return exitError{exitNotRestored, fmt.Errorf("only %d of %s rolled back%s", restored, english.Plural(len(done), "change", ""), hint)}
	}
	return exitError{exitRolledBack, fmt.Errorf("%s rolled back%s", english.Plural(len(done), "change", ""), hint)}
}

// showUndone prints the outcome of each change.
func (t *tool) showUndone(ctx context.Context, resource string, done []transfer.Undone) {
	w := output.Visible(t.stderr)
	for _, d := range done {
		switch {
		case d.Outcome == transfer.Restored && d.Revision == 0: // deleted by an attempt whose answer was lost
			fmt.Fprintf(w, "deleted %s again\n", d.Key)
		case d.Outcome == transfer.Restored && d.Old == nil:
			fmt.Fprintf(w, "deleted %s again, at revision %d\n", d.Key, d.Revision)
		case d.Outcome == transfer.Restored:
			fmt.Fprintf(w, "restored %s, at revision %d\n", d.Key, d.Revision)
		case d.Outcome == transfer.Superseded && d.Revision == 0:
			fmt.Fprintf(w, "left %s: it has been deleted since\n", d.Key)
		case d.Outcome == transfer.Superseded:
			fmt.Fprintf(w, "left %s: it has been written since, at revision %d\n", d.Key, d.Revision)
		case d.Outcome == transfer.Unknown && d.Err == nil:
			fmt.Fprintf(w, "left %s: it is not known whether it was written\n", d.Key)
		case d.Outcome == transfer.Unknown:
			fmt.Fprintf(w, "it is not known whether %s was restored: %s\n", d.Key, t.explain(exitCode(ctx, d.Err), d.Err))
		default:
			fmt.Fprintf(w, "not restored: %s: %s%s\n", d.Key, t.explain(exitCode(ctx, d.Err), d.Err), skipHint(resource, &d))
		}
	}
}

// skipHint is the command that restores an object nevertheless if the rules refuse its former state. It needs a history.
func skipHint(resource string, d *transfer.Undone) string {
	switch {
	case !errors.Is(d.Err, client.ErrValueRefused):
		return ""
	case d.Old == nil:
		return fmt.Sprintf("; to delete it nevertheless, run \"fanoutctl delete %s %s --skip-validation\"", resource, d.Key)
	}
	return fmt.Sprintf("; if the resource has a history, run \"fanoutctl rollback %s %s --to %d --skip-validation\"", resource, d.Key, d.Old.ModRevision)
}

// gateOf returns the watches to wait for after an import: those of the changed objects, or if nothing has changed, those of all
// documents.
func gateOf(plan *transfer.Plan) *selection {
	keys := plan.Keys
	if len(plan.Changes) > 0 {
		keys = nil
		for _, c := range plan.Changes {
			keys = append(keys, c.Key)
		}
	}
	if len(keys) == 1 {
		return &selection{key: keys[0]}
	}
	return &selection{prefix: transfer.CommonPath(keys)}
}
