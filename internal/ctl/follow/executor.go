package follow

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/shell"
)

// Executor runs a command for each change, one at a time and in order. It does not read the
// watch while a command runs, so the server does not send faster than the commands run. If
// the watch starts over, the command runs only for real differences.
type Executor struct {
	Resource string
	Command  *shell.Command
	Policy   Policy
	Report   func(error) // reports failures that do not end Run
	// Count ends Run after that many changes; 0 is no limit. It cannot be combined with
	// Save, because it may end in the middle of an update.
	Count int
	// Save is called after the commands of an update have run; may be nil.
	Save SavePosition
}

// Run runs commands until the watch ends.
func (e *Executor) Run(ctx context.Context, updates Updates) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var objects client.Copy
	n, ran := 0, false // ran: commands have run since the last position
	for u, err := range updates(ctx) {
		if err != nil {
			return err
		}
		changes := objects.Apply(u)
		for _, change := range changes {
			err := e.Policy.attempt(ctx, e.Report, func() error {
				if err := runFor(ctx, e.Command, e.Resource, change); err != nil {
					return fmt.Errorf("%q %s: %w", change.Object.Key, change.Type, err)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if n++; n == e.Count {
				return nil
			}
		}
		ran = ran || len(changes) > 0
		if err := savePosition(e.Save, u, ran); err != nil {
			return err
		}
		ran = ran && u.Position.Revision == 0
	}
	return context.Cause(ctx)
}
