package check

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

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

func catchUpName(c object.CatchUpKind) string {
	switch c {
	case object.NoCatchUp:
		return "none"
	case object.Replay:
		return "REPLAY"
	case object.Delta:
		return "DELTA"
	case object.Reset:
		return "RESET"
	}
	return fmt.Sprintf("catch-up %d", c)
}

func (m mode) String() string {
	return [...]string{live: "LIVE", now: "NOW", replay: "REPLAY", delta: "DELTA", reset: "RESET"}[m]
}

// interest describes the request of the watcher in words.
func (h *History) interest() string {
	words := []string{h.Scope.String()}
	if h.Selects != "" {
		words[0] += " where " + h.Selects
	}
	for _, option := range []struct {
		is   bool
		name string
	}{
		{h.Previous, "with previous objects"},
		{h.OmitValues, "without values"},
		{h.Latest, "merged"},
		{h.EveryEvent, "every event"},
		{h.Bookmarks > 0, fmt.Sprintf("bookmarks every %v", h.Bookmarks)},
	} {
		if option.is {
			words = append(words, option.name)
		}
	}
	return strings.Join(words, ", ")
}

// Print writes the history as text, one line per message, with the numbers of streams and
// messages as in errors.
func (h *History) Print(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s watches %s\n", h.Watcher, h.interest())
	for i := range h.Streams {
		s := &h.Streams[i]
		switch s.Begin {
		case FromNothing:
			fmt.Fprintf(out, "stream %d: from nothing, not before %d", i, s.NotBefore)
		case FromNow:
			fmt.Fprintf(out, "stream %d: from now, not before %d", i, s.NotBefore)
		case After:
			fmt.Fprintf(out, "stream %d: after %v", i, s.Position)
		}
		if s.Exact != 0 {
			fmt.Fprintf(out, ", exactly %d", s.Exact)
		}
		fmt.Fprintln(out, clock(s.Opened))
		for j := range s.Messages {
			fmt.Fprintf(out, "%6d", j)
			s.Messages[j].print(out)
		}
		for _, away := range s.Away {
			fmt.Fprintf(out, "   away from%s to%s\n", clock(away.From), clock(away.To))
		}
		fmt.Fprintf(out, "   end: %s%s\n", s.End, clock(s.Ended))
	}
	return out.Flush()
}

// clock returns the time of day, or "" if it is not known.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(" 15:04:05.000")
}

// Print writes the truth as text: the conditions, and one line per change.
func (t *Truth) Print(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "window %d, tombstones %d, forgotten %v, gaps %v\n", t.Window, t.Tombstones, t.Forgotten, t.Gaps)
	for _, outage := range t.Outages {
		fmt.Fprintf(out, "outage from%s to%s\n", clock(outage.From), clock(outage.To))
	}
	for _, severed := range t.Severed {
		fmt.Fprintf(out, "severed from%s to%s\n", clock(severed.From), clock(severed.To))
	}
	for i := range t.changes {
		c := &t.changes[i]
		// As a watcher of the whole resource sees it.
		if event, ok := (&History{}).event(c); ok {
			fmt.Fprintf(out, "%8d %v version %d\n", c.Revision, &event, event.Object.Version)
		}
	}
	fmt.Fprintf(out, "%8d end\n", t.Through)
	return out.Flush()
}

// Print writes the stream as text, one line per entry, with the numbers of starts and responses as
// in errors.
func (s *Subscription) Print(w io.Writer) error {
	out := bufio.NewWriter(w)
	for i := range s.Starts {
		start := &s.Starts[i]
		fmt.Fprintf(out, "start %d: id %d watches %s", i, start.ID, start.Interest.interest())
		switch start.Asked.Begin {
		case FromNothing:
			fmt.Fprint(out, ", from nothing")
		case FromNow:
			fmt.Fprint(out, ", from now")
		case After:
			fmt.Fprintf(out, ", after %v", start.Asked.Position)
		}
		if start.Late {
			fmt.Fprint(out, ", may be late")
		}
		fmt.Fprintln(out, clock(start.Asked.Opened))
	}
	for i := range s.Responses {
		r := &s.Responses[i]
		fmt.Fprintf(out, "response %d", i)
		if r.More {
			fmt.Fprint(out, " (more)")
		}
		fmt.Fprintln(out)
		for j := range r.Entries {
			e := &r.Entries[j]
			fmt.Fprintf(out, "%6d %d", j, e.IDs)
			switch {
			case e.Message != nil:
				e.Message.print(out)
			case e.Refused:
				fmt.Fprintf(out, " refused: %s\n", e.Status)
			default:
				fmt.Fprintf(out, " ended: %s\n", e.Status)
			}
		}
	}
	return out.Flush()
}

// print writes a message as the rest of a line.
func (m *Message) print(out io.Writer) {
	fmt.Fprintf(out, " %s", kindName(m.Kind))
	if m.CatchUp != object.NoCatchUp {
		fmt.Fprintf(out, " %s", catchUpName(m.CatchUp))
	}
	for k := range m.Events {
		fmt.Fprintf(out, " %v", &m.Events[k])
	}
	if m.Partial {
		fmt.Fprint(out, " (partial)")
	}
	fmt.Fprintf(out, " -> %v%s\n", m.Position, clock(m.At))
}
