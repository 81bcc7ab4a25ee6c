package subscribe

import (
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// watch is one watch of a stream. It implements [registry.Watch]. There may be a million of them, so
// it has nothing that the stream has.
type watch struct {
	dispatch.StreamWatch // its index is 0 until the watch begins
	registry.Registration

	stream *stream
}

// Caller implements [registry.Watch].
func (w *watch) Caller() *registry.Caller { return &w.stream.caller }

// Number implements [registry.Watch].
func (w *watch) Number() registry.Number {
	return registry.Number{RPC: w.stream.caller.Number(), Index: w.Index}
}

// Mutex implements [registry.Watch].
func (w *watch) Mutex() *sync.Mutex { return &w.stream.table.mu }

// End implements [registry.Watch].
func (w *watch) End(reason error) {
	s := w.stream
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.closed {
		return
	}
	switch registry.StageOf(w) {
	case registry.Admitted:
		s.drop(w)
		s.refuse(w.StreamWatch.ID, w.Resource(), reason)
		s.finishIfIdle()
	case registry.Begun:
		s.out.End(&w.StreamWatch, endingOf(reason))
	}
}

// Progress implements [registry.Watch].
func (w *watch) Progress() registry.Progress {
	st := w.StreamWatch.Status()
	return registry.Progress{
		Position: st.Sent, CatchingUp: st.CatchingUp, Blocked: st.Waiting || w.stream.sink.IsBlocked(time.Now),
		Messages: st.Messages, Bytes: st.Bytes, Backlog: st.Backlog, Shared: w.Shared(),
	}
}
