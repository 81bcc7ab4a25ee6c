package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
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
			if err := slot.reserve(ctx); !c.want(err) || (err == nil) != (slot.held != nil) {
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
