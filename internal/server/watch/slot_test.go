package watch

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// A watch waits for its slot. However the wait ends, no slot is held or waited for after the
// watch has released it.
func TestWaitingForASnapshotSlot(t *testing.T) {
	for name, c := range map[string]struct {
		free     bool // another watch releases its slot
		patience time.Duration
		end      bool // the watch ends
		want     func(error) bool
	}{
		"slot becomes free": {true, time.Hour, false, func(err error) bool { return err == nil }},
		"patience ends": {false, time.Nanosecond, false, func(err error) bool {
			refused, ok := errors.AsType[*apierr.LimitError](err)
			return ok && refused.Name == apierr.MaxSnapshots
		}},
		"watch ends": {false, time.Hour, true, func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		t.Run(name, func(t *testing.T) {
			l := quota.New(quota.Limits{Snapshots: 1}, slog.New(slog.DiscardHandler))
			other, err := l.SnapshotSlots.Acquire(t.Context(), quota.Client{Address: "other"}, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.end {
				cancel()
			}
			var releasing sync.WaitGroup
			if c.free {
				releasing.Go(other.Release)
			}
			slot := &snapshotSlot{limits: l, patience: c.patience}
			if err := slot.reserve(ctx, true); !c.want(err) || (err == nil) != (slot.held != nil) {
				t.Errorf("got %v", err)
			}
			releasing.Wait()
			slot.release()
			other.Release()
			if taken, waiting, clients := l.SnapshotSlots.Usage(); taken+int64(waiting)+int64(clients) != 0 {
				t.Errorf("got %d slots taken and %d waiting of %d clients, want none", taken, waiting, clients)
			}
		})
	}
}

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
	h.sender.init(&h.ctx, &h.entry, &callingStream{send: func() {
		if sent++; sent != 2 {
			return
		}
		h.sender.slot.release()
		other, err := l.SnapshotSlots.Acquire(t.Context(), quota.Client{Address: "other"}, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(other.Release)
	}})
	h.sender.counters, h.sender.slow = &counters{}, rpc.NewSlowLog(0, slog.New(slog.DiscardHandler))
	h.sender.slot = snapshotSlot{limits: l, patience: time.Nanosecond}
	h.entry.watcher = &scriptedWatcher{kinds: []object.MessageKind{object.CatchUpBegin, object.CatchUpPart, object.Synced}}
	if err := h.serveUncached(); !errors.Is(err, io.EOF) || sent != 3 {
		t.Errorf("got %d messages and then %v, want 3 messages and the end of the watch", sent, err)
	}
}

// A new watch is refused at once if too many wait. A watch that has begun waits in any case.
func TestTooManyNewWatchesThatWaitAreRefused(t *testing.T) {
	l := quota.New(quota.Limits{Snapshots: 1, WaitingSnapshots: 1}, slog.New(slog.DiscardHandler))
	other, err := l.SnapshotSlots.Acquire(t.Context(), quota.Client{Address: "other"}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	for isNew, want := range map[bool]apierr.Limit{true: apierr.MaxWaitingSnapshots, false: apierr.MaxSnapshots} {
		slot := &snapshotSlot{limits: l, patience: time.Nanosecond}
		err := slot.reserve(t.Context(), isNew)
		if refused, ok := errors.AsType[*apierr.LimitError](err); !ok || refused.Name != want {
			t.Errorf("new: %v: got %v, want the limit %s", isNew, err, want)
		}
	}
}
