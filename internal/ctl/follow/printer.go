package follow

import (
	"context"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// Goal is the state that a watch waits for.
type Goal string

// The goals.
const (
	NoGoal Goal = ""       // watch until stopped
	Exists Goal = "exists" // a matching object exists
	Absent Goal = "absent" // no matching object exists
)

// Printer prints updates.
type Printer struct {
	// Events prints the updates; nil prints nothing.
	Events *output.Events
	// Differences prints only real differences after a RESET or a DELTA. Set it for formats
	// that do not mark them. It keeps all objects in memory.
	Differences bool
	// Flush is called after each update.
	Flush func() error
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
	present := map[string]bool{}
	synced, shown := false, 0
	var objects client.Copy
	for u, err := range updates(ctx) {
		if err != nil {
			return err
		}
		show := *u
		if p.Differences {
			// The initial objects are printed as they arrive.
			complete := objects.Synced()
			if changes := objects.Apply(u); complete {
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
		if p.Events != nil {
			if err := p.Events.Show(&show); err != nil {
				return err
			}
			if err := p.Flush(); err != nil {
				return err
			}
		}
		if err := savePosition(p.Save, u, false); err != nil {
			return err
		}
		if p.Goal != NoGoal {
			updateKeys(present, u)
			synced = synced || u.Phase == client.PhaseSynced
		}
		switch {
		case p.Count > 0 && shown >= p.Count,
			p.Goal == Exists && len(present) > 0,
			p.Goal == Absent && synced && len(present) == 0:
			return nil
		}
	}
	return context.Cause(ctx)
}

// updateKeys applies an update to the set of keys that exist.
func updateKeys(present map[string]bool, u *client.Update) {
	if u.Phase == client.PhaseReset {
		clear(present)
	}
	for _, e := range u.Events {
		if e.Type == client.Deleted {
			delete(present, e.Object.Key)
		} else {
			present[e.Object.Key] = true
		}
	}
}
