package check

import (
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Whole checks that a client that shows what it has after each response without More never shows
// half of a transaction: when such a response has come, every live watch has all its events up to
// the newest revision of which any live watch got an event. More is set only if the events do not
// fit into one response.
//
// A watch is live from the response after its SYNCED, or after its first BOOKMARK with from_now,
// until a catch-up begins.
func Whole(s *Subscription, t *Truth) error {
	v := violations{history: &History{Watcher: s.Subscriber}, guarantee: "whole"}
	u := unit{watches: make([]wholeWatch, len(s.Starts))}
	waiting := newWaiting(s)
	for i := range s.Responses {
		r := &s.Responses[i]
		for j := range r.Entries {
			e := &r.Entries[j]
			u.size += maxEntryBytes + maxIDBytes*len(e.IDs)
			if e.Message != nil {
				u.size += e.Message.Bytes
			}
			for _, id := range e.IDs {
				if start := waiting.startOf(id, e); start >= 0 {
					u.receive(s, start, e)
				}
			}
		}
		if u.responses++; r.More {
			continue
		}
		at := entryPlace{i, max(0, len(r.Entries)-1)}
		if u.responses > 1 && !u.shrunk && t.MessageBytes > 0 && u.size < t.MessageBytes-maxAnswersBytes {
			v.add(at, "%d responses have about %d bytes together, although one may have %d", u.responses, u.size, t.MessageBytes)
		}
		for _, start := range u.live {
			if e, ok := u.lacks(s, t, start); ok {
				v.add(at, "another watch has got an event at %d, but start %d (id %d) lacks %v",
					u.newest, start, s.Starts[start].ID, &e)
			}
		}
		u.next()
	}
	if u.responses > 0 && s.Over {
		v.add(entryPlace{len(s.Responses), 0}, "more is announced, but does not follow")
	}
	return v.err()
}

// What an entry and its ids take at most, beside its events, and the answers that may precede the
// events of a revision.
const (
	maxEntryBytes   = 64
	maxIDBytes      = 10
	maxAnswersBytes = 64 << 10
)

// unit is a response with those before it that have More.
type unit struct {
	watches []wholeWatch
	live    []int // the starts of the watches that were live when the unit began, and still are
	begun   []int // the starts of the watches that become live with the next unit

	responses, size int
	shrunk          bool            // a watch has ended or fallen behind, so the rest of a revision may be missing
	newest          object.Revision // of all events for live watches that are not late
	upTo            object.Revision // the newest position of these messages
}

// wholeWatch is how far a watch has come.
type wholeWatch struct {
	spoke   bool
	live    bool
	from    object.Revision // its position
	checked object.Revision // there is no event for it between its position and here
}

func (u *unit) receive(s *Subscription, start int, e *Entry) {
	w := &u.watches[start]
	if e.Message == nil {
		u.leave(start)
		return
	}
	m := e.Message
	begins := m.Kind == object.Synced || m.Kind == object.Bookmark && !w.spoke && s.Starts[start].Asked.Begin == FromNow
	w.spoke = true
	switch {
	case m.Kind == object.CatchUpBegin:
		u.leave(start)
	case begins:
		w.from, w.checked = m.Position.Revision, 0
		u.begun = append(u.begun, start)
	case w.live:
		w.from = max(w.from, m.Position.Revision)
		if s.Starts[start].Late {
			break
		}
		u.upTo = max(u.upTo, m.Position.Revision)
		for i := range m.Events {
			u.newest = max(u.newest, m.Events[i].Revision)
		}
	}
}

// leave notes that a watch is not live any more.
func (u *unit) leave(start int) {
	u.watches[start].live = false
	u.begun = slices.DeleteFunc(u.begun, func(other int) bool { return other == start })
	u.shrunk = true
}

// lacks returns the first event that a watch lacks, although another live watch has got an event of
// its revision or a later one.
func (u *unit) lacks(s *Subscription, t *Truth, start int) (Event, bool) {
	w, h := &u.watches[start], s.Starts[start].Interest
	if !w.live || s.Starts[start].Late || w.from >= u.newest {
		return Event{}, false
	}
	missing := h.between(t, max(w.from, w.checked), u.newest)
	if len(missing) == 0 {
		w.checked = u.newest
		return Event{}, false
	}
	if h.Latest && u.mergesAway(h, t, w.from) {
		return Event{}, false
	}
	return missing[0], true
}

// mergesAway reports whether nothing is left of the events after a position if they are merged. The
// server has merged them up to a revision that is not known.
func (u *unit) mergesAway(h *History, t *Truth, from object.Revision) bool {
	if h.nothingBetween(t, from, u.newest) {
		return true
	}
	return slices.ContainsFunc(h.between(t, u.newest, u.upTo), func(e Event) bool { return h.nothingBetween(t, from, e.Revision) })
}

// next begins the next unit.
func (u *unit) next() {
	live := u.live[:0]
	for _, start := range u.live {
		if u.watches[start].live {
			live = append(live, start)
		}
	}
	for _, start := range u.begun {
		u.watches[start].live = true
	}
	u.live, u.begun = append(live, u.begun...), u.begun[:0]
	u.responses, u.size, u.shrunk, u.newest, u.upTo = 0, 0, false, 0, 0
}
