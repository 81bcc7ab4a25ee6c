package check_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// model is a correct server with one watcher, which reconnects until it has seen everything.
// It shares no code with package check.
type model struct {
	rng     *rand.Rand
	truth   *check.Truth
	history *check.History
	stream  *check.Stream   // the current stream
	at      object.Revision // the position of the watcher
}

func (m *model) serve() {
	for present := object.Revision(1); present < m.truth.Through; {
		present = min(m.truth.Through, max(present, m.at)+object.Revision(m.rng.IntN(20)))
		m.history.Streams = append(m.history.Streams, m.open(present))
		m.stream = &m.history.Streams[len(m.history.Streams)-1]
		if m.begin(present) {
			m.live()
		}
		present = max(present, m.at) // etcd does not go back, and a watch begins with what etcd has
		if n := len(m.stream.Messages); n > 0 && m.stream.Status == "" && m.rng.IntN(4) == 0 {
			m.stream.Messages = m.stream.Messages[:m.rng.IntN(n)] // the connection breaks
		}
		m.at = 0
		if last, ok := m.history.Position(); ok {
			m.at = last.Revision
		}
	}
}

// open returns the next stream without messages. A watcher whose position has expired starts
// over.
func (m *model) open(present object.Revision) check.Stream {
	last, known := m.history.Position()
	if n := len(m.history.Streams); n > 0 && m.history.Streams[n-1].Status == check.StatusPositionExpired {
		known = false
	}
	switch n := m.rng.IntN(7); {
	case known && n < 4:
		return after(last.Revision)
	case n == 4:
		return fromNow()
	case n == 5:
		return exactly(1+object.Revision(m.rng.IntN(int(present))), fromNothing())
	}
	return fromNothing()
}

func (m *model) begin(present object.Revision) bool {
	s := m.stream
	switch {
	case s.Begin == check.FromNow:
		m.at = present
		m.send(bookmark(present))
		return true
	case s.Exact != 0:
		m.reset(s.Exact)
		return true
	case s.Begin == check.FromNothing:
		m.reset(present)
		return true
	}
	return m.catchUp(max(present, m.at))
}

func (m *model) send(messages ...check.Message) {
	m.stream.Messages = append(m.stream.Messages, messages...)
}

// live sends live events, and catches up when there are too many.
func (m *model) live() {
	for range m.rng.IntN(8) {
		to := min(m.truth.Through, m.at+object.Revision(m.rng.IntN(12)))
		if m.forgotten(m.at, to) {
			if !m.catchUp(to) {
				return
			}
			continue
		}
		if events := m.between(object.Live, m.at, to); len(events) > 0 {
			m.send(m.pieces(object.Live, m.at, to, events)...)
		} else {
			m.send(bookmark(to))
		}
		m.at = to
	}
	if m.rng.IntN(3) == 0 {
		m.send(draining(m.at))
		m.stream.Status = []string{check.StatusOK, check.StatusDraining}[m.rng.IntN(2)]
	}
}

func (m *model) forgotten(from, to object.Revision) bool {
	return len(slices.Collect(m.truth.Between(object.Scope{}, from, to))) > m.truth.Window
}

// catchUp brings the watcher to the present. It reports whether the stream continues.
func (m *model) catchUp(present object.Revision) bool {
	from := m.at
	deletions := 0
	for c := range m.truth.Between(object.Scope{}, from, present) {
		if c.New == nil {
			deletions++
		}
	}
	switch {
	case from == 0:
		m.reset(present)
	case !m.forgotten(from, present):
		m.send(begin(object.Replay, from))
		if events := m.between(object.CatchUpPart, from, present); len(events) > 0 {
			m.send(m.pieces(object.CatchUpPart, from, present, events)...)
		}
		m.send(synced(present))
	case m.history.EveryEvent:
		m.stream.Status = check.StatusPositionExpired
		return false
	case deletions <= m.truth.Tombstones:
		m.delta(from, present)
	default:
		m.reset(present)
	}
	m.at = present
	return true
}

// delta sends the last change of each changed key, in one or more messages.
func (m *model) delta(from, to object.Revision) {
	latest := map[object.Key]*check.Change{}
	for c := range m.truth.Between(m.history.Scope, from, to) {
		latest[c.Key] = c
	}
	m.send(begin(object.Delta, from))
	p := part(from, nil)
	for _, c := range slices.SortedFunc(maps.Values(latest), func(a, b *check.Change) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Key, b.Key))
	}) {
		e := check.Event{Type: object.Modified, Revision: c.Revision}
		switch {
		case !m.matches(c.New):
			e = gone(change{c.Key, c.Revision})[0]
		case c.New.CreateRevision > from:
			e.Type = object.Added
			fallthrough
		default:
			e.Object = m.shown(c.New)
		}
		p.Events = append(p.Events, e)
		if m.rng.IntN(3) == 0 {
			m.send(p)
			p = part(from, nil)
		}
	}
	m.send(p, synced(to))
}

