package client

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// informerRun is what [Informer.Run] does in a goroutine of its own: it takes steps from the watch,
// and calls decoders.
type informerRun[T any] struct {
	*Informer[T]
	ctx       context.Context
	member    *member
	saver     *saver[T]
	confirmer *confirmer
	resync    *time.Ticker // nil: never
	loaded    bool         // the saver has started

	interruptions []*interruptionLoop

	// What the goroutine does, so that another one can go on with it.
	taken   *step[*Object]
	made    *step[*entry[T]]  // of the changes of taken that were applied
	applied int               // their number
	rest    []change[*Object] // the others, if a decoder has ended the goroutine

	ended chan struct{} // closed at the end
	err   error         // set before ended is closed
}

func (i *Informer[T]) startRun(ctx context.Context) *informerRun[T] {
	w := i.resource.newWatcher(i.config.watch)
	r := &informerRun[T]{Informer: i, ctx: ctx, ended: make(chan struct{})}
	for _, call := range w.onInterruption {
		r.interruptions = append(r.interruptions, i.startInterruptionLoop(ctx, call))
	}
	var saved *objectState
	r.saver, saved = i.newSaver()
	r.member = i.resource.client.joinWatch(ctx, w, saved, i.progress, r.interrupted)
	i.member.Store(r.member)
	r.confirmer = newConfirmer(ctx, r.member.joined && i.consistency == nil, i.resource.newWatcher(i.config.watch))
	if i.config.resync > 0 {
		r.resync = time.NewTicker(i.config.resync)
	}
	go i.restarter.run(r.loop, r.end)
	return r
}

// wait waits for the end and returns its error. It does not wait for ever for a decoder.
func (r *informerRun[T]) wait() error {
	closed := r.resource.client.open
	select {
	case <-r.ended:
	case <-r.ctx.Done():
	case <-closed.Done():
	}
	if endsInTime(r.ended) {
		return r.err
	}
	r.resource.client.log.Warn("the informer has ended, but a decoder still runs", "resource", r.resource.name)
	if r.ctx.Err() != nil {
		return fmt.Errorf("watch %s: %w", r.resource.name, context.Cause(r.ctx))
	}
	return fmt.Errorf("watch %s: %w", r.resource.name, ErrClosed)
}

// interrupted notes that the watch has lost its server.
func (r *informerRun[T]) interrupted(at time.Time, err error) {
	r.fresh.interrupt(at)
	if err == nil {
		return // it was before the informer has joined
	}
	for _, l := range r.interruptions {
		l.tell(err)
	}
}

// loop is the goroutine.
func (r *informerRun[T]) loop() {
	if !r.loaded {
		r.saver.start()
		r.loaded = true
	}
	r.work() // that a decoder has interrupted
	var resync <-chan time.Time
	if r.resync != nil {
		resync = r.resync.C
	}
	for r.err == nil {
		select {
		case <-r.member.queue.ready:
			r.take(r.member.queue.take())
		case r.confirmation = <-r.confirmer.result:
			at := r.next.position
			r.take(&step[*Object]{from: at, to: at, asOf: r.next.asOf})
		case <-resync:
			r.resyncHandlers()
		case err := <-r.saver.failures:
			r.reportFile(err)
		case <-r.member.watch.ended:
			r.err = fmt.Errorf("watch %s: %w", r.resource.name, r.member.watch.err)
		case <-r.ctx.Done():
			r.err = fmt.Errorf("watch %s: %w", r.resource.name, context.Cause(r.ctx))
		}
		r.work()
	}
}

// end ends what the run has started.
func (r *informerRun[T]) end() {
	if r.resync != nil {
		r.resync.Stop()
	}
	r.confirmer.stop()
	r.member.leave()
	r.saver.stop()
	close(r.ended)
}

// take makes work handle a step, if there is one.
func (r *informerRun[T]) take(s *step[*Object]) {
	if s == nil {
		return
	}
	r.taken, r.made = s, &step[*entry[T]]{from: s.from, to: s.to, synced: s.synced}
	r.applied, r.rest = 0, nil
}

// work handles the step that was taken, if there is one. If a decoder ends the goroutine, the next one does the rest.
func (r *informerRun[T]) work() {
	if r.taken == nil {
		return
	}
	r.handle()
	r.taken, r.made, r.rest = nil, nil, nil
	r.saver.stateChanged()
	r.confirmer.start(r.next.position)
}

// handle publishes the state that the step leads to.
func (r *informerRun[T]) handle() {
	s := r.taken
	if r.restarter.exited {
		if r.rest == nil {
			r.rest = slices.Collect(s.all())[r.applied:]
		}
		for ; len(r.rest) > 0; r.rest = r.rest[1:] {
			r.applyNext(r.rest[0])
		}
	} else {
		for c := range s.all() {
			r.applyNext(c)
		}
	}
	r.next.position, r.next.asOf = s.to, s.asOf
	if r.confirmation.provesFresh(s.to) && s.asOf.Before(r.confirmation.asOf) {
		r.next.asOf = r.confirmation.asOf
	}
	r.publish(r.made)
}

func (r *informerRun[T]) applyNext(c change[*Object]) {
	if c, ok := r.apply(c, r.taken.before(c)); ok {
		r.made.changes = append(r.made.changes, c)
	}
	r.applied++
}
