package check

import (
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// History is what one watcher asked for and saw.
type History struct {
	Watcher string // who it was, for messages

	// What it watches: the objects of the scope that Picks picks. Picks nil: all
	// of them. It is given by the test in place of the selectors that it sent, so
	// that the judge does not parse them with the code under test. Selects says
	// in words what it picks.
	Scope   object.Scope
	Picks   func(*object.Object) bool
	Selects string

	Previous   bool          // it asked for the objects as they were before
	OmitValues bool          // it asked for objects without their values
	Latest     bool          // it asked for what waits to be merged per key
	EveryEvent bool          // it would rather be cut off than miss an event
	Bookmarks  time.Duration // the longest silence that it asked for. 0: any

	// Prompt: it reads at once what comes while it is listening, except when it is
	// Away. If it is told late, that is not its own doing.
	Prompt bool

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

	// NotBefore is a revision that the beginning has to have reached: one that had
	// been acknowledged to a writer before the watch was asked for with
	// linearizable consistency, or the one that was asked for. 0: none.
	NotBefore object.Revision

	// Exact is the revision that the beginning has to be of. 0: any.
	Exact object.Revision

	Messages []Message

	// Opened and Ended are when the watcher began and ceased to listen; Away is
	// when it did not listen in between. They are needed where the watcher asked
	// for bookmarks and the silence between them is to be judged.
	Opened, Ended time.Time
	Away          []Span

	// Status is how the server ended the stream: StatusOK, or the reason that it
	// gave. Empty where it was not the server who ended it, or where that is not
	// known.
	Status string

	// End says in words how the stream ended. It is not judged.
	End string
}

// The ways for a server to end a stream that are judged.
const (
	StatusOK              = "OK"
	StatusDraining        = "DRAINING"
	StatusPositionExpired = "POSITION_EXPIRED"
	StatusEpochChanged    = "EPOCH_CHANGED"
)

// Message is one message of a watch.
type Message struct {
	object.Header
	Events []Event
	Bytes  int       // what the events take in the message. 0: not known
	At     time.Time // when it was received. Zero: not known
}

// Event is one event of a message. An object whose Value is nil came without any,
// not even an empty one.
type Event struct {
	Type     object.EventType
	Object   object.Object
	Previous *object.Object // nil: it came without
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
		if known := max(s.NotBefore, s.Exact); known > t.Through {
			return fmt.Errorf("%s: stream %d knows of revision %d, the truth ends at %d", h.Watcher, i, known, t.Through)
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

// lastPlace returns the place of the last message of a stream.
func (h *History) lastPlace(stream int) place {
	return place{stream, max(0, len(h.Streams[stream].Messages)-1)}
}
