package check

import (
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// mode is what a watch was doing when it sent a message.
type mode uint8

const (
	live   mode = iota // sending events as they happen
	now                // saying where now is, as the first message of a stream from now
	replay             // a catch-up of kind REPLAY, from its beginning to SYNCED
	delta              // a catch-up of kind DELTA, from its beginning to SYNCED
	reset              // a catch-up of kind RESET, from its beginning to SYNCED
)

// step is a message in its surroundings.
type step struct {
	place
	*Message
	mode  mode
	run   int  // streams that continue each other have the same number
	opens bool // the first message of its stream

	// from is the revision up to which everything had been promised to be
	// delivered, before this message came.
	from object.Revision
}

// walk returns every message of the history as a step.
func walk(h *History) []step {
	var steps []step
	run := -1
	from := object.Revision(0)
	for i := range h.Streams {
		s := &h.Streams[i]
		if len(s.Messages) == 0 {
			continue // the watcher is where it was
		}
		if s.Begin != After || run < 0 {
			run++
		}
		doing := live
		switch s.Begin {
		case FromNothing:
			from = 0
		case FromNow:
			from, doing = s.Messages[0].Position.Revision, now
		case After:
			from = s.Position.Revision
		}
		for j := range s.Messages {
			m := &s.Messages[j]
			if m.Kind == object.CatchUpBegin {
				doing = modeOf(m.CatchUp)
			}
			steps = append(steps, step{place{i, j}, m, doing, run, j == 0, from})
			// A position within a RESET promises nothing, and takes back
			// nothing that has been promised before.
			if doing != reset || m.Kind == object.Synced {
				from = max(from, m.Position.Revision)
			}
			if m.Kind == object.Synced || doing == now {
				doing = live
			}
		}
	}
	return steps
}

func modeOf(c object.CatchUp) mode {
	switch c {
	case object.Reset:
		return reset
	case object.Delta:
		return delta
	}
	return replay
}

// arrival is an event of a change, as opposed to an object of a snapshot, in the
// message that brought it.
type arrival struct {
	*step
	*Event
	again bool // it has come before, and the watcher had no reason to ask for it again
}

// arrivals returns every event that brought a change.
func arrivals(steps []step) []arrival {
	var all []arrival
	seen := map[version]bool{}
	run := -1
	for i := range steps {
		s := &steps[i]
		if s.run != run {
			run = s.run
			clear(seen)
		}
		if s.opens || s.Kind == object.CatchUpBegin {
			// A resume asks for everything after its position, also for the
			// beginning of what never became complete. A catch-up in the stream
			// begins at the position, too.
			for v := range seen {
				if v.revision > s.from {
					delete(seen, v)
				}
			}
		}
		if s.mode == reset {
			continue
		}
		for j := range s.Events {
			e := &s.Events[j]
			v := version{e.Object.Key, e.revision()}
			all = append(all, arrival{s, e, seen[v]})
			seen[v] = true
		}
	}
	return all
}

// group is what belongs together in a stream: the messages that lead from one
// position to the next, or a whole DELTA.
type group struct {
	steps []*step
	from  object.Revision
	to    object.Revision // meaningful if it is complete

	// complete is false where the stream ends in between or where another
	// catch-up takes its place.
	complete bool
}

// events calls yield with the events of the group and the place of each.
func (g *group) events(yield func(*step, *Event) bool) {
	for _, s := range g.steps {
		for i := range s.Events {
			if !yield(s, &s.Events[i]) {
				return
			}
		}
	}
}

// groups returns the groups of the given modes.
func groups(steps []step, of ...mode) []*group {
	var all []*group
	var open *group
	for i := range steps {
		s := &steps[i]
		if s.opens || s.Kind == object.CatchUpBegin || s.Kind == object.Draining {
			open = nil
		}
		if !slices.Contains(of, s.mode) {
			continue
		}
		if open == nil {
			// A DELTA may begin further on than the last message said, where there
			// was nothing to be told in between.
			open = &group{from: s.from}
			if s.mode == delta {
				open.from = max(s.from, s.Position.Revision)
			}
			all = append(all, open)
		}
		open.steps = append(open.steps, s)
		if ends := !s.Partial && s.mode != delta || s.Kind == object.Synced; ends {
			open.to, open.complete = max(s.from, s.Position.Revision), true
			open = nil
		}
	}
	return all
}
