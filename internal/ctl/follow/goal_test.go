package follow

import (
	"context"
	"errors"
	"testing"

	"github.com/fanoutd/fanoutd/client"
)

// A goal is reached by what exists at the end of an update. That no object exists is known only when the
// state is complete, also after a reset.
func TestGoals(t *testing.T) {
	deleted := client.Event{Type: client.Deleted, Revision: 3, Object: &client.Object{Key: "a"}}
	state := func(phase client.Phase, events ...client.Event) *client.Update {
		return &client.Update{Phase: phase, Events: events, Position: client.Position{Epoch: "e", Revision: 3}}
	}
	a, b := added("a", "1", 1), added("b", "1", 1)
	for name, c := range map[string]struct {
		goal    Goal
		updates []*client.Update
		reached bool // with the last update, and not before
	}{
		"the first object":        {Exists, []*client.Update{state(client.PhaseReset), state(client.PhaseReset, a)}, true},
		"nothing yet":             {Exists, []*client.Update{state(client.PhaseSynced), live()}, false},
		"gone at once":            {Exists, []*client.Update{state(client.PhaseSynced), live(a, deleted)}, false},
		"one of two is left":      {Exists, []*client.Update{state(client.PhaseSynced), live(b, a, deleted)}, true},
		"again":                   {Exists, []*client.Update{state(client.PhaseSynced), live(a, deleted, a)}, true},
		"never there":             {Absent, []*client.Update{state(client.PhaseReset), state(client.PhaseSynced)}, true},
		"maybe more":              {Absent, []*client.Update{state(client.PhaseReset)}, false},
		"deleted":                 {Absent, []*client.Update{state(client.PhaseSynced, a), live(deleted)}, true},
		"still there":             {Absent, []*client.Update{state(client.PhaseSynced, a, b), live(deleted)}, false},
		"half of a new state":     {Absent, []*client.Update{state(client.PhaseSynced, a), state(client.PhaseReset)}, false},
		"a new state without any": {Absent, []*client.Update{state(client.PhaseSynced, a), state(client.PhaseReset), state(client.PhaseSynced)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, shown := make(fakeWatch, len(c.updates)), 0
			for _, u := range c.updates {
				w <- u
			}
			p := Follower{Goal: c.goal, Handle: func(*client.Update) error {
				if shown++; shown == len(c.updates) && !c.reached {
					cancel() // no update follows
				}
				return nil
			}}
			err := p.Run(ctx, w.updates)
			if c.reached && err != nil || !c.reached && !errors.Is(err, context.Canceled) || shown != len(c.updates) {
				t.Errorf("got %v after %d of %d updates, want reached: %v", err, shown, len(c.updates), c.reached)
			}
		})
	}
}
