package watch

import (
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// watch is a Watch RPC and its only watch in the registry: both a [registry.RPC] and a
// [registry.Watch].
type watch struct {
	// A worker uses the fields of this first block for each message.

	mu         sync.Mutex      // guards the Registration, too
	sending    bool            // guarded by mu: the handler is sending a message
	catchingUp bool            // guarded by mu: a catch-up is under way
	messages   int64           // guarded by mu: number of messages that gRPC has accepted
	bytes      int64           // guarded by mu: size of these messages
	at         object.Position // guarded by mu: position of the latest message; zero before the first

	registry.Registration
	caller  registry.Caller
	watcher backend.Watcher
	handler *handler // that this is a part of

	beingSent *object.Position // guarded by mu: position of the message that the handler is sending; nil: none
}

// Caller implements [registry.Watch] and [registry.RPC].
func (w *watch) Caller() *registry.Caller { return &w.caller }

// Number implements [registry.Watch].
func (w *watch) Number() registry.Number { return registry.Number{RPC: w.caller.Number()} }

// Mutex implements [registry.Watch].
func (w *watch) Mutex() *sync.Mutex { return &w.mu }

// End implements [registry.Watch]. The client gets a last message with its position; see
// handler.serve.
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
func (w *watch) CheckFence(now time.Time) { w.handler.sender.CheckFence(now) }

// beginSend records that the handler begins to send a message. gRPC may block the handler.
func (w *watch) beginSend(at object.Position) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending, w.beingSent = true, &at
}

// note records a message that gRPC has accepted, or that a worker is about to send. It returns
// the revision in the position of the previous message, and whether this is the first message
// of the watch.
func (w *watch) note(h *object.Header, size int) (before object.Revision, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch h.Kind {
	case object.CatchUpBegin:
		w.catchingUp = true
		if h.CatchUp == object.Reset {
			w.BeginReset()
		}
	case object.Synced:
		w.catchingUp = false
	}
	before, first = w.at.Revision, w.messages == 0
	w.at = h.Position
	if w.sending {
		w.sending, w.beingSent = false, nil
	}
	w.messages++
	w.bytes += int64(size)
	return before, first
}

// MayHave implements [registry.Watch].
func (w *watch) MayHave() object.Position {
	if w.sending {
		return *w.beingSent // gRPC may have accepted the message
	}
	return w.at
}

// hasSent reports whether gRPC has accepted a message.
func (w *watch) hasSent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.messages > 0
}

// Progress implements [registry.Watch].
func (w *watch) Progress() registry.Progress {
	w.mu.Lock()
	sending := w.sending
	p := registry.Progress{Position: w.at, CatchingUp: w.catchingUp, Messages: w.messages, Bytes: w.bytes}
	w.mu.Unlock()
	p.Blocked = w.handler.sender.IsBlocked(sending, time.Now)
	if cached, ok := w.watcher.(*dispatch.Watcher); ok && p.Position.Revision > 0 {
		p.Backlog = cached.Backlog(p.Position)
	}
	return p
}

// Unapplied implements [registry.Watch].
func (w *watch) Unapplied(applied object.Position) dispatch.Backlog {
	return w.watcher.(*dispatch.Watcher).Unapplied(applied)
}

// Quiet implements [registry.Watch].
func (w *watch) Quiet(applied object.Position, to object.Revision) bool {
	return w.watcher.Quiet(applied, to)
}
