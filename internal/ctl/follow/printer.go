// Package follow does something with what a watch tells: shows it, runs commands, or
// keeps files up to date.
package follow

import (
	"context"
	"iter"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// Updates are those of a watch, until its context ends.
type Updates func(ctx context.Context) Stream

// Stream is what a watch tells, one update after the other; an error is the last.
type Stream = iter.Seq2[*client.Update, error]

// Goal is what ends a watch that is waiting for something.
type Goal string

// The goals.
const (
	NoGoal Goal = ""       // nothing
	Exists Goal = "exists" // there is an object in view
	Absent Goal = "absent" // there is none
)

// Printer shows updates.
type Printer struct {
	// Events takes what there is to show; nil shows nothing.
	Events *output.Events
	// Differences shows only what is different from before where the watch has to
	// begin anew: for who would otherwise not know what became void. It takes the
	// memory of all objects.
	Differences bool
	// Flush is called after each update.
	Flush func() error
	// Goal and Count end it: when the goal is reached, or when as many changes were
	// shown. 0 is no limit. Count does not go with Position: there is none in the
	// middle of an update.
	Goal  Goal
	Count int
	// Position is told where to resume once an update was dealt with.
	Position Keep
}

// Run shows updates until one of its goals is reached: then it returns nil. Else it
// returns the error that has ended the watch.
func (p *Printer) Run(ctx context.Context, updates Updates) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	present := map[string]bool{}
	synced, shown := false, 0
	var v mirror
	for u, err := range updates(ctx) {
		if err != nil {
			return err
		}
		show := *u
		if p.Differences {
			// What there is at the beginning is shown as it comes.
			begun := v.Synced()
			if changes := v.Apply(u); begun {
				show.Events = changes
			}
		}
		if p.Count > 0 && shown+len(show.Events) > p.Count {
			show.Events, show.Synced = show.Events[:p.Count-shown], false
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
		if err := save(p.Position, u, false); err != nil {
			return err
		}
		if p.Goal != NoGoal {
			note(present, u)
			synced = synced || u.Synced
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

// note keeps which keys are in view.
func note(present map[string]bool, u *client.Update) {
	if u.Replace {
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

// Keep takes a position to resume at. Done says that commands have run since the one
// before, which should not run again.
type Keep func(p client.Position, done bool) error

// save has the position kept where it is one to resume at.
func save(keep Keep, u *client.Update, done bool) error {
	if keep == nil || u.Position.Revision == 0 {
		return nil
	}
	return keep(u.Position, done)
}
