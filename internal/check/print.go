package check

import (
	"bufio"
	"fmt"
	"io"

	"github.com/fanoutd/fanoutd/internal/object"
)

var kindNames = map[object.MessageKind]string{
	object.CatchUpBegin: "CATCH_UP_BEGIN",
	object.CatchUpPart:  "CATCH_UP_PART",
	object.Synced:       "SYNCED",
	object.Live:         "LIVE",
	object.Bookmark:     "BOOKMARK",
	object.Draining:     "DRAINING",
}

func kindName(k object.MessageKind) string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", k)
}

func catchUpName(c object.CatchUp) string {
	switch c {
	case object.NoCatchUp:
		return "none"
	case object.Replay:
		return "REPLAY"
	case object.Reset:
		return "RESET"
	}
	return fmt.Sprintf("catch-up %d", c)
}

// Print writes the history as text, one line per message, with the places that
// the errors name.
func (h *History) Print(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s watches %v\n", h.Watcher, h.Scope)
	for i := range h.Streams {
		s := &h.Streams[i]
		switch s.Begin {
		case FromNothing:
			fmt.Fprintf(out, "stream %d: from nothing, not before %d\n", i, s.NotBefore)
		case FromNow:
			fmt.Fprintf(out, "stream %d: from now, not before %d\n", i, s.NotBefore)
		case After:
			fmt.Fprintf(out, "stream %d: after %v\n", i, s.Position)
		}
		for j := range s.Messages {
			m := &s.Messages[j]
			fmt.Fprintf(out, "%6d %s", j, kindName(m.Kind))
			if m.CatchUp != object.NoCatchUp {
				fmt.Fprintf(out, " %s", catchUpName(m.CatchUp))
			}
			for k := range m.Events {
				fmt.Fprintf(out, " %v", &m.Events[k])
			}
			if m.Partial {
				fmt.Fprint(out, " (partial)")
			}
			fmt.Fprintf(out, " -> %v\n", m.Position)
		}
		fmt.Fprintf(out, "   end: %s\n", s.End)
	}
	return out.Flush()
}

// Print writes the truth as text, one line per change.
func (t *Truth) Print(w io.Writer) error {
	out := bufio.NewWriter(w)
	for i := range t.changes {
		event := eventOf(&t.changes[i])
		fmt.Fprintf(out, "%8d %v version %d\n", t.changes[i].Revision, &event, event.Object.Version)
	}
	fmt.Fprintf(out, "%8d end\n", t.Through)
	return out.Flush()
}
