package watch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// watchContext is the context of a watch. It ends when the context of the request ends, and
// when the watch has to end for another reason. A context of the standard library would take
// several times as much memory. Only a goroutine that waits needs the channel of Done, so the
// channel is made on demand, and forgetDone frees it after the wait.
type watchContext struct {
	context.Context // of the request, with the values that the interceptors have added

	mu    sync.Mutex
	done  chan struct{} // guarded by mu; nil until Done is called
	onEnd func()        // guarded by mu

	reason atomic.Pointer[error] // why the watch ends; nil: it continues. A worker reads it for each message
}

// end ends the context with a reason, unless it has ended already.
func (c *watchContext) end(reason error) {
	c.mu.Lock()
	if !c.reason.CompareAndSwap(nil, &reason) {
		c.mu.Unlock()
		return
	}
	if c.done != nil {
		close(c.done)
	}
	onEnd := c.onEnd
	c.mu.Unlock()
	if onEnd != nil {
		onEnd()
	}
}

// callOnEnd calls a function when the context ends, or at once if it has ended. It replaces
// the function of an earlier call.
func (c *watchContext) callOnEnd(f func()) {
	c.mu.Lock()
	c.onEnd = f
	ended := c.reason.Load() != nil
	c.mu.Unlock()
	if ended {
		f()
	}
}

// Done implements [context.Context].
func (c *watchContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.reason.Load() != nil {
			close(c.done)
		}
	}
	return c.done
}

// forgetDone frees the channel of Done. The caller makes sure that no goroutine waits for it.
func (c *watchContext) forgetDone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = nil
}

// why returns why the context has ended, or nil if it has not ended. byServer is false if the
// client cancelled the request or its deadline has passed.
func (c *watchContext) why() (reason error, byServer bool) {
	p := c.reason.Load()
	if p == nil {
		return nil, false
	}
	return *p, !errors.Is(*p, context.Canceled) && !errors.Is(*p, context.DeadlineExceeded)
}

// Err implements [context.Context].
func (c *watchContext) Err() error {
	reason, _ := c.why()
	switch {
	case reason == nil:
		return nil
	case errors.Is(reason, context.DeadlineExceeded):
		return context.DeadlineExceeded
	}
	return context.Canceled
}
