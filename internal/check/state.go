package check

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Snapshot: the objects of a RESET are exactly the state of the scope at the
// revision of its SYNCED, each as ADDED and in order of keys. That revision, and
// the "now" of a stream from now, is not older than what had been acknowledged
// before the watch was asked for, nor than the position it resumes at.
func Snapshot(h *History, t *Truth) error {
	v := verdict{history: h, guarantee: "snapshot"}
	var objects []*object.Object
	for _, s := range walk(h) {
		asked := &h.Streams[s.stream]
		if s.mode == now && s.Position.Revision < asked.NotBefore {
			v.broken(s.place, "now is revision %d, but %d had been acknowledged before", s.Position.Revision, asked.NotBefore)
		}
		if s.mode != reset {
			continue
		}
		if s.Kind == object.CatchUpBegin {
			objects = nil
		}
		for i := range s.Events {
			e := &s.Events[i]
			if e.Type != object.Added {
				v.broken(s.place, "%v is in a snapshot, where everything is ADDED", e)
			}
			if n := len(objects); n > 0 && objects[n-1].Key >= e.Object.Key {
				v.broken(s.place, "%v comes after key %q", e, objects[n-1].Key)
			}
			objects = append(objects, &e.Object)
		}
		if s.Kind != object.Synced {
			continue
		}
		oldest := max(asked.NotBefore, s.from)
		if s.Position.Revision < oldest {
			v.broken(s.place, "the snapshot is of revision %d, but has to be at least of %d", s.Position.Revision, oldest)
		}
		if diff := differences(t.State(h.Scope, s.Position.Revision), objects); diff != "" {
			v.broken(s.place, "the snapshot is not the state at revision %d: %s", s.Position.Revision, diff)
		}
	}
	return v.err()
}

// Filtered: every event is of the scope, of a change that happened, and is what
// that change is to a watcher of the scope. A client that applies the events by
// key and forgets everything when a RESET begins has, wherever a stream leaves
// it, the state of the scope at its position.
func Filtered(h *History, t *Truth) error {
	v := verdict{history: h, guarantee: "filtered"}
	steps := walk(h)
	for _, a := range arrivals(steps) {
		c := t.at[version{a.Object.Key, a.revision()}]
		switch {
		case !h.Scope.Contains(a.Object.Key):
			v.broken(a.place, "%v is outside of the scope %v", a.Event, h.Scope)
		case c == nil:
			v.broken(a.place, "%v never happened", a.Event)
		default:
			want := eventOf(c)
			if a.Type != want.Type {
				v.broken(a.place, "%v should be %v", a.Event, &want)
			} else if diff := difference(&want.Object, &a.Object); diff != "" {
				v.broken(a.place, "%v %s", a.Event, diff)
			}
		}
	}

	var r replica
	run := -1
	for i := range steps {
		s := &steps[i]
		if s.run != run {
			run = s.run
			r = replica{}
			if s.mode != reset {
				// The watcher has the state from elsewhere.
				r.begin(t.State(h.Scope, s.from))
			}
		}
		r.apply(s)
		if leaves := i+1 == len(steps) || steps[i+1].opens; !leaves || !r.complete {
			continue
		}
		if diff := differences(t.State(h.Scope, s.Position.Revision), r.state()); diff != "" {
			v.broken(s.place, "replayed to position %d the history gives another state: %s", s.Position.Revision, diff)
		}
	}
	return v.err()
}

// replica is what a correct client keeps.
type replica struct {
	objects  map[object.Key]*object.Object
	waiting  []Event // beyond the position: their revision is not complete yet
	complete bool    // false while a RESET is under way
}

func (r *replica) begin(objects []*object.Object) {
	r.objects = map[object.Key]*object.Object{}
	for _, o := range objects {
		r.objects[o.Key] = o
	}
	r.complete = true
}

func (r *replica) apply(s *step) {
	if s.opens {
		r.waiting = nil
	}
	if s.Kind == object.CatchUpBegin && s.mode == reset {
		*r = replica{objects: map[object.Key]*object.Object{}}
	}
	if s.Kind == object.Synced {
		r.complete = true
	}
	waiting := append(r.waiting, s.Events...)
	r.waiting = nil
	for _, e := range waiting {
		switch {
		case e.revision() > s.Position.Revision && s.mode != reset:
			r.waiting = append(r.waiting, e)
		case e.Type == object.Deleted:
			delete(r.objects, e.Object.Key)
		default:
			r.objects[e.Object.Key] = &e.Object
		}
	}
}

// state returns the objects in order of keys.
func (r *replica) state() []*object.Object {
	state := make([]*object.Object, 0, len(r.objects))
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		state = append(state, r.objects[key])
	}
	return state
}

// differences says in words how two states differ, or nothing if they do not.
func differences(want, got []*object.Object) string {
	byKey := map[object.Key]*object.Object{}
	for _, o := range got {
		byKey[o.Key] = o
	}
	var all []string
	for _, o := range want {
		other := byKey[o.Key]
		delete(byKey, o.Key)
		if other == nil {
			all = append(all, fmt.Sprintf("%q is missing", o.Key))
		} else if diff := difference(o, other); diff != "" {
			all = append(all, fmt.Sprintf("%q %s", o.Key, diff))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		all = append(all, fmt.Sprintf("%q should not be there", key))
	}
	const enough = 5
	if len(all) > enough {
		all = append(all[:enough], fmt.Sprintf("and %d more", len(all)-enough))
	}
	return strings.Join(all, ", ")
}

// difference says in words how two objects of one key differ.
func difference(want, got *object.Object) string {
	var all []string
	differ := func(field string, want, got any) {
		all = append(all, fmt.Sprintf("has %s %v instead of %v", field, got, want))
	}
	if want.ModRevision != got.ModRevision {
		differ("mod revision", want.ModRevision, got.ModRevision)
	}
	if want.CreateRevision != got.CreateRevision {
		differ("create revision", want.CreateRevision, got.CreateRevision)
	}
	if want.Version != got.Version {
		differ("version", want.Version, got.Version)
	}
	if !bytes.Equal(want.Value, got.Value) {
		differ("value", fmt.Sprintf("%.100q", want.Value), fmt.Sprintf("%.100q", got.Value))
	}
	if want.ContentType != got.ContentType {
		differ("content type", want.ContentType, got.ContentType)
	}
	if !maps.Equal(want.Labels, got.Labels) {
		differ("labels", want.Labels, got.Labels)
	}
	if want.Opaque != got.Opaque {
		differ("opaque", want.Opaque, got.Opaque)
	}
	return strings.Join(all, ", ")
}
