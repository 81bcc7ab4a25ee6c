package subscribe

import (
	"sync"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/work"
)

// waitingStart is a watch that waits for etcd before it starts.
type waitingStart struct {
	watch   *watch
	request *request.Watch // must not be modified
}

// waits are the waits for etcd of the starts of a stream. Starts that wait for the same share a
// goroutine. Those that come while it waits share its next wait, because a wait that began
// earlier is not fresh enough for them.
type waits struct {
	goroutines chan struct{} // has an element for each goroutine
	running    sync.WaitGroup

	mu     sync.Mutex
	later  map[backend.Freshness][]*waitingStart // guarded by mu: those of the next wait; absent: no goroutine
	closed bool                                  // guarded by mu
}

// maxWaits limits the goroutines of a stream that wait for etcd. A client needs more only if its
// starts wait for many different revisions. The server then reads its next request later.
const maxWaits = 64

func (w *waits) init() {
	w.goroutines, w.later = make(chan struct{}, maxWaits), map[backend.Freshness][]*waitingStart{}
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
func (s *stream) awaitStore(p *waitingStart) error {
	waits, resource := &s.waits, p.watch.Backend()
	var key backend.Freshness
	serve := func() error { s.startUncached(p); return nil }
	if resource.Direct == nil {
		key = resource.FreshnessOf(p.request)
		if waits.addToLater(key, p) {
			return nil
		}
		serve = func() error { s.serveWait(key); return nil }
	}
	select {
	case waits.goroutines <- struct{}{}:
	case <-s.ending.Done():
		return s.ending.Err()
	}
	waits.mu.Lock()
	defer waits.mu.Unlock()
	if waits.closed {
		return nil
	}
	if resource.Direct == nil {
		waits.later[key] = []*waitingStart{p}
	}
	waits.running.Go(func() {
		if err := work.Guard(serve); err != nil {
			s.out.Abort(err)
		}
		<-waits.goroutines
	})
	return nil
}

// addToLater adds a watch to the next wait of a goroutine. It returns false if there is no goroutine for
// the key.
func (w *waits) addToLater(key backend.Freshness, p *waitingStart) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	others, ok := w.later[key]
	if ok {
		w.later[key] = append(others, p)
	}
	return ok
}

// take returns the watches of the next wait. If there are none, it returns nil, and the goroutine
// must end.
func (w *waits) take(key backend.Freshness) []*waitingStart {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.later[key]
	if len(all) == 0 {
		delete(w.later, key)
		return nil
	}
	w.later[key] = nil
	return all
}

// serveWait waits for etcd and starts watches, until none is left that waits for the same.
func (s *stream) serveWait(key backend.Freshness) {
	for all := s.waits.take(key); all != nil; all = s.waits.take(key) {
		begin, err := all[0].watch.Backend().Await(s.ending, all[0].request)
		for i := range all {
			w, parsed := all[i].watch, all[i].request
			s.startAfterWait(all[i], err, func() {
				s.out.Start(w.Backend().Dispatcher, &w.StreamWatch, parsed.Interest, backend.BeginOf(parsed, begin), parsed.Options)
			})
		}
	}
}

// startUncached waits for etcd and starts a watch of a resource without a cache.
func (s *stream) startUncached(p *waitingStart) {
	source, err := p.watch.Backend().WatchDirect(s.ending, p.request, s.last)
	if err != nil {
		s.startAfterWait(p, err, nil)
		return
	}
	if !s.startAfterWait(p, nil, func() { s.out.StartDirect(&p.watch.StreamWatch, source) }) {
		source.Close()
	}
}

// startAfterWait starts a watch after its wait for etcd, or refuses it with the error of the wait.
// It does nothing if the watch has ended meanwhile. It reports whether the watch was started.
func (s *stream) startAfterWait(p *waitingStart, err error, start func()) bool {
	s.calls.Lock()
	defer s.calls.Unlock()
	w := p.watch
	if registry.StageOf(w) != registry.Admitted || s.closed {
		return false
	}
	defer s.finishIfIdle()
	if err == nil {
		if !s.table.begin(w) {
			s.drop(w)
			s.out.Abort(apierr.ErrDraining) // the stream has used up all indexes
			return false
		}
		err = s.service.registry.Begin(w)
	}
	if err != nil {
		s.table.remove(&w.StreamWatch)
		s.drop(w)
		s.refuse(w.StreamWatch.ID, w.Resource(), err)
		return false
	}
	s.waiting--
	start()
	if limit := p.request.TimeLimit; limit > 0 {
		s.out.EndAt(&w.StreamWatch, w.Began().Add(limit), dispatch.Ending{Last: true})
	}
	return true
}
