package dispatch

import (
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// silent is a follower that is never told anything: it is about who waits.
type silent struct {
	*Watcher
	task sendqueue.Task
	tell func() Reply
}

func (s *silent) Task() *sendqueue.Task          { return &s.task }
func (s *silent) Tell(*Telling, time.Time) Reply { return s.tell() }
func (s *silent) Near() int                      { return 0 }
func (s *silent) Told(*Telling, int, time.Time)  {}
func (s *silent) leaves() Reply                  { return Leaves }
func (s *silent) run(now time.Time)              { s.Poll(now) }

// bubble runs a test with a dispatcher of a store, and a lane for followers.
func bubble(t *testing.T, cfg Config, do func(t *testing.T, d *Dispatcher, store *cachertest.Memory, on *sendqueue.Queue)) {
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

// follow returns a follower that waits.
func (d *Dispatcher) follow(t *testing.T, on *sendqueue.Queue) *silent {
	t.Helper()
	s := &silent{}
	s.task, s.tell = on.NewTask(s.run), s.leaves
	s.Watcher = d.Watch(Interest{}, FromNow(d.cfg.Source.State().Position()), Options{Follower: s})
	for ok := true; ok; {
		var err error
		if _, ok, err = s.Try(); err != nil {
			t.Fatal(err)
		}
	}
	s.task.Ready()
	synctest.Wait()
	if s.slot < 0 {
		t.Fatal("it does not wait")
	}
	return s
}

// Those who come and go while nothing happens leave nothing behind.
func TestWhoHasLeftIsForgotten(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, d *Dispatcher, _ *cachertest.Memory, on *sendqueue.Queue) {
		stays := d.follow(t, on)
		defer stays.Close()
		for range 1000 {
			d.follow(t, on).Close()
		}
		synctest.Wait()
		if c := stays.cohort; len(c.members) > 2 || c.size.Load() != 1 || c.members[stays.slot].watcher != stays.Watcher {
			t.Errorf("%d places are kept, of %d who wait", len(c.members), c.size.Load())
		}
	})
}

// An event that comes after a follower has looked and before it waits does not let it
// wait. From outside the moment cannot be hit.
func TestNoFollowerWaitsThroughAnEvent(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, d *Dispatcher, store *cachertest.Memory, on *sendqueue.Queue) {
		s := d.follow(t, on)
		defer s.Close()
		store.Put("k", "1")
		synctest.Wait() // it was told, and has left
		if s.park() {
			t.Error("it waits through an event")
		}
		told := 0
		s.tell = func() Reply { told++; return Leaves }
		store.Put("k", "2")
		synctest.Wait()
		if told != 1 {
			t.Errorf("who waits was told %d times", told)
		}
	})
}

// Whoever asks what waits for a follower does not get in the way of its worker: it is
// nothing while the follower waits, and not known when it has left and the log does not
// reach back.
func TestNothingWaitsForAFollowerThatWaits(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, d *Dispatcher, store *cachertest.Memory, on *sendqueue.Queue) {
		for range 10 {
			store.Put("k", "0")
		}
		synctest.Wait()
		s := d.follow(t, on)
		defer s.Close()
		long := object.Position{Epoch: s.epoch, Revision: 1}
		if got := s.Backlog(long); got != (Backlog{}) {
			t.Errorf("while it waits: %+v", got)
		}
		store.Put("k", "1")
		for range 1_000_000 { // meanwhile it is told, and leaves
			if s.Backlog(long) != (Backlog{}) {
				break
			}
			runtime.Gosched()
		}
		if got := s.Backlog(long); got.Events >= 0 {
			t.Errorf("when it has left: %+v", got)
		}
	})
}
