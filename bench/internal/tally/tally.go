package tally

import (
	"sync"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

// shards is how many locks the readers of different connections share.
const shards = 16

// Tally counts for all watchers of a process.
type Tally struct {
	keys     int
	watchers []watcher
	audience []uint32 // of each key: how many watchers it has

	arrived   arrivals
	completed atomic.Int64
	changed   chan struct{}
	shards    [shards]shard
}

type shard struct {
	mu   sync.Mutex // guards the following
	each Latency    // from the writing to the arrival at each watcher
	last Latency    // to the arrival at the last one
}

// New returns a tally for watchers with these interests in so many keys, who have seen so
// many changes of each key before.
func New(keys int, interests []Interest, seen int) *Tally {
	t := &Tally{
		keys:     keys,
		watchers: make([]watcher, len(interests)),
		audience: make([]uint32, keys),
		changed:  make(chan struct{}, 1),
	}
	for i, interest := range interests {
		t.watchers[i] = watcher{interest: interest, next: make([]uint32, interest.Count)}
		for slot := range interest.Count {
			t.watchers[i].next[slot] = uint32(seen)
			t.audience[interest.Key(slot)]++
		}
	}
	for i := range t.shards {
		t.shards[i] = shard{each: NewLatency(), last: NewLatency()}
	}
	return t
}

// Receive counts the events in a message that the watcher received at a time. Calls
// for one watcher come from one goroutine at a time; group is any number that is the
// same for those that come from one goroutine.
func (t *Tally) Receive(group, watcher int, message []byte, at int64) {
	w, s := &t.watchers[watcher], &t.shards[group%shards]
	complete := int64(0)
	s.mu.Lock()
	for stamp := range stamp.All(message) {
		if !w.receive(stamp.Event, t.keys) {
			continue
		}
		s.each.Record(at - stamp.Written)
		if t.arrived.add(stamp.Event) == t.audience[stamp.Event%uint64(t.keys)] {
			s.last.Record(at - stamp.Written)
			complete++
		}
	}
	s.mu.Unlock()
	if complete == 0 {
		return
	}
	t.completed.Add(complete)
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// Record adds a time, in nanoseconds, of something that is no event.
func (t *Tally) Record(group int, ns int64) {
	s := &t.shards[group%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each.Record(ns)
}

// Completed returns how many events have come to all who wait for them.
func (t *Tally) Completed() int64 { return t.completed.Load() }

// Changed gets a value when Completed has grown. It is for one goroutine.
func (t *Tally) Changed() <-chan struct{} { return t.changed }

// Reset forgets the times, not the counts: what follows is measured, what came before
// was to warm up.
func (t *Tally) Reset() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.each.Reset()
		s.last.Reset()
		s.mu.Unlock()
	}
}

// Report returns the counts, given how many changes of each key were written, and the
// times. It is called when nobody receives any more.
func (t *Tally) Report(written []uint32) Report {
	var r Report
	each, last := NewLatency(), NewLatency()
	for i := range t.watchers {
		r.Counts.add(t.watchers[i].total(written))
	}
	for i := range t.shards {
		each.Merge(t.shards[i].each)
		last.Merge(t.shards[i].last)
	}
	r.Each, r.Last = each.Summary(), last.Summary()
	return r
}

// Report is what a tally says in the end.
type Report struct {
	Counts Counts  `json:"counts"`
	Each   Summary `json:"each"` // from writing to the arrival at each watcher
	Last   Summary `json:"last"` // from writing to the arrival at the last watcher
}
