package client

import (
	"iter"
	"sync"
	"time"
)

// keyed is what changes: an object of a shared watch, or an entry of an informer. The zero
// value stands for no object.
type keyed interface {
	comparable
	key() string
	revision() int64
}

// change is a change of one key.
type change[E keyed] struct {
	old, new E // zero: there is none
	// since is the revision of the first change of the key that this one includes, or 0 if it
	// is not known.
	since int64
}

func (c change[E]) key() string {
	var none E
	if c.new != none {
		return c.new.key()
	}
	return c.old.key()
}

// step leads its receiver from one complete state to a later one. It is immutable once it
// was put into a queue, because several consumers may share it.
type step[E keyed] struct {
	from, to Position
	asOf     time.Time // when the state at to was last known to be current; zero: never
	synced   bool      // a catch-up has ended
	number   int64     // of the state at to; numbers grow
	// begin has the whole state at to, for a receiver that has none. Then there are no changes.
	begin   iter.Seq[E]
	changes []change[E] // in order of their revisions, unless a state was replaced
}

// all returns the changes of the step.
func (s *step[E]) all() iter.Seq[change[E]] {
	return func(yield func(change[E]) bool) {
		if s.begin != nil {
			for e := range s.begin {
				if !yield(change[E]{new: e}) {
					return
				}
			}
		}
		for _, c := range s.changes {
			if c != (change[E]{}) && !yield(c) {
				return
			}
		}
	}
}

// len returns the number of changes.
func (s *step[E]) len() int {
	n := 0
	for range s.all() {
		n++
	}
	return n
}

// before returns the position before a change of the step: the last one at which a receiver
// without the change still has the right state. It has no revision if there is none.
func (s *step[E]) before(c change[E]) Position {
	var none E
	switch {
	case c.since > 0:
		return Position{Epoch: s.to.Epoch, Revision: c.since - 1}
	case s.from.Epoch == s.to.Epoch:
		return s.from
	case c.new != none:
		return Position{Epoch: s.to.Epoch, Revision: c.new.revision() - 1}
	}
	return Position{Epoch: s.to.Epoch}
}

// coalescingQueue holds what a consumer has not taken yet, as one step. A step that is put
// while another one waits is merged with it: for each key, only the change from what the
// consumer has to the latest version remains. So a slow consumer holds at most one change
// for each object, however many changes it has missed.
//
// The consumer takes whole steps. So it gets changes in order of their revisions, and has
// a state as it was at one position whenever it has handled a step.
type coalescingQueue[E keyed] struct {
	ready chan struct{} // wakes the consumer; buffers one signal

	mu    sync.Mutex
	first *step[E] // the state with which the consumer begins; guarded by mu
	next  *step[E] // guarded by mu
	// places has, by key, the places in next.changes. It is nil while next is shared with
	// other consumers. Guarded by mu.
	places map[string]int
	holes  int // zero changes in next.changes; guarded by mu
}

func newCoalescingQueue[E keyed]() *coalescingQueue[E] {
	return &coalescingQueue[E]{ready: make(chan struct{}, 1)}
}

// beginWith sets the state with which the consumer begins.
func (q *coalescingQueue[E]) beginWith(s *step[E]) {
	q.mu.Lock()
	q.first = s
	q.mu.Unlock()
	q.wake()
}

// put adds a step, which must begin where the last one has ended. It never waits.
func (q *coalescingQueue[E]) put(s *step[E]) {
	q.mu.Lock()
	if q.next == nil {
		q.next = s
	} else {
		q.merge(s)
	}
	q.mu.Unlock()
	q.wake()
}

func (q *coalescingQueue[E]) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns the next step, or nil if there is none.
func (q *coalescingQueue[E]) take() *step[E] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.first; s != nil {
		q.first = nil
		if q.next != nil {
			q.wake()
		}
		return s
	}
	s := q.next
	q.next, q.places, q.holes = nil, nil, 0
	return s
}

// empty reports whether the consumer has taken everything.
func (q *coalescingQueue[E]) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.first == nil && q.next == nil
}

// len returns the number of changes that the consumer has not taken.
func (q *coalescingQueue[E]) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	if q.first != nil {
		n = q.first.len()
	}
	if q.next != nil {
		n += q.next.len()
	}
	return n
}

// merge adds a step to the next one. The caller holds mu.
func (q *coalescingQueue[E]) merge(s *step[E]) {
	merged := *q.next
	newEpoch := merged.to.Epoch != s.to.Epoch
	if q.places == nil && (newEpoch || len(s.changes) > 0) {
		shared := merged.changes
		merged.changes, q.places = make([]change[E], 0, len(shared)+len(s.changes)), make(map[string]int, len(shared)+len(s.changes))
		for _, c := range shared {
			merged.changes = q.add(merged.changes, c)
		}
	}
	if newEpoch {
		for i := range merged.changes {
			merged.changes[i].since = 0 // revisions of another epoch
		}
	}
	for _, c := range s.changes {
		merged.changes = q.add(merged.changes, c)
	}
	merged.to, merged.asOf, merged.number, merged.synced = s.to, s.asOf, s.number, merged.synced || s.synced
	q.next = &merged
}

// add appends a change, and merges it with an earlier change of its key. The caller holds mu.
func (q *coalescingQueue[E]) add(to []change[E], c change[E]) []change[E] {
	key := c.key()
	if place, ok := q.places[key]; ok {
		earlier := to[place]
		to[place] = change[E]{}
		q.holes++
		delete(q.places, key)
		c.old, c.since = earlier.old, earlier.since
		if c.old == c.new {
			return to // the change was undone
		}
	}
	if q.holes > 32 && q.holes > len(to)/2 {
		to = q.compact(to)
	}
	q.places[key] = len(to)
	return append(to, c)
}

// compact removes the holes. The caller holds mu.
func (q *coalescingQueue[E]) compact(changes []change[E]) []change[E] {
	compacted := make([]change[E], 0, 2*(len(changes)-q.holes))
	for _, c := range changes {
		if c != (change[E]{}) {
			q.places[c.key()] = len(compacted)
			compacted = append(compacted, c)
		}
	}
	q.holes = 0
	return compacted
}
