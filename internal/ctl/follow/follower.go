package follow

import (
	"context"

	"github.com/fanoutd/fanoutd/client"
)

// Follower handles updates one after the other. It does not read the watch meanwhile, so the server does not send
// faster than they are handled.
type Follower struct {
	// Handle handles an update, for example prints it.
	Handle func(*client.Update) error
	// Differences passes on only real differences after a RESET or a DELTA. Set it for formats
	// that do not mark them. It keeps all objects in memory.
	Differences bool
	// Goal ends Run when it is reached, and Count after that many changes (0: no limit).
	// Count cannot be combined with Save, because it may end in the middle of an update.
	Goal  Goal
	Count int
	// Save is called after each update; may be nil.
	Save SavePosition
}

// Run handles updates. It returns nil when Goal or Count is reached, and otherwise the error
// that ended the watch.
func (f *Follower) Run(ctx context.Context, updates Updates) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := 0
	var objects client.Copy
	for u, err := range updates(ctx) {
		if err != nil {
			return err
		}
		handled := *u
		if f.Differences || f.Goal != NoGoal {
			// The initial objects are printed as they arrive.
			complete := objects.Synced()
			if changes := objects.Apply(u); f.Differences && complete {
				handled.Events = changes
			}
		}
		if f.Count > 0 && n+len(handled.Events) > f.Count {
			handled.Events = handled.Events[:f.Count-n]
			if handled.Phase == client.PhaseSynced {
				handled.Phase = client.PhaseLive // the end of the catch-up is not shown
			}
		}
		n += len(handled.Events)
		if err := f.Handle(&handled); err != nil {
			return err
		}
		if f.Save != nil && u.Position.Revision > 0 {
			if err := f.Save(u.Position, false); err != nil {
				return err
			}
		}
		if f.Count > 0 && n >= f.Count || f.Goal.reached(u, &objects) {
			return nil
		}
	}
	return context.Cause(ctx)
}
