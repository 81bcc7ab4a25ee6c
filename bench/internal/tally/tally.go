package tally

import (
	"sync"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

// shards is the number of locks that the readers of all connections share.
const shards = 16

// Tally counts the events of all watchers of a process.
type Tally struct {
	keys     int
	watchers []watcher
	audience []uint32 // by key: the number of its watchers

	arrived   arrivals
	completed atomic.Int64
	changed   chan struct{}
	shards    [shards]shard
}

type shard struct {
	mu   sync.Mutex // guards the following
	each Latency    // from the write to the arrival at each watcher
	last Latency    // from the write to the arrival at the last watcher
}

// New returns a tally for watchers with these interests. The watchers have already seen the
// first changes of each key, as many as seen says.
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

// Receive counts the events of a message that a watcher received at a time. Only one
// goroutine at a time may call it for a watcher. group is a number of the goroutine's
// choice; it selects the lock.
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

// Record adds a time in nanoseconds that belongs to no event.
func (t *Tally) Record(group int, ns int64) {
	s := &t.shards[group%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each.Record(ns)
}

// Completed returns the number of events that all their watchers have received.
func (t *Tally) Completed() int64 { return t.completed.Load() }

// Changed receives a value when Completed has grown. Only one goroutine may use it.
func (t *Tally) Changed() <-chan struct{} { return t.changed }

// Reset removes the times of the warm-up. The counts stay.
func (t *Tally) Reset() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.each.Reset()
		s.last.Reset()
		s.mu.Unlock()
	}
}

// Report returns the counts and times, given the number of changes of each key. Call it
// when no watcher receives any more.
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

// Report is the result of a tally.
type Report struct {
	Counts Counts  `json:"counts"`
	Each   Summary `json:"each"` // from writing to the arrival at each watcher
	Last   Summary `json:"last"` // from writing to the arrival at the last watcher
}
