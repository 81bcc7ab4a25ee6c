package client

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// handlerLoop calls the functions of one handler. Its goroutine belongs to [Informer.Run], which
// waits for it.
type handlerLoop[T any] struct {
	Handler[T]
	informer *Informer[T]
	ctx      context.Context // ends when the handler is removed or Run ends
	cancel   context.CancelFunc
	running  context.Context // of Run
	done     chan struct{}   // closed when the goroutine has ended, or will never begin

	queue      *coalescingQueue[*entry[T]]
	resync     chan struct{} // wakes the goroutine for a resync; buffers one signal
	fileErrors chan error    // buffers the latest error; only Run sends
	retries    *retryQueue[T]

	mu       sync.Mutex
	at       Position // everything up to it was offered; guarded by mu
	failures failures // the objects that the handler has not accepted; guarded by mu

	handled int64 // the number of the last state that was offered; guarded by informer.mu
}

func newHandlerLoop[T any](i *Informer[T], h Handler[T]) *handlerLoop[T] {
	l := &handlerLoop[T]{
		Handler: h, informer: i, done: make(chan struct{}),
		queue: newCoalescingQueue[*entry[T]](), resync: make(chan struct{}, 1), fileErrors: make(chan error, 1),
		retries: newRetryQueue[T](), failures: failures{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// run is the goroutine of the handler.
func (l *handlerLoop[T]) run() {
	defer close(l.done)
	defer l.lastFileError()
	for l.ctx.Err() == nil {
		due, stop := l.retries.timer()
		select {
		case <-l.ctx.Done():
		case <-l.queue.ready:
			if s := l.queue.take(); s != nil {
				l.handle(s)
			}
		case <-due:
			l.retry()
		case <-l.resync:
			l.resyncAll()
		case err := <-l.fileErrors:
			l.fileError(err)
		}
		stop()
	}
}

// handle offers the changes of a step.
func (l *handlerLoop[T]) handle(s *step[*entry[T]]) {
	for c := range s.all() {
		if l.ctx.Err() != nil {
			return
		}
		if l.Error != nil && c.new != nil && c.new.invalid != nil && (c.old == nil || c.old.newest != c.new.newest) {
			l.Error(c.new.newest, c.new.invalid)
		}
		key := c.key()
		r := l.retries.remove(key)
		if r != nil {
			c.old = r.change.old // that is what the handler has
		}
		if err := l.call(c, false); l.givesUp(err) {
			return // without the step, which is not applied
		} else if err != nil {
			l.failed(s, &retry[T]{change: c}, err)
		} else if r != nil {
			l.accepted(key)
		}
	}
	l.mu.Lock()
	l.at = s.to
	l.mu.Unlock()
	l.informer.handled(l, s.number)
}

// retry offers the object again that is due first.
func (l *handlerLoop[T]) retry() {
	if l.ctx.Err() != nil {
		return
	}
	r := l.retries.first()
	l.retries.remove(r.change.key())
	if err := l.call(r.change, r.resync); l.givesUp(err) {
		return
	} else if err != nil {
		l.failed(nil, r, err)
		return
	}
	l.accepted(r.change.key())
}

// resyncAll offers all items that the handler has.
func (l *handlerLoop[T]) resyncAll() {
	current, ok := l.informer.offeredState(l)
	if !ok {
		// The handler is not up to date. Newer changes come first.
		select {
		case l.resync <- struct{}{}:
		default:
		}
		return
	}
	current.entries.Scan(func(key string, e *entry[T]) bool {
		if l.ctx.Err() != nil {
			return false
		}
		if l.retries.has(key) {
			return true // it is offered again anyway
		}
		c := change[*entry[T]]{old: e, new: e, since: e.revision()}
		if err := l.call(c, true); l.givesUp(err) {
			return false
		} else if err != nil {
			l.failed(&step[*entry[T]]{to: current.position}, &retry[T]{change: c, resync: true}, err)
		}
		return true
	})
}

// givesUp reports whether a call has failed, but perhaps only because Run ends. Then the handler has neither
// accepted nor refused the object, so nothing follows: givesUp returns when Run stops the handler.
func (l *handlerLoop[T]) givesUp(err error) bool {
	if err == nil || l.running.Err() == nil {
		return false
	}
	<-l.ctx.Done()
	return true
}

// failed notes that a call of a step, or without a step another attempt, has failed.
func (l *handlerLoop[T]) failed(s *step[*entry[T]], r *retry[T], err error) {
	key, old, revision := r.change.key(), r.change.old, int64(0)
	if r.change.new != nil {
		revision = r.change.new.offered()
	}
	l.retries.add(r)
	i := l.informer
	i.resource.client.log.Warn("handler failed", "resource", i.resource.name, "key", key, "revision", revision,
		"error", err, "retry_in", time.Until(r.due))
	if revision == 0 {
		err = fmt.Errorf("handle the deletion of %q: %w", key, err)
	} else {
		err = fmt.Errorf("handle %q at revision %d: %w", key, revision, err)
	}
	l.mu.Lock()
	if s != nil {
		before := s.before(r.change)
		if old != nil && old.invalid != nil {
			before.Revision = min(before.Revision, old.before) // the handler has not got the newest version of old
		}
		l.failures.add(key, failure{before: before, revision: revision, err: err})
	} else {
		f := l.failures[key]
		f.err = err
		l.failures[key] = f
	}
	l.mu.Unlock()
	i.progressed()
}

// accepted notes that an object that had failed was accepted.
func (l *handlerLoop[T]) accepted(key string) {
	l.mu.Lock()
	delete(l.failures, key)
	l.mu.Unlock()
	l.informer.progressed()
}

// progress returns how far the handler has applied the changes.
func (l *handlerLoop[T]) progress() progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures.progress(l.at)
}

func (l *handlerLoop[T]) fileError(err error) {
	if l.Error != nil {
		l.Error(nil, err)
	}
}

// lastFileError passes on the error of the last attempt to save the state, when Run ends.
func (l *handlerLoop[T]) lastFileError() {
	select {
	case err := <-l.fileErrors:
		l.fileError(err)
	default:
	}
}

// call calls the function of the handler that a change asks for, if any.
func (h *Handler[T]) call(c change[*entry[T]], resync bool) error {
	before, after := c.old != nil && c.old.decoded, c.new != nil && c.new.decoded
	switch {
	case before && after:
		// If the newer version cannot be decoded, the item is still the old one.
		if h.Update != nil && (resync || !sameVersion(c.old.item.Object, c.new.item.Object)) {
			return h.Update(c.old.item, c.new.item)
		}
	case after && h.Add != nil:
		return h.Add(c.new.item)
	case before && !after && h.Delete != nil:
		return h.Delete(c.old.item)
	}
	return nil
}
