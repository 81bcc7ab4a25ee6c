package dispatch

import (
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// bubble runs a test with a dispatcher of a store, and a queue of its only worker.
func bubble(t *testing.T, cfg Config, do func(t *testing.T, d *Dispatcher, store *cachertest.Memory, q *sendqueue.Queue)) {
	synctest.Test(t, func(t *testing.T) {
		codec, err := object.CodecByName("raw")
		if err != nil {
			t.Fatal(err)
		}
		m := cachertest.NewMemory()
		c := cacher.New(cacher.Config{Resource: "test", Store: m, Codec: codec, Preencode: wire.Preencode, Log: slog.New(slog.DiscardHandler)})
		cfg.Source, cfg.Encoder = c, wire.Encoder{}
		d := New(cfg)
		go c.Run(t.Context())
		go d.Run(t.Context())
		workers := sendqueue.Start(1)
		defer workers.Stop()
		synctest.Wait() // the dispatcher has taken the first state
		do(t, d, m, workers.NewQueue())
	})
}

// fullSink has no room, and counts the batches it was offered.
type fullSink struct {
	PullSink
	offered *atomic.Int32
}

func (s fullSink) Send(Message) error { return nil }

func (s fullSink) TrySend(*Batch, time.Time) error {
	s.offered.Add(1)
	return ErrFull
}

// served is a watcher in its group.
type served struct {
	*Watcher
	offered atomic.Int32
	done    chan struct{} // closed when Serve has returned
}

func (s *served) Close() {
	s.Stop()
	<-s.done
	s.Watcher.Close()
}

// serve returns a watcher in its group whose sink has no room.
func (d *Dispatcher) serve(t *testing.T, q *sendqueue.Queue) *served {
	t.Helper()
	s := &served{done: make(chan struct{})}
	s.Watcher = d.Watch(Interest{}, FromNow(d.cfg.Source.State().Position()), Options{}, q, fullSink{offered: &s.offered})
	go func() {
		defer close(s.done)
		if err := s.Serve(); err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
	if !s.waiting.Load() {
		t.Fatal("the watcher is not in its group")
	}
	return s
}

func TestGroupForgetsWatchersThatHaveLeft(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, d *Dispatcher, _ *cachertest.Memory, q *sendqueue.Queue) {
		stays := d.serve(t, q)
		defer stays.Close()
		for range 1000 {
			d.serve(t, q).Close()
		}
		synctest.Wait()
		if g := stays.group; len(g.members) > 2 || g.size.Load() != 1 || g.members[stays.slot].watcher != stays.Watcher {
			t.Errorf("got %d entries for %d members", len(g.members), g.size.Load())
		}
	})
}

// A watcher whose sink is full is offered the next batch when it is ready again, not before.
func TestFullSinkIsOfferedABatchOnce(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, d *Dispatcher, store *cachertest.Memory, q *sendqueue.Queue) {
		s := d.serve(t, q)
		defer s.Close()
		for _, value := range []string{"1", "2"} {
			store.Put("k", value)
			synctest.Wait()
		}
		if n := s.offered.Load(); n != 1 {
			t.Errorf("got %d offers, want 1", n)
		}
		s.Ready()
		synctest.Wait()
		if n := s.offered.Load(); n != 2 {
			t.Errorf("got %d offers after Ready, want 2", n)
		}
	})
}

// Backlog does not disturb the worker. It is zero while the watcher waits in its group, and
// unknown when the watcher has left and the log does not reach back.
func TestBacklogOfAWaitingWatcherIsZero(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, d *Dispatcher, store *cachertest.Memory, q *sendqueue.Queue) {
		for range 10 {
			store.Put("k", "0")
		}
		synctest.Wait()
		s := d.serve(t, q)
		defer s.Close()
		old := object.Position{Epoch: s.epoch, Revision: 1}
		if got := s.Backlog(old); got != (Backlog{}) {
			t.Errorf("while the watcher waits: got %+v", got)
		}
		store.Put("k", "1")
		for range 1_000_000 { // meanwhile the watcher is offered the event, and leaves
			if s.Backlog(old) != (Backlog{}) {
				break
			}
			runtime.Gosched()
		}
		if got := s.Backlog(old); got.Events >= 0 {
			t.Errorf("after the watcher has left: got %+v", got)
		}
	})
}
