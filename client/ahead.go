package client

import (
	"context"
	"sync"
)

// ahead advances a watch while its caller handles an update and the stream is lost. Otherwise the watch would
// be at no server until the caller has taken the messages that wait. A gate would not see it, and would count
// too few watches.
//
// A goroutine takes what has come on the lost stream, and opens the next one. When that has answered, the
// goroutine ends. While it runs, it owns the watcher.
type ahead struct {
	watcher *watcher

	mu      sync.Mutex
	ctx     context.Context // of the watch; guarded by mu
	cancel  func()          // ends ctx; nil: the goroutine was never started; guarded by mu
	changed chan struct{}   // wakes the caller; buffers one signal; nil: the goroutine was never started; guarded by mu
	stream  watchStream     // the latest one; nil: the watch has ended; guarded by mu
	lost    bool            // it has ended, but its messages may wait; guarded by mu
	busy    bool            // the caller handles an update; guarded by mu
	running chan struct{}   // closed when the goroutine has ended; nil: it does not run; guarded by mu
	waiting []waitingUpdate // for the caller; guarded by mu
	bytes   int             // of the messages of waiting; guarded by mu
}

// waitingUpdate is what the caller gets: an update, the end of the watch, or why it was interrupted. It is
// nothing for a message that leads to no update.
type waitingUpdate struct {
	update       *Update
	end          error
	interruption error
	bytes        int         // of the message
	stream       watchStream // counts the message as waiting
}

func (u *waitingUpdate) release() {
	if u.bytes > 0 {
		u.stream.account(-u.bytes)
	}
}

func newAhead(ctx context.Context, w *watcher) *ahead {
	return &ahead{watcher: w, ctx: ctx}
}

// next returns the next update, if there is one yet, or an error if the watch has ended. The caller is not busy
// any more.
func (a *ahead) next() (*Update, error) {
	for {
		a.mu.Lock()
		a.busy = false
		ctx, running, changed := a.ctx, a.running, a.changed
		first, ok := waitingUpdate{}, len(a.waiting) > 0
		if ok {
			first, a.waiting = a.waiting[0], a.waiting[1:]
			a.bytes -= first.bytes
		}
		a.mu.Unlock()
		switch {
		case ok && first.interruption != nil:
			a.watcher.callOnInterruption(first.interruption)
		case ok:
			first.release()
			return first.update, first.end
		case running == nil:
			return a.watcher.step(ctx)
		default:
			select {
			case <-changed:
			case <-running:
			}
		}
	}
}

// begin notes that the caller handles an update until it calls next.
func (a *ahead) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = true
	a.startIfNeeded()
}

// follow notes the stream that the watch has opened.
func (a *ahead) follow(s watchStream) {
	a.mu.Lock()
	a.stream, a.lost = s, false
	a.mu.Unlock()
	s.onEnd(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.stream == s {
			a.lost = true
			a.startIfNeeded()
		}
	})
}

// startIfNeeded starts the goroutine if the stream is lost and the caller is busy. The caller holds mu.
func (a *ahead) startIfNeeded() {
	if !a.busy || !a.lost || a.running != nil || a.ctx.Err() != nil {
		return
	}
	if a.cancel == nil {
		a.ctx, a.cancel = context.WithCancel(a.ctx)
		a.changed = make(chan struct{}, 1)
	}
	a.running = make(chan struct{})
	go a.run(a.ctx, a.running)
}

// run is the goroutine.
func (a *ahead) run(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	w := a.watcher
	w.interrupted = func(err error) { a.put(waitingUpdate{interruption: err}) }
	for {
		a.bound()
		u, err := w.step(ctx)
		if w.received > 0 {
			w.stream.account(w.received)
		}
		if u != nil || err != nil || w.received > 0 {
			a.put(waitingUpdate{update: u, end: err, bytes: w.received, stream: w.stream})
		}
		if err != nil || w.stream != nil && w.answered {
			if a.leave(err != nil) {
				return
			}
		}
	}
}

// bound drops the messages of the lost stream if too much waits already. The next stream begins before them.
func (a *ahead) bound() {
	a.mu.Lock()
	drop := a.lost && a.bytes >= maxBuffer
	a.mu.Unlock()
	if drop && a.watcher.stream != nil {
		a.watcher.stream.discard()
	}
}

// put adds something for the caller.
func (a *ahead) put(u waitingUpdate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, u)
	a.bytes += u.bytes
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// leave gives the watcher back to the caller. It returns false if the goroutine must go on, because the stream
// is lost.
func (a *ahead) leave(ended bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ended {
		a.stream, a.lost = nil, false
	}
	if a.lost {
		return false
	}
	a.running, a.watcher.interrupted = nil, a.watcher.callOnInterruption
	return true
}

// stop ends the goroutine, and waits for it.
func (a *ahead) stop() {
	a.mu.Lock()
	a.stream, a.lost = nil, false // it must not start any more
	cancel, running := a.cancel, a.running
	a.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if running != nil {
		<-running
	}
	for _, u := range a.waiting {
		u.release()
	}
}
