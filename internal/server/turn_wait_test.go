package server

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

// What runs aside does not wait for a turn, so it has ended, with its stack, while the
// handler does. Whoever ends meanwhile leaves the queue.
func TestNothingAsideWaitsForATurn(t *testing.T) {
	for name, c := range map[string]struct {
		free bool // the place becomes free
		then func(t *testing.T, w *watching)
	}{
		"its turn comes": {true, func(t *testing.T, w *watching) {
			w.turn.wait(t.Context())
			if w.turn.share == nil || w.turn.failure != nil || !w.turn.has(t.Context()) {
				t.Errorf("it has no place: %v", w.turn.failure)
			}
		}},
		"its patience ends": {false, func(t *testing.T, w *watching) {
			w.turn.patience = time.Nanosecond
			w.turn.wait(t.Context())
			refused, ok := errors.AsType[*apierr.LimitError](w.turn.failure)
			if !ok || refused.Reason != apierr.ReasonTooManySnapshots || !w.turn.has(t.Context()) {
				t.Errorf("it fails with %v", w.turn.failure)
			}
		}},
		"it ends": {false, func(t *testing.T, w *watching) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			w.turn.wait(ctx)
			if !errors.Is(w.turn.failure, context.Canceled) {
				t.Errorf("it fails with %v", w.turn.failure)
			}
		}},
		"it does not come to waiting":              {false, func(*testing.T, *watching) {}},
		"it does not come to waiting for its turn": {true, func(*testing.T, *watching) {}},
	} {
		t.Run(name, func(t *testing.T) {
			l := quota.New(quota.Limits{Snapshots: 1}, slog.New(slog.DiscardHandler))
			other, err := l.SnapshotSlots.Acquire(t.Context(), quota.Client{Address: "other"}, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			w := &watching{turn: turn{limits: l, patience: time.Hour, due: true}}
			w.ends.Context = t.Context()
			if err := w.advance(); err != nil || w.turn.asked == nil {
				t.Fatalf("it does not have to wait: %v", err)
			}
			var leaving sync.WaitGroup
			if c.free {
				leaving.Go(other.Release)
			}
			c.then(t, w)
			leaving.Wait()
			w.turn.end()
			other.Release()
			if taken, waiting, clients := l.SnapshotSlots.Usage(); taken+int64(waiting)+int64(clients) != 0 {
				t.Errorf("%d places are taken, %d wait, of %d clients", taken, waiting, clients)
			}
		})
	}
}
