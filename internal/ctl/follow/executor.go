package follow

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Executor runs a command for each change, one at a time and in order. It does not read the watch meanwhile, so the
// server does not send faster than the commands run.
//
// With the policy [Retry], a command that has failed runs again later, and other objects do not wait for it. A newer
// change of the same object replaces it: its command runs at once. So the commands of one object stay in order, and
// the last one that succeeds gets the latest object.
type Executor struct {
	Resource string
	Command  Command
	Policy   Policy
	Report   func(error) // reports failures that do not end the watch
	// Count ends Run after that many changes (0: no limit), when no command has to run again. Count cannot be
	// combined with Save, because it may end in the middle of an update.
	Count int
	// Save is called with each position up to which all commands have succeeded, or were left failed by the policy
	// [Continue]; may be nil.
	Save SavePosition
	// Failures are the objects whose last command has failed. A command that is tried again counts, too: it may
	// fail for ever, and those who wait for it should know.
	Failures client.Failures

	objects client.Copy
	retries retryQueue
	begun   int             // the changes whose commands have run at least once
	at      client.Position // of the last update whose commands have run
	saved   client.Position
	ran     bool // commands have run since the last call of Save
}

// Command is a command with standard input and variables, such as that of package shell.
type Command interface {
	Run(ctx context.Context, stdin io.Reader, variables ...string) error
}

// Run runs commands until the watch ends. It returns nil when Count is reached, and otherwise the error that ended the
// watch.
func (e *Executor) Run(ctx context.Context, updates Updates) error {
	e.Failures.Defer()
	watch := read(ctx, updates)
	defer watch.stop()
	for !e.done() {
		due, stop := e.retries.timer()
		var err error
		select {
		case u, ok := <-watch.received:
			switch {
			case !ok:
				err = context.Cause(ctx)
			case u.err != nil:
				err = u.err
			default:
				err = e.handle(ctx, u.Update)
			}
		case <-due:
			err = e.retry(ctx)
		}
		stop()
		if err == nil {
			err = e.save()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// done reports whether Count is reached.
func (e *Executor) done() bool { return e.counted() && len(e.retries.byKey) == 0 }

// counted reports whether the commands for Count changes have run. Then only those that have failed run again, or for
// newer changes of their objects.
func (e *Executor) counted() bool { return e.Count > 0 && e.begun >= e.Count }

// handle runs the commands for an update. Between them, it runs those that are due again.
func (e *Executor) handle(ctx context.Context, update *client.Update) error {
	u := *update
	u.Events = e.objects.Apply(update)
	for i, change := range u.Events {
		if _, failed := e.retries.byKey[change.Object.Key]; !failed && e.counted() {
			continue
		}
		e.begun++
		if err := e.apply(ctx, &u, i); err != nil {
			return err
		}
		if err := e.retry(ctx); err != nil {
			return err
		}
	}
	if u.Position.Revision > 0 {
		e.at = u.Position
	}
	if u.Phase.Complete() && !e.counted() {
		e.Failures.Applied(u.Position)
	}
	return nil
}

// apply runs the command for a change of an update. It returns an error if the watch ends.
func (e *Executor) apply(ctx context.Context, u *client.Update, i int) error {
	change := e.retries.compared(u.Events[i])
	err := e.run(ctx, change)
	switch {
	case err == nil:
		e.succeeded(change)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case e.Policy == Stop:
		e.Failures.Add(err, u.Position, u.Events[i:]...) // the watch ends, so the rest will not be applied either
		announce(ctx, &e.Failures)
		return err
	default:
		e.Report(err)
		e.fail(u, i, err)
		if e.Policy == Retry {
			e.retries.add(change, e.at)
		}
	}
	return nil
}

// retry runs the command again that is due first, if there is one. It returns an error if the watch ends.
func (e *Executor) retry(ctx context.Context) error {
	r := e.retries.first()
	if r == nil || time.Now().Before(r.due) {
		return nil
	}
	err := e.run(ctx, r.change)
	switch {
	case err == nil:
		e.succeeded(r.change)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		e.Report(err)
		e.Failures.Add(err, client.Position{}, r.change)
		r.later()
	}
	return nil
}

func (e *Executor) succeeded(change client.Event) {
	delete(e.retries.byKey, change.Object.Key)
	e.Failures.Remove(change.Object.Key)
}

// save saves the position from which the next process may go on. It stays before the oldest change whose command has to
// run again.
func (e *Executor) save() error {
	p := e.at
	if r := e.retries.oldest(); r != nil {
		p = r.before
	}
	if e.Save == nil || p.Revision == 0 || p == e.saved {
		return nil
	}
	now := e.ran
	e.saved, e.ran = p, false
	return e.Save(p, now)
}

// fail notes that the command has failed for a change of an update. What the same transaction has changed after it is
// not applied either, and counts as failed until its commands have run, so that gates need not wait for them.
func (e *Executor) fail(u *client.Update, i int, err error) {
	change, tried := u.Events[i], u.Position
	waiting := []client.Event{change}
	for _, later := range u.Events[i+1:] {
		switch {
		case later.Revision == change.Revision:
			waiting = append(waiting, later)
		case later.Revision > change.Revision:
			tried.Revision = min(tried.Revision, later.Revision-1)
		default: // a new state is in order of its keys
			tried = client.Position{}
		}
	}
	e.Failures.Add(err, tried, waiting...)
}

// run runs the command for a change. Its standard input is the object as one line of JSON;
// for a deletion, the last content. The variables are:
//
//	FANOUT_EVENT         added, modified or deleted
//	FANOUT_RESOURCE      the name of the resource
//	FANOUT_KEY           the key of the object
//	FANOUT_REVISION      the revision of the change
//	FANOUT_CONTENT_TYPE  the media type of the value
func (e *Executor) run(ctx context.Context, change client.Event) error {
	e.ran = true
	o := change.Object
	text, err := document.EncodeJSON(document.Of(o), false)
	if err == nil {
		err = e.Command.Run(ctx, bytes.NewReader(text),
			"FANOUT_EVENT="+strings.ToLower(change.Type.String()),
			"FANOUT_RESOURCE="+e.Resource,
			"FANOUT_KEY="+o.Key,
			"FANOUT_REVISION="+strconv.FormatInt(change.Revision, 10),
			"FANOUT_CONTENT_TYPE="+o.ContentType)
	}
	if err != nil {
		return fmt.Errorf("%q %s: %w", o.Key, change.Type, err)
	}
	return nil
}
