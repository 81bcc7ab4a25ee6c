package dispatch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// reservingSink records the calls of Reserve and Send, and stops the watcher after SYNCED.
type reservingSink struct {
	dispatch.PullSink
	watcher *dispatch.Watcher
	calls   []string
}

func (s *reservingSink) Reserve() error {
	s.calls = append(s.calls, "reserve")
	return nil
}

func (s *reservingSink) Send(m dispatch.Message) error {
	s.calls = append(s.calls, map[object.MessageKind]string{
		object.CatchUpBegin: "begin", object.CatchUpPart: "part", object.Synced: "synced",
	}[m.Header.Kind])
	if m.Header.Kind == object.Synced {
		s.watcher.Stop()
	}
	return nil
}

func (s *reservingSink) TrySend(*dispatch.Batch, time.Time) error { return dispatch.ErrFull }

// Serve reserves before it announces a snapshot, and before each part of a RESET or a DELTA.
// It does not reserve for SYNCED: a watch that has received everything must not wait again.
func TestOnlyStateNeedsAReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{window: 5, messageBytes: 10}) // one event in each part
		for range 10 {
			f.store.Put("k", "v")
			f.store.Put("l", "v")
		}
		synctest.Wait()
		now := f.cacher.State().Position()
		from := func(revision object.Revision) dispatch.Begin {
			return dispatch.FromPosition(object.Position{Epoch: now.Epoch, Revision: revision})
		}
		nothing := object.ExactKey("nothing")
		for name, test := range map[string]struct {
			scope object.Scope
			begin dispatch.Begin
			want  []string
		}{
			"RESET":       {object.Scope{}, dispatch.FromSnapshot(0), []string{"reserve", "begin", "reserve", "part", "reserve", "part", "synced"}},
			"empty RESET": {nothing, dispatch.FromSnapshot(0), []string{"reserve", "begin", "synced"}},
			"DELTA":       {object.Scope{}, from(3), []string{"begin", "reserve", "part", "reserve", "part", "synced"}},
			"empty DELTA": {nothing, from(3), []string{"begin", "synced"}},
			"REPLAY":      {object.Scope{}, from(now.Revision - 1), []string{"begin", "part", "synced"}},
		} {
			s := &reservingSink{}
			s.watcher = f.dispatcher.Watch(dispatch.Interest{Scope: test.scope}, test.begin, dispatch.Options{}, f.workers.NewQueue(), s)
			if err := s.watcher.Serve(); err != nil {
				t.Error(err)
			}
			s.watcher.Close()
			if !slices.Equal(s.calls, test.want) {
				t.Errorf("%s: got calls %v, want %v", name, s.calls, test.want)
			}
		}
	})
}
