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
					if u.comesTooLate(s, start, e) {
						u.lacking.report(s, &v)
					}
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
			e, ok := u.lacks(s, t, start)
			if !ok {
				continue
			}
			l := lacking{at, start, e, u.newest, u.number, u.mergedUpTo(s, t, start)}
			switch {
			case l.mergedUpTo == 0:
				l.report(s, &v)
			case l.mergedUpTo > u.lacking.mergedUpTo:
				u.lacking = l
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
	live    []int   // the starts of the watches that were live when the unit began, and still are
	begun   []int   // the starts of the watches that become live with the next unit
	number  int     // of units before this one
	lacking lacking // with the newest mergedUpTo

	responses, size int
	shrunk          bool            // a watch has ended or fallen behind, so the rest of a revision may be missing
	newest          object.Revision // of all events for live watches that are not late
}

// wholeWatch is how far a watch has come.
type wholeWatch struct {
	spoke   bool
	live    bool
	from    object.Revision // its position
	checked object.Revision // there is no event for it between its position and here
	since   int             // the number of the unit with which it became live
}

// lacking is an event that a watch has not got, although another watch has got one of its revision
// or a later one.
type lacking struct {
	at         entryPlace
	start      int
	event      Event
	newest     object.Revision // that another watch has got
	unit       int             // its number
	mergedUpTo object.Revision // nothing is left of the event if the server has merged up to here; 0: never
}

func (l *lacking) report(s *Subscription, v *violations) {
	v.add(l.at, "another watch has got an event at %d, but start %d (id %d) lacks %v", l.newest, l.start, s.Starts[l.start].ID, &l.event)
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
	default:
		w.from = max(w.from, m.Position.Revision)
		if !w.live || s.Starts[start].Late {
			break
		}
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
	return missing[0], true
}

// mergedUpTo returns the revision up to which the server can have merged the events of a watch so
// that nothing was left for it, or 0. The server merges up to a revision that no message need
// state, and which may be newer than the newest event that any watch has got. But all live watches
// have everything up to this revision. See also comesTooLate.
func (u *unit) mergedUpTo(s *Subscription, t *Truth, start int) object.Revision {
	if !s.Starts[start].Interest.Latest {
		return 0
	}
	all, possible := u.haveAll(s, t, u.newest)
	if all {
		return u.newest
	}
	for c := range t.Between(object.Scope{}, u.newest, t.Through) {
		if !possible {
			break
		}
		if all, possible = u.haveAll(s, t, c.Revision); all {
			return c.Revision
		}
	}
	return 0
}

// comesTooLate reports whether a watch gets an event of a revision up to which the server must have
// merged before.
func (u *unit) comesTooLate(s *Subscription, start int, e *Entry) bool {
	w, l := &u.watches[start], &u.lacking
	return w.live && w.since <= l.unit && l.unit < u.number && !s.Starts[start].Late && e.Message != nil &&
		slices.ContainsFunc(e.Message.Events, func(e Event) bool { return e.Revision <= l.mergedUpTo })
}

// haveAll reports whether the live watches have all events up to a revision. If a watch lacks an event
// that no merge can remove, it is not possible that they have all up to a later revision.
func (u *unit) haveAll(s *Subscription, t *Truth, upTo object.Revision) (all, possible bool) {
	all = true
	for _, start := range u.live {
		w, h := &u.watches[start], s.Starts[start].Interest
		if !w.live || s.Starts[start].Late || h.nothingBetween(t, w.from, upTo) {
			continue
		}
		if !h.Latest {
			return false, false
		}
		all = false
	}
	return all, true
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
		u.watches[start].live, u.watches[start].since = true, u.number+1
	}
	u.live, u.begun = append(live, u.begun...), u.begun[:0]
	u.number++
	u.responses, u.size, u.shrunk, u.newest = 0, 0, false, 0
}
