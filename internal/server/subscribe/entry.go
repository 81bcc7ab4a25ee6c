package subscribe

import (
	"sync"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// entry is one watch of a stream. It implements [registry.Watch]. There may be a million of them, so
// it has nothing that the stream has.
type entry struct {
	dispatch.StreamWatch // its index is 0 until the watch begins
	registry.Record

	stream   *stream
	uncached dispatch.DirectWatcher // nil: the resource has a cache
}

// Caller implements [registry.Watch].
func (e *entry) Caller() *registry.Caller { return &e.stream.caller }

// Number implements [registry.Watch].
func (e *entry) Number() registry.Number {
	return registry.Number{RPC: e.stream.caller.Number(), Index: e.Index}
}

// Mutex implements [registry.Watch].
func (e *entry) Mutex() *sync.Mutex { return &e.stream.table.mu }

// End implements [registry.Watch].
func (e *entry) End(reason error) {
	s := e.stream
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.closed {
		return
	}
	switch registry.StageOf(e) {
	case registry.Admitted:
		s.drop(e)
		s.refuse(e.StreamWatch.ID, e.Resource(), reason)
		s.finishIfIdle()
	case registry.Begun:
		s.out.End(&e.StreamWatch, endingOf(reason))
	}
}

// Progress implements [registry.Watch].
func (e *entry) Progress() registry.Progress {
	st := e.StreamWatch.Status()
	return registry.Progress{
		Position: st.Sent, CatchingUp: st.CatchingUp, Blocked: st.Waiting || e.stream.sink.isBlocked(),
		Messages: st.Messages, Bytes: st.Bytes, Backlog: st.Backlog, Shared: e.Shared(),
	}
}

// Quiet implements [registry.Watch]. If the client has applied the latest message of the watch, it has
// applied everything up to the position to which the stream has sent everything, however old the
// log is.
func (e *entry) Quiet(applied object.Position, to object.Revision) bool {
	if w, ok := e.uncached.(backend.Watcher); ok {
		return w.Quiet(applied, to)
	}
	st := e.StreamWatch.Status()
	if applied.Epoch == st.Sent.Epoch && applied.Revision >= st.Sent.Revision && st.Complete.Revision >= to {
		return true
	}
	return e.StreamWatch.Quiet(applied, to)
}
