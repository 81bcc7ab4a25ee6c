package output

import (
	"io"

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
	Position *Position `json:"position,omitempty"`
}

// Position is a position in the history of a resource.
type Position struct {
	Epoch    string `json:"epoch"`
	Revision int64  `json:"revision"`
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
		d := document.Of(e.Object)
		shown.Object = &d
	}
	if e.Previous != nil {
		d := document.Of(e.Previous)
		shown.Previous = &d
	}
	return shown
}

// Events prints the updates of a watch. Not safe for concurrent use.
type Events struct{ list *list }

// NewEvents returns an Events that writes to w. Width is the width of the terminal, or 0 if
// there is none.
func NewEvents(w io.Writer, format Format, width int) *Events {
	l := newList(w, format, width, append([]Column{{Title: "EVENT"}}, objectColumns(format == Wide)...))
	if l.table != nil {
		l.table.SetMinWidth(0, len("MODIFIED"))
	}
	return &Events{l}
}

// Show prints an update.
func (l *Events) Show(u *client.Update) error {
	if u.Phase == client.PhaseReset {
		if err := l.marker(Event{Type: Reset}); err != nil {
			return err
		}
	}
	if u.Delta {
		if err := l.marker(Event{Type: Delta}); err != nil {
			return err
		}
	}
	for _, e := range u.Events {
		if err := l.event(e); err != nil {
			return err
		}
	}
	if u.Phase == client.PhaseSynced {
		if err := l.marker(Event{Type: Synced, Position: &Position{u.Position.Epoch, u.Position.Revision}}); err != nil {
			return err
		}
	}
	if l.list.table != nil {
		return l.list.table.Flush()
	}
	return nil
}

// MarksResets reports whether a format includes markers such as RESET.
func MarksResets(f Format) bool { return f == JSON || f == JSONL || f == YAML }

// marker prints RESET, DELTA or SYNCED, in the formats for programs only.
func (l *Events) marker(e Event) error {
	if !MarksResets(l.list.format) {
		return nil
	}
	return l.list.add(item{document: func() any { return e }})
}

var eventStyles = map[client.EventType]ansi.Style{client.Added: Good, client.Modified: Notice, client.Deleted: Bad}

func (l *Events) event(e client.Event) error {
	if l.list.format == Value && e.Type == client.Deleted {
		return nil // the object has no value any more
	}
	return l.list.add(item{
		document: func() any { return NewEvent(e) }, key: e.Object.Key, value: e.Object.Value, style: eventStyles[e.Type],
		cells: func() []string {
			return append([]string{e.Type.String()}, objectCells(e.Object, e.Revision, l.list.format == Wide)...)
		},
	})
}
