package output

import (
	"fmt"
	"io"

	"github.com/charmbracelet/x/ansi"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Event is a change as it is shown in JSON and YAML.
type Event struct {
	// Type is ADDED, MODIFIED or DELETED; RESET where everything that was shown
	// before is void; SYNCED where what was shown is the complete state.
	Type string `json:"type"`
	// Object is the object after the change; for DELETED its last content.
	Object *document.Document `json:"object,omitempty"`
	// Previous is the object before the change, where it was asked for.
	Previous *document.Document `json:"previous,omitempty"`
	// Position is where to resume, with SYNCED.
	Position *Position `json:"position,omitempty"`
}

// Position is a place in the history of a resource.
type Position struct {
	Epoch    string `json:"epoch"`
	Revision int64  `json:"revision"`
}

// The types of events that are no changes.
const (
	Reset  = "RESET"
	Synced = "SYNCED"
)

// Shown returns a change as it is shown.
func Shown(e client.Event) Event {
	shown := Event{Type: e.Type.String()}
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

// Events shows changes as they come. Not safe for concurrent use.
type Events struct {
	w      io.Writer
	format Format
	table  *Columns
	n      int
}

// NewEvents shows on w; width is that of the terminal.
func NewEvents(w io.Writer, format Format, width int) *Events {
	e := &Events{w: w, format: format}
	if format == Table || format == Wide {
		columns := append([]Column{{Title: "EVENT"}}, objectColumns(format == Wide)...)
		e.table = NewColumns(w, width, columns...)
		e.table.Widen(0, len("MODIFIED"))
	}
	return e
}

// Show shows everything that an update has. What it has to say goes out at once.
func (l *Events) Show(u *client.Update) error {
	if u.Replace {
		if err := l.mark(Event{Type: Reset}); err != nil {
			return err
		}
	}
	for _, e := range u.Events {
		if err := l.event(e); err != nil {
			return err
		}
	}
	if u.Synced {
		if err := l.mark(Event{Type: Synced, Position: &Position{u.Position.Epoch, u.Position.Revision}}); err != nil {
			return err
		}
	}
	if l.table != nil {
		return l.table.Flush()
	}
	return nil
}

// MarksResets reports whether a format shows that what came before is void.
func MarksResets(f Format) bool { return f == JSON || f == JSONL || f == YAML }

// mark shows what is no change: only programs care.
func (l *Events) mark(e Event) error {
	switch l.format {
	case JSONL:
		return write(l.w, e, false)
	case JSON:
		return write(l.w, e, true)
	case YAML:
		l.n++
		return writeYAML(l.w, e, l.n > 1)
	}
	return nil
}

func (l *Events) event(e client.Event) error {
	l.n++
	switch l.format {
	case JSON, JSONL:
		return write(l.w, Shown(e), l.format == JSON)
	case YAML:
		return writeYAML(l.w, Shown(e), l.n > 1)
	case Key:
		_, err := fmt.Fprintln(l.w, e.Object.Key)
		return err
	case Value:
		if e.Type == client.Deleted {
			return nil // its last value is no news
		}
		_, err := fmt.Fprintf(l.w, "%s\n", e.Object.Value)
		return err
	}
	style := map[client.EventType]ansi.Style{client.Added: Good, client.Modified: Notice, client.Deleted: Bad}[e.Type]
	return l.table.Styled(style, append([]string{e.Type.String()}, objectCells(e.Object, l.format == Wide)...)...)
}
