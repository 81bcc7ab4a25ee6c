package check

import (
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// mode is what a watch was doing when it sent a message.
type mode uint8

const (
	live   mode = iota // sending events as they happen
	now                // sending the first position of a stream from now
	replay             // a catch-up of kind REPLAY, from its beginning to SYNCED
	delta              // a catch-up of kind DELTA, from its beginning to SYNCED
	reset              // a catch-up of kind RESET, from its beginning to SYNCED
)

// step is a message with its context.
type step struct {
	place
	*Message
	mode  mode
	run   int  // streams that continue each other have the same number
	opens bool // the first message of its stream

	// from is the last position before this message: everything up to there has been
	// delivered.
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
			continue // the watcher has not moved
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
			// A position inside a RESET does not change what has been delivered.
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

func modeOf(c object.CatchUpKind) mode {
	switch c {
	case object.Reset:
		return reset
	case object.Delta:
		return delta
	}
	return replay
}

// arrival is the event of a change, not an object of a snapshot, with its message.
type arrival struct {
	*step
	*Event
	again bool // the event has come before, at or below the position of the last resume
}

// arrivals returns the events of all changes.
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
			// A resume, and a catch-up inside a stream, begins at the position. It
			// repeats later events, such as those of a partial message.
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
			v := version{e.Object.Key, e.Revision}
			all = append(all, arrival{s, e, seen[v]})
			seen[v] = true
		}
	}
	return all
}

// group has the messages from one position to the next, or those of a whole DELTA.
type group struct {
	steps []*step
	from  object.Revision
	to    object.Revision // meaningful if it is complete

	// complete is false if the stream ends before the next position, or if another
	// catch-up begins.
	complete bool
}

// events yields the events of the group, each with its message.
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
			// A DELTA may begin after the last position if there were no events in
			// between.
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
