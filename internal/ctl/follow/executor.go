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
}

// Run runs the command for the changes of an update.
func (e *Executor) Run(ctx context.Context, u *client.Update) error {
	for _, change := range u.Events {
		if err := e.Policy.attempt(ctx, e.Report, func() error { return e.run(ctx, change) }); err != nil {
			return err
		}
	}
	return nil
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
