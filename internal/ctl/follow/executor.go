package follow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Policy is what happens when a command fails.
type Policy string

// The policies.
const (
	Stop     Policy = "stop"     // the watch ends with the error
	Continue Policy = "continue" // the error is reported, and the next change is next
	Retry    Policy = "retry"    // the command runs again, later each time, until it succeeds
)

// How long a retry waits.
const (
	firstWait   = time.Second
	longestWait = 30 * time.Second
)

// attempt runs something by a policy.
func (p Policy) attempt(ctx context.Context, report func(error), run func() error) error {
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := run()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case p == Stop:
			return err
		}
		report(err)
		if p == Continue {
			return nil
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// Executor runs a command for each change, one at a time and in order. While one
// runs nothing is read, so the server does not send faster than the commands run.
// Where a watch has to begin anew, only what is different is told.
type Executor struct {
	Resource string
	Command  *Command
	Policy   Policy
	Report   func(error) // of failures that do not end it
	// Count ends it after so many changes; 0 is no limit. It does not go with
	// Position: there is none in the middle of an update.
	Count int
	// Position is told where to resume once the commands of an update have run.
	Position Keep
}

// Run runs commands until the watch ends.
func (e *Executor) Run(ctx context.Context, updates Updates) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var v mirror
	n, ran := 0, false // ran: commands since the last position
	for u, err := range updates(ctx) {
		if err != nil {
			return err
		}
		changes := v.Apply(u)
		for _, change := range changes {
			err := e.Policy.attempt(ctx, e.Report, func() error {
				if err := e.Command.Event(ctx, e.Resource, change); err != nil {
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
		if err := save(e.Position, u, ran); err != nil {
			return err
		}
		ran = ran && u.Position.Revision == 0
	}
	return context.Cause(ctx)
}