func (m *model) reset(at object.Revision) {
	m.send(begin(object.Reset, 0))
	p := part(0, nil)
	for _, o := range m.truth.State(m.history.Scope, at) {
		if !m.matches(o) {
			continue
		}
		p.Events = append(p.Events, check.Event{Type: object.Added, Object: m.shown(o)})
		if m.rng.IntN(3) == 0 {
			m.send(p)
			p = part(0, nil)
		}
	}
	m.send(p, synced(at))
	m.at = at
}

func (m *model) matches(o *object.Decoded) bool {
	return o != nil && (m.history.Picks == nil || m.history.Picks(o))
}

func (m *model) shown(o *object.Decoded) object.Decoded {
	shown := *o
	if m.history.OmitValues {
		shown.Value = nil
	}
	return shown
}

// between returns the events of the watcher between two revisions, for messages of a kind.
func (m *model) between(kind object.MessageKind, from, to object.Revision) []check.Event {
	var all []check.Event
	had := map[object.Key]object.Decoded{} // before the first event
	for c := range m.truth.Between(m.history.Scope, from, to) {
		was, is := m.matches(c.Old), m.matches(c.New)
		if !was && !is {
			continue
		}
		e := check.Event{Type: object.Modified, Revision: c.Revision}
		if is {
			e.Object = m.shown(c.New)
		} else {
			e.Type = object.Deleted
			e.Object = m.shown(c.Old)
		}
		if !was {
			e.Type = object.Added
		} else if m.history.Previous {
			e.Previous = new(m.shown(c.Old))
		}
		if _, ok := had[c.Key]; was && !ok {
			had[c.Key] = m.shown(c.Old)
		}
		all = append(all, e)
	}
	if !m.history.Latest {
		return all
	}
	all, passed := merge(all)
	for i := range all {
		if e := &all[i]; e.Type == object.Deleted {
			e.Object = had[e.Object.Key]
		}
	}
	if kind == object.CatchUpPart {
		// A replay also deletes what came and went: the watcher may have it from a partial
		// message.
		all = append(all, passed...)
	}
	slices.SortFunc(all, func(a, b check.Event) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Object.Key, b.Object.Key))
	})
	return all
}

// merge merges the events of each key, one by one. Passed are the deletions of objects that
// existed neither before nor after the events.
func merge(events []check.Event) (merged, passed []check.Event) {
	type pair struct{ before, after object.EventType }
	table := map[pair]object.EventType{
		{object.Added, object.Modified}:    object.Added,
		{object.Modified, object.Modified}: object.Modified,
		{object.Modified, object.Deleted}:  object.Deleted,
		{object.Deleted, object.Added}:     object.Modified,
	}
	waiting, undone := map[object.Key]check.Event{}, map[object.Key]check.Event{}
	for _, e := range events {
		key := e.Object.Key
		delete(undone, key)
		if before, ok := waiting[key]; ok {
			becomes, left := table[pair{before.Type, e.Type}]
			if !left { // it was added and deleted
				delete(waiting, key)
				undone[key] = e
				continue
			}
			e.Type, e.Previous = becomes, before.Previous
		}
		waiting[key] = e
	}
	return slices.Collect(maps.Values(waiting)), slices.Collect(maps.Values(undone))
}

// pieces packs events into messages of whole revisions. Now and then it splits a revision, or
// the merged events, into two messages.
func (m *model) pieces(kind object.MessageKind, from, to object.Revision, events []check.Event) []check.Message {
	if m.history.Latest {
		if n := len(events); n > 1 && m.rng.IntN(2) == 0 {
			return []check.Message{partial(message(kind, from, events[:n/2])), message(kind, to, events[n/2:])}
		}
		return []check.Message{message(kind, to, events)}
	}
	var all []check.Message
	at := from
	flush := func(revision object.Revision, pending []check.Event) {
		all = append(all, message(kind, revision, pending))
		at = revision
	}
	var pending []check.Event
	for len(events) > 0 {
		r := events[0].Revision
		n := slices.IndexFunc(events, func(e check.Event) bool { return e.Revision != r })
		if n < 0 {
			n = len(events)
		}
		revision := events[:n]
		events = events[n:]
		if n > 1 && m.rng.IntN(4) == 0 {
			if len(pending) > 0 {
				flush(pending[len(pending)-1].Revision, pending)
			}
			all = append(all, partial(message(kind, at, revision[:1])))
			pending = revision[1:]
			continue
		}
		pending = append(slices.Clone(pending), revision...)
		if len(events) > 0 && m.rng.IntN(2) == 0 {
			flush(r, pending)
			pending = nil
		}
	}
	flush(to, pending)
	return all
}
