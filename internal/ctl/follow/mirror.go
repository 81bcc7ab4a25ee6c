// Package view keeps the objects that a watch has told of, and says what has really
// changed.
//
// A watch that had to begin anew tells everything again. Who acts on changes wants
// to hear only of what is different from before: the view compares.
package follow

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/fanoutd/fanoutd/client"
)

// mirror is the state of a watch. The zero value is the one before it began. Not safe
// for concurrent use.
type mirror struct {
	objects map[string]*client.Object
	next    map[string]*client.Object // is built while a replacement is under way
	synced  bool
	whole   bool            // objects are all there are, and not just those that have changed
	atPoint bool            // they are as they were at one revision
	at      client.Position // up to where changes were told; not that of a replacement that is under way
}

// Apply takes an update and returns the changes that it brings: those of a
// replacement all at once, when it is complete, in order of keys.
func (v *mirror) Apply(u *client.Update) []client.Event {
	if v.objects == nil {
		v.objects = map[string]*client.Object{}
	}
	if u.Replace {
		v.next = map[string]*client.Object{}
	}
	var changes []client.Event
	for _, e := range u.Events {
		if v.next != nil {
			set(v.next, e)
			continue
		}
		if e, ok := v.seen(e); ok {
			changes = append(changes, e)
		}
		set(v.objects, e)
	}
	v.atPoint = u.Complete
	if u.Synced {
		v.synced = true
		if v.next != nil {
			changes = append(changes, v.swap(u.Position)...)
		}
	}
	if v.next == nil {
		v.at = u.Position
	}
	return changes
}

// seen returns an event as somebody sees it who has the objects of the view: after
// an interruption the server does not know what was told already. It reports whether
// there is anything new.
func (v *mirror) seen(e client.Event) (client.Event, bool) {
	old, ok := v.objects[e.Object.Key]
	switch {
	case !v.whole:
	case e.Type == client.Deleted && !ok:
		return e, false
	case e.Type == client.Deleted && e.Object.Value == nil:
		last := *old
		last.ModRevision = e.Object.ModRevision
		e.Object = &last
	case e.Type != client.Deleted && !ok:
		e.Type = client.Added
	case e.Type != client.Deleted && same(old, e.Object):
		return e, false
	case e.Type == client.Added:
		e.Type = client.Modified
	}
	return e, true
}

// same reports whether two objects are the same to whoever looks at them. Revisions
// alone do not say: an etcd that was restored from a backup gives them out again, for
// other values.
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

// swap makes the replacement, which is the state at a position, that of the view and
// returns the difference.
func (v *mirror) swap(now client.Position) []client.Event {
	// Who has begun in the middle has not seen all objects, but all that have changed
	// since: of the others only the revision says whether they are news.
	middle := !v.whole && v.at.Revision > 0 && v.at.Epoch == now.Epoch
	var changes []client.Event
	for key, o := range v.next {
		old, ok := v.objects[key]
		switch {
		case !ok && middle && o.ModRevision <= v.at.Revision:
		case !ok && middle && o.CreateRevision <= v.at.Revision:
			changes = append(changes, client.Event{Type: client.Modified, Object: o})
		case !ok:
			changes = append(changes, client.Event{Type: client.Added, Object: o})
		case !same(old, o):
			changes = append(changes, client.Event{Type: client.Modified, Object: o, Previous: old})
		}
	}
	for key, old := range v.objects {
		if _, ok := v.next[key]; !ok {
			changes = append(changes, client.Event{Type: client.Deleted, Object: old, Previous: old})
		}
	}
	slices.SortFunc(changes, func(a, b client.Event) int { return strings.Compare(a.Object.Key, b.Object.Key) })
	v.objects, v.next, v.whole = v.next, nil, true
	return changes
}

// Synced reports whether the view has been complete at least once.
func (v *mirror) Synced() bool { return v.synced }

// AtPoint reports whether the view is a state that there was at one revision, and not
// in the middle of changes that belong together.
func (v *mirror) AtPoint() bool { return v.atPoint }

// Len is the number of objects.
func (v *mirror) Len() int { return len(v.objects) }

// Objects returns the objects in order of keys.
func (v *mirror) Objects() []*client.Object {
	all := make([]*client.Object, 0, len(v.objects))
	for _, o := range v.objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *client.Object) int { return strings.Compare(a.Key, b.Key) })
	return all
}
