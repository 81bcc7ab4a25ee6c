package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Snapshot checks that the objects of a RESET are exactly the state of the interest at the
// revision of its SYNCED, each as ADDED and in order of keys. That revision, and the first
// revision of a stream from now, must not be older than a write that was acknowledged before
// the request, nor than the position of a resume. It must be the requested one, if there is
// one.
func Snapshot(h *History, t *Truth) error {
	v := violations{history: h, guarantee: "snapshot"}
	var objects []*object.Decoded
	first := false // this is the first catch-up of the stream
	for _, s := range walk(h) {
		asked := &h.Streams[s.stream]
		if s.mode == now {
			if s.Position.Revision < asked.NotBefore {
				v.add(s.place, "now is revision %d, but %d had been acknowledged before", s.Position.Revision, asked.NotBefore)
			}
			if asked.Exact != 0 && s.Position.Revision != asked.Exact {
				v.add(s.place, "now is revision %d instead of the %d that was asked for", s.Position.Revision, asked.Exact)
			}
		}
		if s.mode != reset {
			continue
		}
		if s.Kind == object.CatchUpBegin {
			objects, first = nil, s.opens
		}
		for i := range s.Events {
			e := &s.Events[i]
			if e.Type != object.Added {
				v.add(s.place, "%v is in a snapshot, where everything is ADDED", e)
			}
			if e.Previous != nil {
				v.add(s.place, "%v is in a snapshot and comes with a previous object", e)
			}
			if n := len(objects); n > 0 && objects[n-1].Key >= e.Object.Key {
				v.add(s.place, "%v comes after key %q", e, objects[n-1].Key)
			}
			objects = append(objects, &e.Object)
		}
		if s.Kind != object.Synced {
			continue
		}
		oldest := max(asked.NotBefore, s.from)
		if s.Position.Revision < oldest {
			v.add(s.place, "the snapshot is of revision %d, but has to be at least of %d", s.Position.Revision, oldest)
		}
		if first && asked.Exact != 0 && s.Position.Revision != asked.Exact {
			v.add(s.place, "the snapshot is of revision %d instead of the %d that was asked for", s.Position.Revision, asked.Exact)
		}
		if diff := differences(h.state(t, s.Position.Revision), objects); diff != "" {
			v.add(s.place, "the snapshot is not the state at revision %d: %s", s.Position.Revision, diff)
		}
	}
	return v.err()
}

// differences describes how two states differ. It returns "" if they are equal.
func differences(want, got []*object.Decoded) string {
	byKey := map[object.Key]*object.Decoded{}
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
