package dispatch

import (
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/internal/work"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// bubble runs a test with a dispatcher of a store, and a queue of its only worker.
func bubble(t *testing.T, cfg feed.Config, do func(t *testing.T, d *Dispatcher, store *cachertest.Memory, q *sendqueue.Queue)) {
	bubbleWithWindow(t, cfg, cacher.WindowLimits{}, do)
}

// bubbleWithWindow is bubble with limits of the window.
func bubbleWithWindow(t *testing.T, cfg feed.Config, window cacher.WindowLimits, do func(t *testing.T, d *Dispatcher, store *cachertest.Memory, q *sendqueue.Queue)) {
	synctest.Test(t, func(t *testing.T) {
		codec, err := object.CodecByName("raw")
		if err != nil {
			t.Fatal(err)
		}
		m := cachertest.NewMemory()
		c := cacher.New(cacher.Config{
			Resource: "test", Store: m, Codec: codec, Preencode: wire.Preencode, Log: slog.New(slog.DiscardHandler), Window: window,
		})
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

// fullSink has no room from the first batch of its group on, and counts how often it was asked since then.
type fullSink struct {
	Pulled
	full    bool
	offered atomic.Int32
}

func (s *fullSink) HasRoom() bool {
	if s.full {
		s.offered.Add(1)
	}
	return !s.full
}

func (s *fullSink) TakesBatch() bool {
	s.full = true
	return false
}

func (s *fullSink) TrySend(*Response, time.Time) error { return nil }

// served is a watch that is a member of its group.
type served struct {
	*Stream
	*cursor
	sink fullSink
	done chan struct{} // closed when Serve has returned
}

var errClosed = errors.New("closed")

func (s *served) Close() {
	s.Abort(errClosed)
	<-s.done
}

// serve returns a member of a group whose sink has no room.
func (d *Dispatcher) serve(t *testing.T, q *sendqueue.Queue) *served {
	t.Helper()
	s, w := &served{done: make(chan struct{})}, &StreamWatch{}
	s.Stream = NewStream(StreamConfig{Queue: q, Sink: &s.sink, Solo: true})
	s.Start(d, w, feed.Interest{}, catchup.FromNow(d.feeds.Config.Source.State().Position()), Options{})
	go func() {
		defer close(s.done)
		if err := s.Serve(); err != errClosed {
			t.Error(err)
		}
	}()
	synctest.Wait()
	if s.cursor = w.cursor.Load(); !w.IsMember() {
		t.Fatal("the watch is no member of its group")
	}
	return s
}

func TestGroupForgetsWatchersThatHaveLeft(t *testing.T) {
	bubble(t, feed.Config{}, func(t *testing.T, d *Dispatcher, _ *cachertest.Memory, q *sendqueue.Queue) {
		stays := d.serve(t, q)
		defer stays.Close()
		for range 1000 {
			d.serve(t, q).Close()
		}
		synctest.Wait()
		if g := stays.cursor.group; len(g.members) > 2 || g.size != 1 || g.members[stays.place-1].cursor != stays.cursor {
			t.Errorf("got %d entries for %d members", len(g.members), g.size)
		}
	})
}

// A watcher whose sink is full is offered the next batch when it is ready again, not before.
func TestFullSinkIsOfferedABatchOnce(t *testing.T) {
	bubble(t, feed.Config{}, func(t *testing.T, d *Dispatcher, store *cachertest.Memory, q *sendqueue.Queue) {
		s := d.serve(t, q)
		defer s.Close()
		for _, value := range []string{"1", "2"} {
			store.Put("k", value)
			synctest.Wait()
		}
		if n := s.sink.offered.Load(); n != 1 {
			t.Errorf("got %d offers, want 1", n)
		}
		s.Ready()
		synctest.Wait()
		if n := s.sink.offered.Load(); n != 2 {
			t.Errorf("got %d offers after Ready, want 2", n)
		}
	})
}

// Backlog does not disturb the worker. It is zero while the watcher waits in its group, and
// unknown when the watcher has left and the log does not reach back.
func TestBacklogOfAWaitingWatcherIsZero(t *testing.T) {
	bubble(t, feed.Config{}, func(t *testing.T, d *Dispatcher, store *cachertest.Memory, q *sendqueue.Queue) {
		for range 10 {
			store.Put("k", "0")
		}
		synctest.Wait()
		s := d.serve(t, q)
		defer s.Close()
		old := object.Position{Epoch: s.Epoch, Revision: 1}
		if got := s.backlog(old); got != (feed.Backlog{}) {
			t.Errorf("while the watcher waits: got %+v", got)
		}
		store.Put("k", "1")
		for range 1_000_000 { // meanwhile the watcher is offered the event, and leaves
			if s.backlog(old) != (feed.Backlog{}) {
				break
			}
			runtime.Gosched()
		}
		if got := s.backlog(old); got.Events >= 0 {
			t.Errorf("after the watcher has left: got %+v", got)
		}
	})
}

// liveSink receives batches.
type liveSink struct {
	*Pulled
	trySend   func()
	countSent func(n int, now time.Time)
}

func (s liveSink) HasRoom() bool                      { return true }
func (s liveSink) TakesBatch() bool                   { return true }
func (s liveSink) TrySend(*Response, time.Time) error { return nil }

func (s liveSink) SendBatch(MemberBatch, time.Time) (bytes int, err error) {
	s.trySend()
	return 0, nil
}

func (s liveSink) CountSent(_ *Dispatcher, _ *feed.Batch, n, _ int, now time.Time) {
	s.countSent(n, now)
}

// serveIn serves watches in one group. The returned function ends them, and returns the errors of
// Serve.
func (d *Dispatcher) serveIn(t *testing.T, q *sendqueue.Queue, watches int, sink StreamSink) (stop func() []error) {
	t.Helper()
	ended := make(chan error, watches)
	var all []*Stream
	for range watches {
		s, w := NewStream(StreamConfig{Queue: q, Sink: sink, Solo: true}), &StreamWatch{}
		s.Start(d, w, feed.Interest{}, catchup.FromNow(d.feeds.Config.Source.State().Position()), Options{})
		all = append(all, s)
		go func() { ended <- s.Serve() }()
		synctest.Wait()
		if !w.IsMember() {
			t.Fatal("the watch is no member of its group")
		}
	}
	return func() (errs []error) {
		for _, s := range all {
			s.EndAll(Ending{})
		}
		for range all {
			errs = append(errs, <-ended)
		}
		return errs
	}
}

// A panic that is not of one member ends all members of the group. The worker continues.
func TestPanicInAGroupEndsItsWatchers(t *testing.T) {
	bubble(t, feed.Config{}, func(t *testing.T, d *Dispatcher, store *cachertest.Memory, q *sendqueue.Queue) {
		const watchers = membersPerTimestamp + 2
		stop := d.serveIn(t, q, watchers, liveSink{trySend: func() {}, countSent: func(int, time.Time) { panic("bang") }})
		store.Put("k", "1")
		synctest.Wait()
		for _, err := range stop() {
			if _, ok := errors.AsType[*work.PanicError](err); !ok {
				t.Errorf("got %v from Serve, want a PanicError", err)
			}
		}
		offered := 0
		stop = d.serveIn(t, q, 2, liveSink{trySend: func() { offered++ }, countSent: func(int, time.Time) {}})
		store.Put("k", "2")
		synctest.Wait()
		for _, err := range stop() {
			if err != nil {
				t.Errorf("got %v from Serve after a panic in another group, want no error", err)
			}
		}
		if offered != 2 {
			t.Errorf("the worker sent %d messages after the panic, want 2", offered)
		}
	})
}

// The time that CountSent gets includes the sending to all members that it counts.
func TestLatencyIncludesTheSending(t *testing.T) {
	bubble(t, feed.Config{}, func(t *testing.T, d *Dispatcher, store *cachertest.Memory, q *sendqueue.Queue) {
		const watchers = membersPerTimestamp + 2
		var began time.Time
		var took []time.Duration
		stop := d.serveIn(t, q, watchers, liveSink{
			trySend:   func() { time.Sleep(time.Second) },
			countSent: func(_ int, now time.Time) { took = append(took, now.Sub(began)) },
		})
		began = time.Now()
		store.Put("k", "1")
		time.Sleep(time.Minute)
		stop()
		if want := []time.Duration{membersPerTimestamp * time.Second, watchers * time.Second}; !slices.Equal(took, want) {
			t.Errorf("got latencies %v, want %v", took, want)
		}
	})
}

// slowObserver waits in Dispatched until a watcher has received the event.
type slowObserver struct {
	dispatcher *Dispatcher
	received   chan struct{}
	called     bool
}

func (*slowObserver) Wants() bool { return true }

func (o *slowObserver) Dispatched(feed.Dispatched) {
	<-o.received
	o.dispatcher.feeds.Locked(func() { o.called = true }) // waits for ever if the mutex is locked
}

func TestNoWatcherWaitsForTheObserver(t *testing.T) {
	o := &slowObserver{received: make(chan struct{})}
	bubble(t, feed.Config{Observer: o}, func(t *testing.T, d *Dispatcher, store *cachertest.Memory, q *sendqueue.Queue) {
		o.dispatcher, o.received = d, make(chan struct{}) // a channel of the bubble
		stop := d.serveIn(t, q, 1, liveSink{trySend: func() { close(o.received) }, countSent: func(int, time.Time) {}})
		store.Put("k", "1")
		synctest.Wait()
		if !o.called {
			t.Error("the observer was not called")
		}
		stop()
	})
}

// callingObserver uses the dispatcher when it is asked whether it wants reports.
type callingObserver struct {
	dispatcher *Dispatcher
	asked      int
}

func (o *callingObserver) Wants() bool {
	if o.dispatcher == nil {
		return false
	}
	o.dispatcher.feeds.Locked(func() { o.asked++ }) // waits for ever if the mutex is locked
	return false
}

func (*callingObserver) Dispatched(feed.Dispatched) {}

// An observer may call the dispatcher when it is asked whether it wants reports.
func TestObserverIsAskedWithoutALock(t *testing.T) {
	o := &callingObserver{}
	bubble(t, feed.Config{Observer: o}, func(t *testing.T, d *Dispatcher, store *cachertest.Memory, _ *sendqueue.Queue) {
		o.dispatcher = d
		store.Put("k", "1")
		synctest.Wait()
		if o.asked != 1 {
			t.Errorf("asked %d times, want once", o.asked)
		}
	})
}
