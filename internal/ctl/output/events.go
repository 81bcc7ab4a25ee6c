package output

import (
	"slices"

	"github.com/charmbracelet/x/ansi"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Event is a change as shown in JSON and YAML.
type Event struct {
	// Type is ADDED, MODIFIED, DELETED, RESET (discard everything before), DELTA (the events
	// up to SYNCED are a difference, not every change) or SYNCED (the state is complete).
	Type string `json:"type"`
	// Revision is that of the change.
	Revision int64 `json:"revision,omitempty"`
	// Object is the object after the change; for DELETED its last content.
	Object *document.Document `json:"object,omitempty"`
	// Previous is the object before the change, if requested.
	Previous *document.Document `json:"previous,omitempty"`
	// Position is the position to resume from; only with SYNCED.
	Position *client.Position `json:"position,omitempty"`
}

// The types of events that are not changes.
const (
	Reset  = "RESET"
	Delta  = "DELTA"
	Synced = "SYNCED"
)

// NewEvent converts a change.
func NewEvent(e client.Event) Event {
	shown := Event{Type: e.Type.String(), Revision: e.Revision}
	if e.Object != nil {
		shown.Object = new(document.Of(e.Object))
	}
	if e.Previous != nil {
		shown.Previous = new(document.Of(e.Previous))
	}
	return shown
}

// Events prints the updates of a watch. Not safe for concurrent use.
type Events struct{ list List[client.Event] }

var eventStyles = map[client.EventType]ansi.Style{client.Added: Good, client.Modified: Notice, client.Deleted: Bad}

// Events returns an Events that prints in the format. Tables have more columns after the revision.
func (p Printer) Events(more ...Column[client.Event]) *Events {
	event := Column[client.Event]{
		Title: "EVENT", Cell: func(e client.Event) string { return e.Type.String() }, MinWidth: len("MODIFIED"),
		Styled: func(e client.Event) ansi.Style { return eventStyles[e.Type] },
	}
	object := func(e client.Event) *client.Object { return e.Object }
	revision := func(e client.Event) int64 { return e.Revision }
	columns := append([]Column[client.Event]{event}, objectColumns(p.Format == Wide, object, revision)...)
	return &Events{List[client.Event]{
		Printer: p, Columns: slices.Insert(columns, 3, more...),
		Key:      func(e client.Event) string { return e.Object.Key },
		Value:    func(e client.Event) []byte { return e.Object.Value },
		Document: func(e client.Event) any { return NewEvent(e) },
	}}
}

// Show prints an update. RESET, DELTA and SYNCED are for programs only.
func (l *Events) Show(u *client.Update) error {
	marks := MarksResets(l.list.Format)
	if u.Phase == client.PhaseReset && marks {
		if err := l.list.encode(Event{Type: Reset}); err != nil {
			return err
		}
	}
	if u.Delta && marks {
		if err := l.list.encode(Event{Type: Delta}); err != nil {
			return err
		}
	}
	for _, e := range u.Events {
		if l.list.Format == Value && e.Type == client.Deleted {
			continue // the object has no value any more
		}
		if err := l.list.Add(e); err != nil {
			return err
		}
	}
	if u.Phase == client.PhaseSynced && marks {
		if err := l.list.encode(Event{Type: Synced, Position: &u.Position}); err != nil {
			return err
		}
	}
	return l.list.Close() // writes the rows of a table
}

// MarksResets reports whether a format includes markers such as RESET.
func MarksResets(f Format) bool { return f == JSON || f == JSONL || f == YAML }
