package subscribe

import (
	"sync"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// pending is a watch that waits for etcd before it starts.
type pending struct {
	entry *entry
	watch *request.Watch // must not be modified
}

// waits are the waits for etcd of the starts of a stream. Starts that wait for the same share a
// goroutine. Those that come while it waits share its next wait, because a wait that began
// earlier is not fresh enough for them.
type waits struct {
	slots   chan struct{} // has an element for each goroutine
	running sync.WaitGroup

	mu     sync.Mutex
	next   map[backend.Freshness][]*pending // guarded by mu: those of the next wait; absent: no goroutine
	closed bool                             // guarded by mu
}

// maxWaits limits the goroutines of a stream that wait for etcd. A client needs more only if its
// starts wait for many different revisions. The server then reads its next request later.
const maxWaits = 64

func (w *waits) init() {
	w.slots, w.next = make(chan struct{}, maxWaits), map[backend.Freshness][]*pending{}
}

// close waits until nothing waits for etcd. The caller has ended stream.ending.
func (w *waits) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.running.Wait()
}

// awaitStore starts a watch after its wait for etcd. Only the reader calls it. An error ends the
// stream.
func (s *stream) awaitStore(p *pending) error {
	w, resource := &s.waits, p.entry.Backend()
	var key backend.Freshness
	serve := func() error { s.startUncached(p); return nil }
	if resource.Direct == nil {
		key = resource.FreshnessOf(p.watch)
		if w.join(key, p) {
			return nil
		}
		serve = func() error { s.serveWait(key); return nil }
	}
	select {
	case w.slots <- struct{}{}:
	case <-s.ending.Done():
		return s.ending.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	if resource.Direct == nil {
		w.next[key] = []*pending{p}
	}
	w.running.Go(func() {
		if err := dispatch.Guard(serve); err != nil {
			s.out.Abort(err)
		}
		<-w.slots
	})
	return nil
}

// join adds a watch to the next wait of a goroutine. It returns false if there is no goroutine for
// the key.
func (w *waits) join(key backend.Freshness, p *pending) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	others, ok := w.next[key]
	if ok {
		w.next[key] = append(others, p)
	}
	return ok
}

// take returns the watches of the next wait. If there are none, it returns nil, and the goroutine
// must end.
func (w *waits) take(key backend.Freshness) []*pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.next[key]
	if len(all) == 0 {
		delete(w.next, key)
		return nil
	}
	w.next[key] = nil
	return all
}

// serveWait waits for etcd and starts watches, until none is left that waits for the same.
func (s *stream) serveWait(key backend.Freshness) {
	for all := s.waits.take(key); all != nil; all = s.waits.take(key) {
		begin, err := all[0].entry.Backend().Await(s.ending, all[0].watch)
		for i := range all {
			e, parsed := all[i].entry, all[i].watch
			s.startAfterWait(all[i], err, func() {
				s.out.Start(e.Backend().Dispatcher, &e.StreamWatch, parsed.Interest, backend.BeginOf(parsed, begin), parsed.Options)
			})
		}
	}
}

// startUncached waits for etcd and starts a watch of a resource without a cache.
func (s *stream) startUncached(p *pending) {
	watcher, err := p.entry.Backend().Source().Watch(s.ending, p.watch, nil, nil)
	if err != nil {
		s.startAfterWait(p, err, nil)
		return
	}
	source := watcher.(dispatch.DirectWatcher)
	p.entry.uncached = source
	if !s.startAfterWait(p, nil, func() { s.out.StartDirect(&p.entry.StreamWatch, source) }) {
		watcher.Close()
	}
}

// startAfterWait starts a watch after its wait for etcd, or refuses it with the error of the wait.
// It does nothing if the watch has ended meanwhile. It reports whether the watch was started.
func (s *stream) startAfterWait(p *pending, err error, start func()) bool {
	s.calls.Lock()
	defer s.calls.Unlock()
	e := p.entry
	if registry.StageOf(e) != registry.Admitted || s.closed {
		return false
	}
	defer s.finishIfIdle()
	if err == nil {
		if !s.table.begin(e) {
			s.drop(e)
			s.out.Abort(apierr.ErrDraining) // the stream has used up all indexes
			return false
		}
		err = s.service.registry.Begin(e)
	}
	if err != nil {
		s.table.remove(&e.StreamWatch)
		s.drop(e)
		s.refuse(e.StreamWatch.ID, e.Resource(), err)
		return false
	}
	s.waiting--
	start()
	if limit := p.watch.TimeLimit; limit > 0 {
		s.out.EndAt(&e.StreamWatch, e.Began().Add(limit), dispatch.Ending{Last: true})
	}
	return true
}
