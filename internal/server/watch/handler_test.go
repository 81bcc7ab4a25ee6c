package watch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/work"
)

// A panic in the cleanup of a watch skips no other step, so a drain still ends.
func TestPanicInCleanupDoesNotKeepTheWatch(t *testing.T) {
	r := registry.New(registry.Config{})
	defer r.Stop()
	h := &handler{registry: r}
	h.init(nil)
	h.watch.caller.Pass = &access.Pass{}
	if err := r.Register(&h.watch); err != nil {
		t.Fatal(err)
	}
	h.unstarted = func() { panic("in a cleanup") }
	if _, ok := errors.AsType[*work.PanicError](h.release()); !ok {
		t.Error("the cleanup reports no panic")
	}
	r.EndAll() // returns when no watch is registered
}

// countingStream counts the calls of Context.
type countingStream struct {
	grpc.ServerStream
	calls int
}

// Context implements [grpc.ServerStream].
func (s *countingStream) Context() context.Context {
	s.calls++
	return context.Background()
}

// The timer that cuts off the stream of a watch is stopped when the watch has ended, even if
// end is called later. Otherwise it would keep the watch in memory.
func TestEndedWatchIsNotCutOff(t *testing.T) {
	for name, end := range map[string]func(h *handler){
		"ended before": func(h *handler) {
			h.end(registry.ErrTimeLimit)
			_ = h.release()
		},
		"ended afterwards": func(h *handler) {
			_ = h.release()
			h.end(registry.ErrTimeLimit)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stream := &countingStream{}
				const grace = 30 * time.Second
				r := registry.New(registry.Config{Grace: grace})
				defer r.Stop()
				h := &handler{registry: r}
				h.init(stream)
				end(h)
				time.Sleep(2 * grace)
				if stream.calls != 0 {
					t.Error("the timer ran after the end of the watch")
				}
			})
		})
	}
}

// The last bookmark and the time limit count from the same moment.
func TestLastBookmarkPrecedesTheTimeLimit(t *testing.T) {
	now := time.Now().Add(-time.Hour)
	for limit, want := range map[time.Duration]time.Duration{0: 0, time.Minute: 59 * time.Second, time.Second: 900 * time.Millisecond} {
		got := registry.LastBookmark(t.Context(), now, limit)
		if limit == 0 && !got.IsZero() || limit > 0 && got.Sub(now) != want {
			t.Errorf("limit %v: got a last bookmark after %v, want after %v", limit, got.Sub(now), want)
		}
	}
}
