package check

import (
	"maps"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// replica is the state of a correct client. There are two kinds of clients. One applies
// events that belong together when all have arrived, and drops them if they never do. The
// other applies each event at once, and must be correct, too.
type replica struct {
	immediate bool // the second kind
	objects   map[object.Key]*object.Decoded
	waiting   []Event         // after the position, because more events belong to them
	ahead     object.Revision // of the newest event that was applied
	resets    bool            // a RESET has begun and not ended
}

func (r *replica) begin(objects []*object.Decoded) {
	*r = replica{immediate: r.immediate, objects: map[object.Key]*object.Decoded{}}
	for _, o := range objects {
		r.objects[o.Key] = o
	}
}

func (r *replica) apply(s *step) {
	if s.opens || s.Kind == object.CatchUpBegin {
		r.waiting = nil
	}
	switch {
	case s.Kind == object.CatchUpBegin && s.mode == reset:
		r.begin(nil)
		r.resets = true
	case s.Kind == object.Synced:
		r.resets = false
	}
	waiting := append(r.waiting, s.Events...)
	r.waiting = nil
	for _, e := range waiting {
		if !r.immediate && e.Revision > s.Position.Revision && s.mode != reset {
			r.waiting = append(r.waiting, e)
			continue
		}
		r.ahead = max(r.ahead, e.Revision)
		if e.Type == object.Deleted {
			delete(r.objects, e.Object.Key)
		} else {
			r.objects[e.Object.Key] = &e.Object
		}
	}
}

// isAt reports whether the client must have exactly the state at a position. It need not if
// it has applied events after the position.
func (r *replica) isAt(at object.Revision) bool { return !r.resets && r.ahead <= at }

// state returns the objects in order of keys.
func (r *replica) state() []*object.Decoded {
	state := make([]*object.Decoded, 0, len(r.objects))
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		state = append(state, r.objects[key])
	}
	return state
}
