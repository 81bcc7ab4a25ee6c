package delivery

import (
	"sync"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

// shards is the number of locks. The goroutines that read connections share them.
const shards = 16

// Counter counts the events of all watchers of a process.
type Counter struct {
	keys     int
	watchers []watcher
	audience []uint32 // number of watchers, by key

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

// NewCounter returns a counter for watchers with these interests. Each watcher has already
// seen the first seen changes of each key.
func NewCounter(keys int, interests []Interest, seen int) *Counter {
	c := &Counter{
		keys:     keys,
		watchers: make([]watcher, len(interests)),
		audience: make([]uint32, keys),
		changed:  make(chan struct{}, 1),
	}
	for i, interest := range interests {
		c.watchers[i] = watcher{interest: interest, next: make([]uint32, interest.Count)}
		for slot := range interest.Count {
			c.watchers[i].next[slot] = uint32(seen)
			c.audience[interest.Key(slot)]++
		}
	}
	for i := range c.shards {
		c.shards[i] = shard{each: NewLatency(), last: NewLatency()}
	}
	return c
}

// Receive counts the events of a message that watchers received at the given time. Only one
// goroutine at a time may call it for a watcher. The goroutine chooses group, which selects
// the lock.
func (c *Counter) Receive(group int, message []byte, at int64, watchers ...int) {
	s := &c.shards[group%shards]
	complete := int64(0)
	s.mu.Lock()
	for stamp := range stamp.All(message) {
		for _, watcher := range watchers {
			if !c.watchers[watcher].receive(stamp.Event, c.keys) {
				continue
			}
			s.each.Record(at - stamp.Written)
			if c.arrived.add(stamp.Event) == c.audience[stamp.Event%uint64(c.keys)] {
				s.last.Record(at - stamp.Written)
				complete++
			}
		}
	}
	s.mu.Unlock()
	if complete == 0 {
		return
	}
	c.completed.Add(complete)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Record adds a duration in nanoseconds that belongs to no event, such as that of a List.
func (c *Counter) Record(group int, ns int64) {
	s := &c.shards[group%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each.Record(ns)
}

// Completed returns the number of events that all their watchers have received.
func (c *Counter) Completed() int64 { return c.completed.Load() }

// Changed receives a value when Completed has grown. Only one goroutine may use it.
func (c *Counter) Changed() <-chan struct{} { return c.changed }

// Reset removes the times of the warm-up. The counts stay.
func (c *Counter) Reset() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.each.Reset()
		s.last.Reset()
		s.mu.Unlock()
	}
}

// Report returns the counts and times, given the number of changes of each key. Call it
// after the last call of Receive.
func (c *Counter) Report(written []uint32) Report {
	var r Report
	each, last := NewLatency(), NewLatency()
	for i := range c.watchers {
		r.Counts.Add(c.watchers[i].total(written))
	}
	for i := range c.shards {
		each.Merge(c.shards[i].each)
		last.Merge(c.shards[i].last)
	}
	r.Each, r.Last = each.Summary(), last.Summary()
	return r
}

// Report is the result of a counter.
type Report struct {
	Counts Counts  `json:"counts"`
	Each   Summary `json:"each"` // from writing to the arrival at each watcher
	Last   Summary `json:"last"` // from writing to the arrival at the last watcher
}
