package watch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// watch is a Watch RPC and its only watch in the registry: both a [registry.RPC] and a
// [registry.Watch].
type watch struct {
	dispatch.StreamWatch
	registry.Registration

	mu      sync.Mutex // guards the Registration
	caller  registry.Caller
	handler *handler
}

// Caller implements [registry.Watch] and [registry.RPC].
func (w *watch) Caller() *registry.Caller { return &w.caller }

// Number implements [registry.Watch].
func (w *watch) Number() registry.Number { return registry.Number{RPC: w.caller.Number()} }

// Mutex implements [registry.Watch].
func (w *watch) Mutex() *sync.Mutex { return &w.mu }

// End implements [registry.Watch]. The client gets a last message with its position.
func (w *watch) End(reason error) { w.handler.end(reason) }

// EndAll implements [registry.RPC].
func (w *watch) EndAll(reason error) { w.handler.end(reason) }

// Len implements [registry.RPC].
func (w *watch) Len() int {
	if registry.StageOf(w) == registry.Begun {
		return 1
	}
	return 0
}

// Each implements [registry.RPC].
func (w *watch) Each(from uint32, yield func(registry.Watch) bool) bool {
	found := w.Find(from)
	return found == nil || yield(found)
}

// Find implements [registry.RPC].
func (w *watch) Find(index uint32) registry.Watch {
	if index == 0 && registry.StageOf(w) == registry.Begun {
		return w
	}
	return nil // not a nil *watch
}

// CheckFence implements [registry.RPC].
func (w *watch) CheckFence(now time.Time) { w.handler.sink.CheckFence(now) }

// Progress implements [registry.Watch].
func (w *watch) Progress() registry.Progress {
	st := w.StreamWatch.Status()
	return registry.Progress{
		Position: st.Sent, CatchingUp: st.CatchingUp || st.Messages == 0 && !w.handler.fromNow, Blocked: st.Waiting || w.handler.sink.IsBlocked(time.Now),
		Messages: st.Messages, Bytes: st.Bytes, Backlog: st.Backlog,
	}
}

// watchContext is how long a watch lasts. It ends when the context of the request ends, and when the
// watch has to end for another reason. A context of the standard library would take several times as
// much memory, and only the wait for the store needs one.
type watchContext struct {
	Context context.Context // of the request, with the values that the interceptors have added

	mu    sync.Mutex
	onEnd func() // guarded by mu; nil: nothing has to end

	reason atomic.Pointer[error] // why the watch ends; nil: it continues. A worker reads it for each message
}

// end ends the context with a reason, unless it has ended already.
func (c *watchContext) end(reason error) {
	c.mu.Lock()
	if !c.reason.CompareAndSwap(nil, &reason) {
		c.mu.Unlock()
		return
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

// waiting returns a context for a wait, which ends when the watch does. It is no child of that of the
// request, which would keep memory for its children.
func (c *watchContext) waiting() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context))
	c.callOnEnd(cancel)
	return ctx, cancel
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
