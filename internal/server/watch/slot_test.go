package watch

import (
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

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
	stream := &callingStream{}
	h := admitted(t, stream)
	l.Patience, h.registry.Interceptors.Limits = time.Nanosecond, l
	sent := 0
	stream.send = func() {
		if sent++; sent != 2 {
			return
		}
		h.sink.slot.Release(func(written func()) { written() }) // as if the lease had ended
		other, err := l.SnapshotSlots.Acquire(t.Context(), quota.Client{Address: "other"}, 1, 0)
		if err != nil {
			t.Error(err)
		}
		t.Cleanup(other.Release)
	}
	send := script(t, h, &h.sink)
	for _, kind := range []object.MessageKind{object.CatchUpBegin, object.CatchUpPart, object.Synced} {
		send(&object.Header{Kind: kind, CatchUp: object.Reset})
	}
}
