package check

import (
	"fmt"

	"github.com/fanoutd/fanoutd/internal/object"
)

// History is what one watcher saw.
type History struct {
	Watcher string // who it was, for messages
	Scope   object.Scope
	Streams []Stream // the watches it opened, one after the other
}

// Begin says where a watch was asked to begin.
type Begin uint8

// The places to begin.
const (
	FromNothing Begin = iota // with a snapshot
	FromNow                  // with the next change
	After                    // after a position
)

// Stream is one watch: what was asked and what was received until it ended.
//
// A stream that begins after a position continues the ones before it: the watcher
// kept its state and asked for the last position it was given. Any other stream
// that received something is a fresh start, of which nothing earlier is asked.
type Stream struct {
	Begin    Begin
	Position object.Position // with After

	// NotBefore is a revision that had been acknowledged to a writer before the
	// watch was asked for with linearizable consistency. 0: none.
	NotBefore object.Revision

	Messages []Message

	// End says in words how the stream ended. It is not judged.
	End string
}

// Message is one message of a watch.
type Message struct {
	object.Header
	Events []Event
}

// Event is one event of a message.
type Event struct {
	Type   object.EventType
	Object object.Object
}

// revision returns the revision at which the event happened.
func (e *Event) revision() object.Revision { return e.Object.ModRevision }

func (e *Event) String() string {
	sign := map[object.EventType]string{object.Added: "+", object.Modified: "~", object.Deleted: "-"}[e.Type]
	if sign == "" {
		sign = fmt.Sprintf("(type %d)", e.Type)
	}
	return fmt.Sprintf("%s%s@%d", sign, e.Object.Key, e.Object.ModRevision)
}

// Position returns where the watcher is: the last position that it was given, or
// asked for if it was given none. False: it has none, and can only start afresh.
func (h *History) Position() (object.Position, bool) {
	for i := len(h.Streams) - 1; i >= 0; i-- {
		s := &h.Streams[i]
		if n := len(s.Messages); n > 0 {
			return s.Messages[n-1].Position, true
		}
		if s.Begin == After {
			return s.Position, true
		}
	}
	return object.Position{}, false
}

// possible returns an error if no client that resumes at its last position could
// have recorded the history, or if the truth ends before the history does.
func (h *History) possible(t *Truth) error {
	for i := range h.Streams {
		s := &h.Streams[i]
		if before := (History{Streams: h.Streams[:i]}); i > 0 && s.Begin == After {
			last, ok := before.Position()
			if !ok || last != s.Position {
				return fmt.Errorf("%s: stream %d resumes at %v, which is not the last position %v", h.Watcher, i, s.Position, last)
			}
		}
		if s.NotBefore > t.Through {
			return fmt.Errorf("%s: stream %d knows of revision %d, the truth ends at %d", h.Watcher, i, s.NotBefore, t.Through)
		}
		for j := range s.Messages {
			m := &s.Messages[j]
			if m.Position.Revision > t.Through {
				return fmt.Errorf("%s: %v goes to revision %d, the truth ends at %d", h.Watcher, place{i, j}, m.Position.Revision, t.Through)
			}
		}
	}
	return nil
}

// place names a message of a history.
type place struct{ stream, message int }

func (p place) String() string { return fmt.Sprintf("stream %d, message %d", p.stream, p.message) }
