package watch

import (
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// entry is a Watch RPC and its only watch in the registry: both a [registry.RPC] and a
// [registry.Watch].
type entry struct {
	// A worker uses the fields of this first block for each message.

	mu         sync.Mutex      // guards the Record, too
	sending    bool            // guarded by mu: the handler is sending a message
	catchingUp bool            // guarded by mu: a catch-up is under way
	messages   int64           // guarded by mu: number of messages that gRPC has accepted
	bytes      int64           // guarded by mu: size of these messages
	at         object.Position // guarded by mu: position of the latest message; zero before the first

	registry.Record
	caller  registry.Caller
	watcher backend.Watcher
	handler *handler // that the entry is a part of

	next *object.Position // guarded by mu: position of the message that the handler is sending; nil: none
}

// Caller implements [registry.Watch] and [registry.RPC].
func (e *entry) Caller() *registry.Caller { return &e.caller }

// Number implements [registry.Watch].
func (e *entry) Number() registry.Number { return registry.Number{RPC: e.caller.Number()} }

// Mutex implements [registry.Watch].
func (e *entry) Mutex() *sync.Mutex { return &e.mu }

// End implements [registry.Watch]. The client gets a last message with its position; see
// handler.serve.
func (e *entry) End(reason error) { e.handler.end(reason) }

// EndAll implements [registry.RPC].
func (e *entry) EndAll(reason error) { e.handler.end(reason) }

// Len implements [registry.RPC].
func (e *entry) Len() int {
	if registry.StageOf(e) == registry.Begun {
		return 1
	}
	return 0
}

// Each implements [registry.RPC].
func (e *entry) Each(from uint32, yield func(registry.Watch) bool) bool {
	w := e.Find(from)
	return w == nil || yield(w)
}

// Find implements [registry.RPC].
func (e *entry) Find(index uint32) registry.Watch {
	if index == 0 && registry.StageOf(e) == registry.Begun {
		return e
	}
	return nil // not a nil *entry
}

// CheckFence implements [registry.RPC].
func (e *entry) CheckFence(now time.Time) { e.handler.sender.CheckFence(now) }

// beginSend records that the handler begins to send a message. gRPC may block the handler.
func (e *entry) beginSend(next object.Position) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sending, e.next = true, &next
}

// note records a message that gRPC has accepted, or that a worker is about to send. It returns
// the revision in the position of the previous message, and whether this is the first message
// of the watch.
func (e *entry) note(h *object.Header, size int) (before object.Revision, first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch h.Kind {
	case object.CatchUpBegin:
		e.catchingUp = true
		if h.CatchUp == object.Reset {
			e.BeginReset()
		}
	case object.Synced:
		e.catchingUp = false
	}
	before, first = e.at.Revision, e.messages == 0
	e.at = h.Position
	if e.sending {
		e.sending, e.next = false, nil
	}
	e.messages++
	e.bytes += int64(size)
	return before, first
}

// MayHave implements [registry.Watch].
func (e *entry) MayHave() object.Position {
	if e.sending {
		return *e.next // gRPC may have accepted the message
	}
	return e.at
}

// hasSent reports whether gRPC has accepted a message.
func (e *entry) hasSent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.messages > 0
}

// Progress implements [registry.Watch].
func (e *entry) Progress() registry.Progress {
	e.mu.Lock()
	sending := e.sending
	p := registry.Progress{Position: e.at, CatchingUp: e.catchingUp, Messages: e.messages, Bytes: e.bytes}
	e.mu.Unlock()
	p.Blocked = e.handler.sender.IsBlocked(sending, time.Now)
	if w, ok := e.watcher.(*dispatch.Watcher); ok && p.Position.Revision > 0 {
		p.Backlog = w.Backlog(p.Position)
	}
	return p
}

// Unapplied implements [registry.Watch].
func (e *entry) Unapplied(applied object.Position) dispatch.Backlog {
	return e.watcher.(*dispatch.Watcher).Unapplied(applied)
}

// Quiet implements [registry.Watch].
func (e *entry) Quiet(applied object.Position, to object.Revision) bool {
	return e.watcher.Quiet(applied, to)
}
