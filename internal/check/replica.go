package check

import (
	"maps"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
)

// replica is what a correct client keeps.
type replica struct {
	objects  map[object.Key]*object.Object
	waiting  []Event // beyond the position: they are not complete yet
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
	if s.opens || s.Kind == object.CatchUpBegin {
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
