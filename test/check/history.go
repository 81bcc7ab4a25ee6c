package check

import (
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// History is what one watcher asked for and received.
type History struct {
	Watcher string // its name, for messages

	// The watcher watches the objects of the scope that Picks selects. Picks nil: all of
	// them. Picks replaces the selectors of the request, so package check does not parse
	// them with the code under test. Selects describes Picks in words.
	Scope   object.Scope
	Picks   func(*object.Decoded) bool
	Selects string

	Previous   bool          // events have the objects as they were before
	OmitValues bool          // objects have no values
	Latest     bool          // pending events are merged per key
	EveryEvent bool          // the watch ends rather than skip an event
	Bookmarks  time.Duration // the longest silence requested. 0: any

	// Prompt says that the watcher reads every message at once, except when it is Away.
	// If an event is late, the cause is the server.
	Prompt bool

	Streams []Stream // the watches that it opened, one after the other
}

// Begin is the requested beginning of a watch.
type Begin uint8

// The beginnings.
const (
	FromNothing Begin = iota // with a snapshot
	FromNow                  // with the next change
	After                    // after a position
)

// Stream is one watch: the request, and the messages until it ended.
//
// A stream that begins after a position continues the streams before it: the watcher kept
// its state and resumed at the last position that it received. Any other stream with a
// message is a fresh start. Earlier streams do not count for it.
type Stream struct {
	Begin    Begin
	Position object.Position // with After

	// NotBefore is the oldest revision allowed for the beginning: the requested one, or
	// one that was acknowledged to a writer before a linearizable request. 0: any.
	NotBefore object.Revision

	// Exact is the required revision of the beginning. 0: any.
	Exact object.Revision

	Messages []Message

	// Opened and Ended are when the watcher began and stopped reading. Away has the
	// times in between when it did not read. They are needed to check silences.
	Opened, Ended time.Time
	Away          []Span

	// Status is how the server ended the stream: StatusOK, or the reason of the error.
	// It is empty if the server did not end the stream, or if that is not known.
	Status string

	// End describes the end of the stream in words. It is not checked.
	End string
}

// The values of Status that are checked.
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
	Bytes  int       // size of the events in the message. 0: not known
	At     time.Time // when it was received. Zero: not known
}

// Event is one event of a message. An object with a nil Value came without a value, not even
// an empty one.
type Event struct {
	Type     object.EventType
	Revision object.Revision // at which it happened
	Object   object.Decoded
	Previous *object.Decoded // nil: the event has none
}

func (e *Event) String() string {
	sign := map[object.EventType]string{object.Added: "+", object.Modified: "~", object.Deleted: "-"}[e.Type]
	if sign == "" {
		sign = fmt.Sprintf("(type %d)", e.Type)
	}
	return fmt.Sprintf("%s%s@%d", sign, e.Object.Key, e.Revision)
}

// Position returns the position of the watcher: the last one that it received, or the one
// that it resumed at. It returns false if there is none; then the watcher must start over.
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

// possible returns an error if a client that resumes at its last position could not have
// recorded the history, or if the truth ends before the history.
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
