package dispatch

import (
	"context"
	"sync"
)

// shard holds the parked watchers of one feed that one waker wakes.
type shard struct {
	mu     sync.Mutex
	parked []*Watcher // guarded by mu; Watcher.slot is the index in it
	queued bool       // guarded by mu: the shard is in its waker's queue
}

// park adds w, unless it is there already.
func (s *shard) park(w *Watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.slot < 0 {
		w.slot = len(s.parked)
		s.parked = append(s.parked, w)
	}
}

// leave removes w if it is there.
func (s *shard) leave(w *Watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.slot < 0 {
		return
	}
	end := len(s.parked) - 1
	s.parked[w.slot] = s.parked[end]
	s.parked[w.slot].slot = w.slot
	s.parked[end] = nil
	s.parked = s.parked[:end]
	w.slot = -1
}

// wakeAll wakes and removes everybody. It is called by one waker only, which
// lends its buffer for the purpose.
func (s *shard) wakeAll(buffer []*Watcher) []*Watcher {
	s.mu.Lock()
	buffer = append(buffer[:0], s.parked...)
	clear(s.parked)
	s.parked = s.parked[:0]
	s.queued = false
	for _, w := range buffer {
		w.slot = -1
	}
	s.mu.Unlock()
	for _, w := range buffer {
		w.wake()
	}
	clear(buffer)
	return buffer
}

// isParked reports whether the watcher waits to be woken.
func (s *shard) isParked(w *Watcher) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.slot >= 0
}

// waker wakes the watchers of its shards on a goroutine of its own.
type waker struct {
	mu     sync.Mutex
	queue  []*shard      // guarded by mu
	signal chan struct{} // capacity 1: the queue is not empty
}

func newWaker() *waker { return &waker{signal: make(chan struct{}, 1)} }

// enqueue asks for the watchers of a shard to be woken. If they are about to be,
// that is enough: they read everything there is.
func (k *waker) enqueue(s *shard) {
	s.mu.Lock()
	add := !s.queued && len(s.parked) > 0
	if add {
		s.queued = true
	}
	s.mu.Unlock()
	if !add {
		return
	}
	k.mu.Lock()
	k.queue = append(k.queue, s)
	k.mu.Unlock()
	select {
	case k.signal <- struct{}{}:
	default:
	}
}

// run wakes until ctx is done.
func (k *waker) run(ctx context.Context) {
	var shards []*shard
	var watchers []*Watcher
	for {
		select {
		case <-k.signal:
		case <-ctx.Done():
			return
		}
		k.mu.Lock()
		shards, k.queue = k.queue, shards[:0]
		k.mu.Unlock()
		for _, s := range shards {
			watchers = s.wakeAll(watchers)
		}
		clear(shards)
	}
}
