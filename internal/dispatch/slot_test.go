package dispatch_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// slotSink records the calls of AcquireSlot and TrySend, and ends the watch after SYNCED.
type slotSink struct {
	member
	begun chan struct{} // closed when the catch-up was announced

	mu    sync.Mutex
	holds bool     // guarded by mu; false after each part
	calls []string // guarded by mu
}

func (s *slotSink) AcquireSlot(_ context.Context, isNew bool) error {
	if !isNew {
		<-s.begun // it was announced at once
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.holds = append(s.calls, "acquire"), true
	return nil
}

func (s *slotSink) HoldsSlot() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds
}

func (s *slotSink) TrySend(r *dispatch.Response, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = s.holds && !r.Part
	for _, e := range r.Entries {
		if e.Batch == nil {
			continue
		}
		if e.First {
			close(s.begun)
		}
		s.calls = append(s.calls, map[object.MessageKind]string{
			object.CatchUpBegin: "begin", object.CatchUpPart: "part", object.Synced: "synced",
		}[e.Batch.Header.Kind])
		if e.Batch.Header.Kind == object.Synced {
			s.EndAll(dispatch.Ending{})
		}
	}
	return nil
}

// slotSink returns a watch that is not served yet.
func (f *fixture) slotSink(i feed.Interest, b catchup.Begin) *slotSink {
	s := &slotSink{begun: make(chan struct{})}
	s.Stream = dispatch.NewStream(dispatch.StreamConfig{Queue: f.workers.NewQueue(), Sink: s, Solo: true})
	s.Start(f.dispatcher, &s.StreamWatch, i, b, dispatch.Options{})
	return s
}

// A stream acquires the slot before it announces a snapshot, and before a part of a RESET or a DELTA, which it
// announces at once. If it loses the slot, it acquires it again before the next part. It does not
// acquire it for SYNCED: a watch that has received everything must not wait again.
func TestOnlyStateNeedsASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{window: 5, messageBytes: 10}) // one event in each part
		for range 10 {
			f.store.Put("k", "v")
			f.store.Put("l", "v")
		}
		synctest.Wait()
		now := f.cacher.State().Position()
		from := func(revision object.Revision) catchup.Begin {
			return catchup.FromPosition(object.Position{Epoch: now.Epoch, Revision: revision})
		}
		nothing := object.ExactKey("nothing")
		for name, test := range map[string]struct {
			scope object.Scope
			begin catchup.Begin
			want  []string
		}{
			"RESET":       {object.Scope{}, catchup.FromSnapshot(0), []string{"acquire", "begin", "part", "acquire", "part", "synced"}},
			"empty RESET": {nothing, catchup.FromSnapshot(0), []string{"acquire", "begin", "synced"}},
			"DELTA":       {object.Scope{}, from(3), []string{"begin", "acquire", "part", "acquire", "part", "synced"}},
			"empty DELTA": {nothing, from(3), []string{"begin", "synced"}},
			"REPLAY":      {object.Scope{}, from(now.Revision - 1), []string{"begin", "part", "synced"}},
		} {
			s := f.slotSink(feed.Interest{Scope: test.scope}, test.begin)
			if err := s.Serve(); err != nil {
				t.Error(err)
			}
			if !slices.Equal(s.calls, test.want) {
				t.Errorf("%s: got calls %v, want %v", name, s.calls, test.want)
			}
		}
	})
}
