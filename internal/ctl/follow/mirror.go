package follow

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/fanoutd/fanoutd/client"
)

// mirror is a local copy of the watched objects. It turns updates into real changes: a
// watch that starts over sends all objects again, and the mirror compares them with its own.
// The zero value is ready to use. Not safe for concurrent use.
type mirror struct {
	objects    map[string]*client.Object
	next       map[string]*client.Object // the replacement that is being received, or nil
	synced     bool
	complete   bool            // objects are the whole state, not only those that have changed
	atRevision bool            // objects are the state at one revision
	position   client.Position // position of objects
}

// Apply applies an update and returns the changes. The changes of a replacement are
// returned together when it is complete, sorted by key.
func (m *mirror) Apply(u *client.Update) []client.Event {
	if m.objects == nil {
		m.objects = map[string]*client.Object{}
	}
	if u.Phase == client.PhaseReset {
		m.next = map[string]*client.Object{}
	}
	var changes []client.Event
	for _, e := range u.Events {
		if m.next != nil {
			set(m.next, e)
			continue
		}
		if e, ok := m.normalize(e); ok {
			changes = append(changes, e)
		}
		set(m.objects, e)
	}
	m.atRevision = u.Phase.Complete()
	if u.Phase == client.PhaseSynced {
		m.synced = true
		if m.next != nil {
			changes = append(changes, m.replace(u.Position)...)
		}
	}
	if m.next == nil {
		m.position = u.Position
	}
	return changes
}

// normalize adjusts an event to the objects of the mirror, because after an interruption the
// server does not know what it has already sent. It reports whether the event changes
// anything.
func (m *mirror) normalize(e client.Event) (client.Event, bool) {
	old, ok := m.objects[e.Object.Key]
	switch {
	case !m.complete:
	case e.Type == client.Deleted && !ok:
		return e, false
	case e.Type == client.Deleted && e.Object.Value == nil:
		e.Object = old
	case e.Type != client.Deleted && !ok:
		e.Type = client.Added
	case e.Type != client.Deleted && same(old, e.Object):
		return e, false
	case e.Type == client.Added:
		e.Type = client.Modified
	}
	return e, true
}

// same reports whether two objects are equal. Comparing revisions is not enough: an etcd
// that was restored from a backup assigns them again to other values.
func same(a, b *client.Object) bool {
	return a.ModRevision == b.ModRevision && a.CreateRevision == b.CreateRevision && a.Version == b.Version &&
		a.ContentType == b.ContentType && bytes.Equal(a.Value, b.Value) && maps.Equal(a.Labels, b.Labels)
}

func set(objects map[string]*client.Object, e client.Event) {
	if e.Type == client.Deleted {
		delete(objects, e.Object.Key)
	} else {
		objects[e.Object.Key] = e.Object
	}
}

// replace makes the received replacement, the state at position, the state of the mirror and
// returns the differences.
func (m *mirror) replace(position client.Position) []client.Event {
	// A watch that started without the initial objects knows only those that have changed
	// since. For the others, the revision shows whether they are new.
	partial := !m.complete && m.position.Revision > 0 && m.position.Epoch == position.Epoch
	var changes []client.Event
	for key, o := range m.next {
		old, ok := m.objects[key]
		switch {
		case !ok && partial && o.ModRevision <= m.position.Revision:
		case !ok && partial && o.CreateRevision <= m.position.Revision:
			changes = append(changes, client.Event{Type: client.Modified, Revision: o.ModRevision, Object: o})
		case !ok:
			changes = append(changes, client.Event{Type: client.Added, Revision: o.ModRevision, Object: o})
		case !same(old, o):
			changes = append(changes, client.Event{Type: client.Modified, Revision: o.ModRevision, Object: o, Previous: old})
		}
	}
	for key, old := range m.objects {
		if _, ok := m.next[key]; !ok {
			changes = append(changes, client.Event{Type: client.Deleted, Revision: position.Revision, Object: old, Previous: old})
		}
	}
	slices.SortFunc(changes, func(a, b client.Event) int { return strings.Compare(a.Object.Key, b.Object.Key) })
	m.objects, m.next, m.complete = m.next, nil, true
	return changes
}

// Synced reports whether the initial state was complete at least once.
func (m *mirror) Synced() bool { return m.synced }

// AtRevision reports whether the objects are the state at one revision. They are not while a
// new state arrives.
func (m *mirror) AtRevision() bool { return m.atRevision }

// Len returns the number of objects.
func (m *mirror) Len() int { return len(m.objects) }

// Objects returns the objects, sorted by key.
func (m *mirror) Objects() []*client.Object {
	all := make([]*client.Object, 0, len(m.objects))
	for _, o := range m.objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *client.Object) int { return strings.Compare(a.Key, b.Key) })
	return all
}
