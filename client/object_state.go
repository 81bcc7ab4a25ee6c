package client

import (
	"time"

	"github.com/tidwall/btree"
)

// objectState builds the states of a shared watch from the updates of its watch.
type objectState struct {
	objects     btree.Map[string, *Object]
	at          Position  // zero: there is no state yet
	asOf        time.Time // when the state was last known to be current; zero: never
	replacing   bool      // the watch is sending a new state
	replacement btree.Map[string, *Object]
}

// apply applies an update. It returns the step to the new state, or nil while a replacement
// is not complete.
func (s *objectState) apply(u *Update) *step[*Object] {
	next := &step[*Object]{from: s.at, to: u.Position, synced: u.Phase == PhaseSynced}
	s.advance(u, func(e *Event, c change[*Object], differs bool) {
		if !differs {
			return
		}
		if e != nil && !u.Delta { // otherwise the object may have changed earlier, too
			c.since = e.Revision
		}
		next.changes = append(next.changes, c)
	})
	if !u.Phase.Complete() {
		return nil
	}
	if !u.AsOf.IsZero() {
		s.asOf = u.AsOf
	}
	next.asOf = s.asOf
	return next
}

// advance applies an update. It calls changed for each event, with whether it changes anything, and at the end of a
// replacement, without an event, for each difference. It reports whether there was such an end.
func (s *objectState) advance(u *Update, changed func(e *Event, c change[*Object], differs bool)) (replaced bool) {
	if u.Phase == PhaseReset {
		s.replacing, s.replacement = true, btree.Map[string, *Object]{}
	}
	for i := range u.Events {
		e := &u.Events[i]
		if s.replacing {
			s.replace(*e)
			continue
		}
		c, differs := s.applyEvent(*e)
		changed(e, c, differs)
	}
	if !u.Phase.Complete() {
		return false
	}
	if replaced = s.replacing; replaced {
		difference(&s.objects, &s.replacement, func(c change[*Object]) { changed(nil, c, true) })
		s.objects, s.replacing, s.replacement = s.replacement, false, btree.Map[string, *Object]{}
	}
	s.at = u.Position
	return replaced
}

// replace applies an event to the replacement. An unchanged object stays the same, so that
// nothing is done for it.
func (s *objectState) replace(e Event) {
	if e.Type == Deleted {
		s.replacement.Delete(e.Object.Key)
		return
	}
	o := e.Object
	if old, ok := s.objects.Get(o.Key); ok && sameVersion(old, o) {
		o = old
	}
	s.replacement.Set(o.Key, o)
}

// applyEvent applies an event to the state. It returns false if nothing has changed.
func (s *objectState) applyEvent(e Event) (change[*Object], bool) {
	old, _ := s.objects.Get(e.Object.Key)
	c := change[*Object]{old: old}
	if e.Type == Deleted {
		s.objects.Delete(e.Object.Key)
		return c, old != nil
	}
	if old != nil && sameVersion(old, e.Object) {
		return c, false
	}
	c.new = e.Object
	s.objects.Set(e.Object.Key, e.Object)
	return c, true
}

// beginning returns a step to the present state for a receiver that has none, or nil if there
// is no state. Later changes do not affect it.
func (s *objectState) beginning() *step[*Object] {
	if s.at.Revision == 0 {
		return nil
	}
	objects := s.objects.Copy()
	return &step[*Object]{to: s.at, asOf: s.asOf, synced: true, begin: func(yield func(*Object) bool) {
		objects.Scan(func(_ string, o *Object) bool { return yield(o) })
	}}
}

// difference calls changed for each change from one state to another: first the deletions, then the
// rest, each in order of their keys.
func difference(from, to *btree.Map[string, *Object], changed func(change[*Object])) {
	from.Scan(func(key string, old *Object) bool {
		if _, ok := to.Get(key); !ok {
			changed(change[*Object]{old: old})
		}
		return true
	})
	to.Scan(func(key string, o *Object) bool {
		if old, _ := from.Get(key); old != o {
			changed(change[*Object]{old: old, new: o})
		}
		return true
	})
}
