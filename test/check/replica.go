package check

import (
	"maps"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// replica is what a correct client keeps. There are two kinds: one applies what
// belongs together when it is complete, and forgets what never becomes so; the other
// applies each event when it comes, and has to be right, too.
type replica struct {
	hasty   bool // of the second kind
	objects map[object.Key]*object.Object
	waiting []Event         // beyond the position: they are not complete yet
	ahead   object.Revision // the newest event that was applied
	resets  bool            // a RESET is under way
}

func (r *replica) begin(objects []*object.Object) {
	*r = replica{hasty: r.hasty, objects: map[object.Key]*object.Object{}}
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
		if !r.hasty && e.revision() > s.Position.Revision && s.mode != reset {
			r.waiting = append(r.waiting, e)
			continue
		}
		r.ahead = max(r.ahead, e.revision())
		if e.Type == object.Deleted {
			delete(r.objects, e.Object.Key)
		} else {
			r.objects[e.Object.Key] = &e.Object
		}
	}
}

// isAt reports whether the client should have the state at a position that it was
// given: not if it has applied something of what comes behind it.
func (r *replica) isAt(at object.Revision) bool { return !r.resets && r.ahead <= at }

// state returns the objects in order of keys.
func (r *replica) state() []*object.Object {
	state := make([]*object.Object, 0, len(r.objects))
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		state = append(state, r.objects[key])
	}
	return state
}
