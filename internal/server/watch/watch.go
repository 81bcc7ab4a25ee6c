package watch

import (
	"sync"
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
