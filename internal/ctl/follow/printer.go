package follow

import (
	"context"

	"github.com/fanoutd/fanoutd/client"
)

// Printer prints updates.
type Printer struct {
	// Show prints an update.
	Show func(*client.Update) error
	// Differences prints only real differences after a RESET or a DELTA. Set it for formats
	// that do not mark them. It keeps all objects in memory.
	Differences bool
	// Goal ends Run when it is reached, and Count after that many changes (0: no limit).
	// Count cannot be combined with Save, because it may end in the middle of an update.
	Goal  Goal
	Count int
	// Save is called after each update; may be nil.
	Save SavePosition
}

// Run prints updates. It returns nil when Goal or Count is reached, and otherwise the error
// that ended the watch.
func (p *Printer) Run(ctx context.Context, updates Updates) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shown := 0
	var objects client.Copy
	for u, err := range updates(ctx) {
		if err != nil {
			return err
		}
		show := *u
		if p.Differences || p.Goal != NoGoal {
			// The initial objects are printed as they arrive.
			complete := objects.Synced()
			if changes := objects.Apply(u); complete && p.Differences {
				show.Events = changes
			}
		}
		if p.Count > 0 && shown+len(show.Events) > p.Count {
			show.Events = show.Events[:p.Count-shown]
			if show.Phase == client.PhaseSynced {
				show.Phase = client.PhaseLive // the end of the catch-up is not shown
			}
		}
		shown += len(show.Events)
		if err := p.Show(&show); err != nil {
			return err
		}
		if err := savePosition(p.Save, u, false); err != nil {
			return err
		}
		if p.Count > 0 && shown >= p.Count || p.Goal.reached(u, &objects) {
			return nil
		}
	}
	return context.Cause(ctx)
}
