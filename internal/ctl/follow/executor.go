package follow

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/client"
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
		err := e.Policy.attempt(ctx, e.Report, func() error {
			if err := runFor(ctx, e.Command, e.Resource, change); err != nil {
				return fmt.Errorf("%q %s: %w", change.Object.Key, change.Type, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
