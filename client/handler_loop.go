package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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

	first            int64         // the number of the state with which the handler begins; 0: it begins with Run; guarded by informer.mu
	hasState, synced chan struct{} // closed when the handler was called for such a state of the informer

	// What the goroutine does, so that another one can go on with it.
	restarter restarter
	doing     duty
	step      *step[*entry[T]]    // written by the goroutine; guarded by mu for others
	offered   atomic.Int64        // how many changes of the step were offered
	told      int64               // for how many of them Error was called, if it had to be
	rest      []change[*entry[T]] // those that are not offered yet, if a callback has ended the goroutine
	resyncing *state[T]
	resynced  string // the last key of resyncing that was offered
	fileErr   error
}

// duty is something that calls functions of the handler.
type duty uint8

const (
	idle duty = iota
	handling
	retrying
	resyncing
	tellingFileError
)

func newHandlerLoop[T any](i *Informer[T], h Handler[T]) *handlerLoop[T] {
	l := &handlerLoop[T]{
		Handler: h, informer: i, done: make(chan struct{}),
		queue: newCoalescingQueue[*entry[T]](), resync: make(chan struct{}, 1), fileErrors: make(chan error, 1),
		retries: newRetryQueue[T](), failures: failures{}, hasState: make(chan struct{}), synced: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// start starts the goroutine of the handler.
func (l *handlerLoop[T]) start() {
	running := &l.informer.handling
	running.Add(1)
	go l.restarter.run(l.run, func() {
		close(l.done)
		running.Done()
	})
}

// run is the goroutine of the handler.
func (l *handlerLoop[T]) run() {
	l.work() // that a callback has interrupted
	for l.ctx.Err() == nil {
		due, stop := l.retries.timer()
		select {
		case <-l.ctx.Done():
		case <-l.queue.ready:
			if l.take() {
				l.told, l.rest = 0, nil
				l.doing = handling
			}
		case <-due:
			l.doing = retrying
		case <-l.resync:
			l.beginResync()
		case l.fileErr = <-l.fileErrors:
			l.doing = tellingFileError
		}
		stop()
		l.work()
	}
	// The error of the last attempt to save the state, when Run ends.
	select {
	case l.fileErr = <-l.fileErrors:
		l.doing = tellingFileError
		l.work()
	default:
	}
}

// take takes the next step, if there is one.
func (l *handlerLoop[T]) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step = l.queue.take()
	l.offered.Store(0)
	return l.step != nil
}

// work does what is to be done. If a callback ends the goroutine, the next one does the rest.
func (l *handlerLoop[T]) work() {
	switch l.doing {
	case handling:
		l.handle()
	case retrying:
		l.retry()
	case resyncing:
		l.resyncAll()
	case tellingFileError:
		l.tell(nil, l.fileErr)
	}
	if l.step != nil {
		l.mu.Lock()
		l.step = nil
		l.mu.Unlock()
	}
	l.doing, l.rest, l.resyncing, l.fileErr = idle, nil, nil, nil
	l.restarter.exited = false
}

// handle offers the changes of the step.
func (l *handlerLoop[T]) handle() {
	if l.restarter.exited {
		if l.rest == nil {
			l.rest = slices.Collect(l.step.all())[l.offered.Load():]
		}
		for ; len(l.rest) > 0; l.rest = l.rest[1:] {
			if !l.offer(l.rest[0]) {
				return
			}
		}
	} else {
		for c := range l.step.all() {
			if !l.offer(c) {
				return
			}
		}
	}
	l.mu.Lock()
	number := l.step.number
	l.at, l.step = l.step.to, nil
	l.mu.Unlock()
	l.informer.handled(l, number)
}

// offer offers a change of the step. It returns false if the handler gets no further ones. The step is
// not applied then.
func (l *handlerLoop[T]) offer(c change[*entry[T]]) bool {
	if l.ctx.Err() != nil {
		return false
	}
	offered := l.offered.Load()
	if l.told == offered && c.new != nil && c.new.invalid != nil && (c.old == nil || c.old.newest != c.new.newest) {
		l.tell(c.new.newest, c.new.invalid)
	}
	l.told = offered + 1
	key := c.key()
	r := l.retries.byKey[key]
	if r != nil {
		c.old = r.change.old // that is what the handler has
	}
	err := l.call(c, false)
	l.retries.remove(key)
	if l.givesUp(err) {
		return false
	} else if err != nil {
		l.failed(l.step, &retry[T]{change: c}, err)
	} else if r != nil {
		l.accepted(key)
	}
	l.offered.Add(1)
	return true
}

// tell calls Error, if the handler has it.
func (l *handlerLoop[T]) tell(o *Object, failure error) {
	if l.Error == nil {
		return
	}
	err := l.restarter.call(func() error {
		l.Error(o, failure)
		return nil
	})
	if err != nil {
		i := l.informer
		i.resource.client.log.Warn("handler failed", "resource", i.resource.name, "key", keyOf(o), "error", err)
	}
}

func keyOf(o *Object) string {
	if o == nil {
		return ""
	}
	return o.Key
}

// call calls the function of the handler that a change asks for, if any.
func (l *handlerLoop[T]) call(c change[*entry[T]], resync bool) error {
	return l.restarter.call(func() error { return l.Handler.call(c, resync) })
}

// retry offers the object again that is due first.
func (l *handlerLoop[T]) retry() {
	if l.ctx.Err() != nil {
		return
	}
	r := l.retries.first()
	err := l.call(r.change, r.resync)
	l.retries.remove(r.change.key())
	if l.givesUp(err) {
		return
	} else if err != nil {
		l.failed(nil, r, err)
		return
	}
	l.accepted(r.change.key())
}

// beginResync begins to offer all items that the handler has.
func (l *handlerLoop[T]) beginResync() {
	current, ok := l.informer.offeredState(l)
	if ok {
		l.doing, l.resyncing, l.resynced = resyncing, current, ""
		return
	}
	// The handler is not up to date. Newer changes come first.
	select {
	case l.resync <- struct{}{}:
	default:
	}
}

// resyncAll offers all items of resyncing.
func (l *handlerLoop[T]) resyncAll() {
	current := l.resyncing
	current.entries.Ascend(l.resynced, func(key string, e *entry[T]) bool {
		if l.ctx.Err() != nil {
			return false
		}
		if key == l.resynced || l.retries.has(key) {
			return true // it is offered again anyway
		}
		c := change[*entry[T]]{old: e, new: e, since: e.revision()}
		if err := l.call(c, true); l.givesUp(err) {
			return false
		} else if err != nil {
			l.failed(&step[*entry[T]]{to: current.position}, &retry[T]{change: c, resync: true}, err)
		}
		l.resynced = key
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
	rejected := HandlerFailed{Resource: i.resource.name, Key: key, Err: err, Delay: time.Until(r.due)}
	i.resource.client.log.Warn("handler failed", "resource", i.resource.name, "key", key, "revision", revision,
		"error", err, "retry_in", rejected.Delay)
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
	observe(i.resource.client, i.resource.client.observer.HandlerFailed, rejected)
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
