package client

import (
	"context"
	"slices"
)

// Handler receives the changes of an informer. Any of its functions may be nil. A handler
// has a goroutine of its own, which calls its functions one at a time. So a handler never
// delays the informer or another handler.
//
// For each key a handler gets Add, then any number of Update, then Delete, and so on
// again. It never gets Update or Delete for an item that it was not given, nor Add for
// one that it has. Changes come in order of their revisions; those that replace the
// state after a long interruption come with the deletions first, then in order of keys.
// Revisions grow, except where a new epoch begins.
//
// What happens while a handler runs waits for it, merged by key: several changes of an object
// come as one, and a change that was undone does not come at all. The same happens after an
// interruption, and if the servers have lost changes ([Update.Delta]). An unchanged object is
// never reported, except by [Resync].
//
// When a handler is called, the [Lister] already has that state, or a newer one.
//
// A call that returns an error counts as not made. The object is offered again, first after
// about a second, later about once a minute, from what the handler has to the latest version,
// until a call succeeds. A newer version is offered at once. All other objects go on. So while
// an object fails, its changes come later than those of others with higher revisions.
//
// A function that ends its goroutine with runtime.Goexit, as testing.T.FailNow does, has failed. A
// panic ends the program.
type Handler[T any] struct {
	// Add is called when an item comes into view.
	Add func(Item[T]) error
	// Update is called when an item has changed. Calls that [Resync] causes have the
	// same item twice.
	Update func(old, item Item[T]) error
	// Delete is called when an item has left the view, with its last content.
	Delete func(old Item[T]) error
	// Error is called for an object that cannot be decoded. The informer keeps the
	// last version that was decoded, if there is one, with Invalid set. Without an
	// object, the error is about the file of [LastKnownGood].
	Error func(*Object, error)
}

// Registration is a handler that was added to an informer.
type Registration struct {
	remove func()
	synced func(context.Context) error
	done   <-chan struct{}
}

// WaitForSync is [Informer.WaitForSync] for this handler alone. It also returns an error if the
// handler was removed.
func (r *Registration) WaitForSync(ctx context.Context) error { return r.synced(ctx) }

// Remove removes the handler. It does not wait for a call that is running, so the handler itself
// may remove it. The handler gets no further calls, and its failures no longer count.
func (r *Registration) Remove() { r.remove() }

// Done returns a channel that is closed when the handler was removed or Run has ended, and the
// last call has returned.
func (r *Registration) Done() <-chan struct{} { return r.done }

// AddHandler adds a handler. A handler that is added after the state is known first
// gets an Add for each item of the current state, then all later changes;
// [Registration.WaitForSync] waits for the first part.
func (i *Informer[T]) AddHandler(h Handler[T]) *Registration {
	l := newHandlerLoop(i, h)
	i.mu.Lock()
	defer i.mu.Unlock()
	switch i.phase {
	case informerEnded:
		l.cancel()
		close(l.done)
	case informerRuns:
		i.start(l)
		fallthrough
	default:
		i.handlers = append(i.handlers, l)
	}
	return &Registration{
		remove: func() { i.removeHandler(l) }, done: l.done,
		synced: func(ctx context.Context) error { return i.waitForHandler(ctx, l) },
	}
}

func (i *Informer[T]) removeHandler(l *handlerLoop[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	l.cancel()
	n := slices.Index(i.handlers, l)
	if n < 0 {
		return // it was removed before
	}
	i.handlers = slices.Delete(i.handlers, n, n+1)
	select {
	case <-l.fileErrors: // it gets no further calls
	default:
	}
	if i.phase == informerNew {
		close(l.done) // it has no goroutine
	}
	i.progressed()
}

// start starts the goroutine of a handler. The caller holds mu.
func (i *Informer[T]) start(l *handlerLoop[T]) {
	if current := i.current.Load(); current.position.Revision > 0 {
		l.first = i.published
		l.queue.beginWith(&step[*entry[T]]{
			to: current.position, asOf: current.asOf, number: i.published,
			begin: func(yield func(*entry[T]) bool) {
				current.entries.Scan(func(_ string, e *entry[T]) bool { return yield(e) })
			},
		})
	}
	l.running = i.ctx
	l.start()
}

// startHandlers starts the handlers that were added before Run. It returns false if Run was
// called before.
func (i *Informer[T]) startHandlers(ctx context.Context) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase != informerNew {
		return false
	}
	i.phase, i.ctx = informerRuns, ctx
	close(i.started)
	for _, l := range i.handlers {
		i.start(l)
	}
	return true
}

// stopHandlers stops the handlers, and waits until their last calls and those of OnInterruption have returned, but
// not for ever.
func (i *Informer[T]) stopHandlers() {
	i.mu.Lock()
	i.phase = informerEnded
	for _, l := range i.handlers {
		l.cancel()
	}
	i.mu.Unlock()
	stopped := make(chan struct{})
	go func() {
		i.handling.Wait()
		close(stopped)
	}()
	if !endsInTime(stopped) {
		i.resource.client.log.Warn("the informer has ended, but a handler or callback still runs", "resource", i.resource.name)
	}
}

// handled notes that a handler was offered everything up to a state.
func (i *Informer[T]) handled(l *handlerLoop[T], number int64) {
	i.mu.Lock()
	if i.firstState > 0 && number >= max(i.firstState, l.first) {
		closeOnce(l.hasState)
	}
	if i.firstFresh > 0 && number >= max(i.firstFresh, l.first) {
		closeOnce(l.synced)
	}
	i.mu.Unlock()
	i.progressed()
}

// offeredState returns the present state if the handler was offered everything up to it.
func (i *Informer[T]) offeredState(l *handlerLoop[T]) (*state[T], bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current.Load(), l.queue.empty()
}

// resyncHandlers passes every item to all handlers, as an Update without a change.
func (i *Informer[T]) resyncHandlers() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range i.handlers {
		select {
		case l.resync <- struct{}{}:
		default: // the handler has not begun with the last one
		}
	}
}

// logInvalid logs an object that cannot be decoded.
func (i *Informer[T]) logInvalid(o *Object, err error) {
	i.resource.client.log.Warn("cannot decode object",
		"resource", i.resource.name, "key", o.Key, "revision", o.ModRevision, "error", err)
}

// reportFile reports a file of the last known good state that cannot be used.
func (i *Informer[T]) reportFile(err error) {
	i.resource.client.log.Warn("last known good state unavailable", "resource", i.resource.name, "error", err)
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range i.handlers {
		select {
		case <-l.fileErrors: // the handler is busy; the latest error is enough
		default:
		}
		l.fileErrors <- err
	}
}
