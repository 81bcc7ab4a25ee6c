package watch

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// scriptedWatcher is a watcher of a resource without a cache. It sends SYNCED last.
type scriptedWatcher struct {
	backend.Watcher
	kinds []object.MessageKind // kinds of the messages that follow
}

// Next implements [backend.UncachedWatcher].
func (w *scriptedWatcher) Next(context.Context) (dispatch.Message, error) {
	if len(w.kinds) == 0 {
		return dispatch.Message{}, io.EOF
	}
	m := dispatch.Message{Header: object.Header{Kind: w.kinds[0], CatchUp: object.Reset}}
	w.kinds = w.kinds[1:]
	return m, nil
}

// ReadsSnapshot implements [backend.UncachedWatcher].
func (w *scriptedWatcher) ReadsSnapshot() bool { return len(w.kinds) > 1 }

// callingStream calls a function for each message.
type callingStream struct {
	grpc.ServerStream
	send func()
}

// SendMsg implements [grpc.ServerStream].
func (s *callingStream) SendMsg(any) error {
	s.send()
	return nil
}

// A watch of a resource without a cache that loses its slot while it sends the last part sends
// SYNCED without a slot.
func TestSyncedNeedsNoSlot(t *testing.T) {
	l := quota.New(quota.Limits{Snapshots: 1}, slog.New(slog.DiscardHandler))
	h := &handler{}
	h.ctx.Context = t.Context()
	sent := 0
	h.init(&callingStream{send: func() {
		if sent++; sent != 2 {
			return
		}
		h.sender.slot.Release(func(written func()) { written() }) // as if the lease had ended
		other, err := l.SnapshotSlots.Acquire(t.Context(), quota.Client{Address: "other"}, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(other.Release)
	}})
	h.sender.counters, h.sender.slow = &registry.Counters{}, rpc.NewSlowLog(0, slog.New(slog.DiscardHandler))
	l.Patience, h.sender.limits = time.Nanosecond, l
	h.watch.caller.Init(peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{}}), false)
	h.watch.watcher = &scriptedWatcher{kinds: []object.MessageKind{object.CatchUpBegin, object.CatchUpPart, object.Synced}}
	if err := h.serveUncached(); !errors.Is(err, io.EOF) || sent != 3 {
		t.Errorf("got %d messages and then %v, want 3 messages and the end of the watch", sent, err)
	}
}
