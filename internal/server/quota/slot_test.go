package quota

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// A stream whose client takes longer than the lease for a part loses its slot. One whose client
// reads keeps the slot, however many parts it sends, and gives it back when gRPC has written them.
func TestASlotIsLentForEachPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := New(Limits{Snapshots: 2}, slog.New(slog.DiscardHandler))
		s := &Slot{}
		s.Init(limits, Client{Address: "client"})
		used := func(want int64) {
			t.Helper()
			synctest.Wait()
			if n, _, _ := limits.SnapshotSlots.Usage(); n != want || s.IsHeld() != (want == 1) {
				t.Errorf("got %d slots (held: %v), want %d", n, s.IsHeld(), want)
			}
		}
		reserve := func() {
			t.Helper()
			if err := s.Acquire(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			used(1)
		}
		reserve()
		for range 5 {
			s.BeginPart()
			time.Sleep(limits.Lease / 2)
			s.EndPart()
		}
		used(1)
		s.BeginPart()
		time.Sleep(2 * limits.Lease)
		used(0)

		reserve()
		var written func()
		s.Release(func(then func()) { written = then })
		if n, _, _ := limits.SnapshotSlots.Usage(); n != 1 || s.IsHeld() {
			t.Errorf("got %d slots (held: %v) before gRPC has written the parts, want 1 that is not held", n, s.IsHeld())
		}
		written()
		used(0)

		reserve()
		s.Release(func(func()) {}) // gRPC never writes them
		time.Sleep(2 * limits.Lease)
		used(0)

		reserve()
		s.BeginPart()
		s.Close()
		used(0)
		if err := s.Acquire(t.Context(), true); err == nil {
			t.Error("a stream that has ended got a slot")
		}
		used(0)
	})
}

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
			l := New(Limits{Snapshots: 1}, slog.New(slog.DiscardHandler))
			other, err := l.SnapshotSlots.Acquire(t.Context(), Client{Address: "other"}, 1, 0)
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
			l.Patience = c.patience
			slot := &Slot{}
			slot.Init(l, Client{Address: "client"})
			if err := slot.Acquire(ctx, true); !c.want(err) || (err == nil) != slot.IsHeld() {
				t.Errorf("got %v", err)
			}
			releasing.Wait()
			slot.Close()
			other.Release()
			if taken, waiting, clients := l.SnapshotSlots.Usage(); taken+int64(waiting)+int64(clients) != 0 {
				t.Errorf("got %d slots taken and %d waiting of %d clients, want none", taken, waiting, clients)
			}
		})
	}
}

// A new watch is refused at once if too many wait. A watch that has begun waits in any case.
func TestTooManyNewWatchesThatWaitAreRefused(t *testing.T) {
	l := New(Limits{Snapshots: 1, WaitingSnapshots: 1}, slog.New(slog.DiscardHandler))
	other, err := l.SnapshotSlots.Acquire(t.Context(), Client{Address: "other"}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	for isNew, want := range map[bool]apierr.Limit{true: apierr.MaxWaitingSnapshots, false: apierr.MaxSnapshots} {
		l.Patience = time.Nanosecond
		slot := &Slot{}
		slot.Init(l, Client{Address: "client"})
		err := slot.Acquire(t.Context(), isNew)
		if refused, ok := errors.AsType[*apierr.LimitError](err); !ok || refused.Name != want {
			t.Errorf("new: %v: got %v, want the limit %s", isNew, err, want)
		}
	}
}
