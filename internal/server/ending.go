package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ending is the context of a watch: that of its request, which also ends when the watch
// has to. Those of the library would take several times the memory of this one, and very
// many watches do nothing but wait for it.
type ending struct {
	context.Context

	mu    sync.Mutex
	done  chan struct{} // guarded by mu; nil until somebody asks for it
	ended func()        // guarded by mu; called once when the context ends

	reason atomic.Pointer[error] // nil: it has not ended. A worker looks at it with each message; see watching
}

// end ends the context, if nothing has.
func (e *ending) end(reason error) {
	e.mu.Lock()
	if !e.reason.CompareAndSwap(nil, &reason) {
		e.mu.Unlock()
		return
	}
	if e.done != nil {
		close(e.done)
	}
	ended := e.ended
	e.mu.Unlock()
	if ended != nil {
		ended()
	}
}

// onEnd calls a function when the context ends, or now if it has.
func (e *ending) onEnd(ended func()) {
	e.mu.Lock()
	e.ended = ended
	over := e.reason.Load() != nil
	e.mu.Unlock()
	if over {
		ended()
	}
}

// Done implements [context.Context].
func (e *ending) Done() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done == nil {
		e.done = make(chan struct{})
		if e.reason.Load() != nil {
			close(e.done)
		}
	}
	return e.done
}

// forget forgets what Done has made, which nobody may be waiting for any more.
func (e *ending) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done = nil
}

// why returns what the context was ended with, or nil, and whether it is not what the
// client has done.
func (e *ending) why() (reason error, ours bool) {
	told := e.reason.Load()
	if told == nil {
		return nil, false
	}
	return *told, !errors.Is(*told, context.Canceled) && !errors.Is(*told, context.DeadlineExceeded)
}

// Err implements [context.Context].
func (e *ending) Err() error {
	reason, _ := e.why()
	switch {
	case reason == nil:
		return nil
	case errors.Is(reason, context.DeadlineExceeded):
		return context.DeadlineExceeded
	}
	return context.Canceled
}
