package follow

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/shell"
)

// Executor runs a command for each change, one at a time and in order.
type Executor struct {
	Resource string
	Command  *shell.Command
	Policy   Policy
	Report   func(error) // reports failures that do not end the watch
	// Failures are the objects whose last command has failed. A command that is tried again counts, too: it may
	// fail for ever, and those who wait for it should know.
	Failures client.Failures
}

// Run runs the command for the changes of an update.
func (e *Executor) Run(ctx context.Context, u *client.Update) error {
	for i, change := range u.Events {
		failed := false
		report := func(err error) {
			failed = true
			e.Report(err)
			e.fail(u, i, err)
		}
		err := e.Policy.attempt(ctx, report, func() error {
			err := e.run(ctx, change)
			failed = err != nil
			return err
		})
		if err != nil {
			return err
		}
		if !failed {
			e.Failures.Remove(change.Object.Key)
		}
	}
	return nil
}

// fail notes that the command has failed for a change of an update. What the same transaction has changed after it has
// to wait, and counts as failed, too.
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
	for _, event := range waiting {
		e.Failures.Add(event, err, tried)
	}
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
