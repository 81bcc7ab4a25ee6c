package watch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/poll"
)

// audience are watches that are told what happens to one store, by one worker. In the
// place of gRPC, whose own memory would be counted with ours, is what notes the messages.
type audience struct {
	store   *cachertest.Memory
	watches []*handler
	told    sync.WaitGroup

	parcels map[*grpcmsg.EncodedMessage]int // what was sent since it was emptied, of the one worker
	flights int                             // messages that were sent with a flight

	written func(mem.BufferSlice) // is given those; nil: they are written at once
	counts  counters
	slow    *rpc.SlowLog

	dispatcher *dispatch.Dispatcher
	workers    *sendqueue.Workers
}

// seat is where a watch of the audience sends to.
type seat struct {
	grpc.ServerStream
	audience *audience
}

// Context implements [grpc.ServerStream].
func (s *seat) Context() context.Context { return context.Background() }

// SendMsg implements [grpc.ServerStream].
func (s *seat) SendMsg(m any) error {
	switch m := m.(type) {
	case *grpcmsg.EncodedMessage:
		s.audience.parcels[m]++
	case grpcmsg.Encoded:
		s.audience.flights++
		if s.audience.written != nil {
			s.audience.written(mem.BufferSlice(m))
			return nil
		}
		mem.BufferSlice(m).Free()
	}
	if s.audience.written == nil {
		s.audience.told.Done()
	}
	return nil
}

// seated returns an audience of watches, each with one of the options.
func seated(t *testing.T, watches int, options ...dispatch.Options) *audience {
	t.Helper()
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	a := &audience{store: cachertest.NewMemory(), parcels: map[*grpcmsg.EncodedMessage]int{}}
	c := cacher.New(cacher.Config{Resource: "r", Store: a.store, Codec: codec, Preencode: wire.Preencode, Log: slog.New(slog.DiscardHandler)})
	d := dispatch.New(dispatch.Config{Source: c, Encoder: wire.Encoder{}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	running.Go(func() { d.Run(ctx) })
	workers := sendqueue.Start(1)
	a.dispatcher, a.workers, a.slow = d, workers, rpc.NewSlowLog(0, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		workers.Stop()
		cancel()
		running.Wait()
	})
	<-c.Ready()
	poll.Until(t, "the dispatcher has seen the first state", func() bool { return d.Stats().Through.Revision > 0 })
	begin := dispatch.FromNow(c.State().Position())
	var q *sendqueue.Queue
	for i := range watches {
		if i%100 == 0 {
			q = workers.NewQueue()
		}
		w := &handler{}
		w.ctx.Context = ctx
		w.sender.init(&w.ctx, &w.entry, &seat{audience: a})
		w.sender.counters, w.sender.slow = &a.counts, rpc.NewSlowLog(0, slog.New(slog.DiscardHandler))
		w.sender.attach(d.Watch(dispatch.Interest{}, begin, options[i%len(options)], q, &w.sender))
		a.watches = append(a.watches, w)
		served := make(chan struct{})
		a.after(1, func() { // the first bookmark
			go func() {
				defer close(served)
				_ = w.sender.watcher.Serve()
			}()
		})
		t.Cleanup(func() {
			w.ctx.end(context.Canceled)
			<-served
			w.sender.watcher.Close()
		})
	}
	// All of them wait once they have received an event.
	a.after(watches, func() { a.store.Put("key", "first") })
	clear(a.parcels)
	return a
}

// after returns when so many messages were sent after something was done.
func (a *audience) after(messages int, do func()) {
	a.told.Add(messages)
	do()
	a.told.Wait()
}

// A message is made into what is sent once, however many watches are told it.
func TestAnEventIsOneParcel(t *testing.T) {
	const watches, events = 1000, 20
	a := seated(t, watches, dispatch.Options{}, dispatch.Options{Latest: true})
	for range events {
		a.after(watches, func() { a.store.Put("key", "value") })
	}
	sent := a.flights
	for p, n := range a.parcels {
		if sent += n; p.Size() == 0 {
			t.Error("a parcel is empty")
		}
	}
	if len(a.parcels) != events || sent < watches*events {
		t.Errorf("%d events were %d parcels, sent %d times", events, len(a.parcels), sent)
	}
}

// To tell a watch of an event costs no memory of ours, but now and then that which finds
// out what was written.
func TestTellingAllocatesNothingForEachWatch(t *testing.T) {
	const few, many, runs = 10, 1000, 100
	allocations := func(watches int) (allocated float64, flights int) {
		a := seated(t, watches, dispatch.Options{}, dispatch.Options{Latest: true})
		before := a.flights
		allocated = testing.AllocsPerRun(runs, func() {
			a.after(watches, func() { a.store.Put("key", "value") })
		})
		return allocated, (a.flights - before) / runs
	}
	least, _ := allocations(few)
	most, flights := allocations(many)
	if flights == 0 || flights > many/20 {
		t.Errorf("of %d messages %d have a flight", many, flights)
	}
	// A message with a flight is a list of pieces, which is handed over by its address.
	if more := most - least - 2*float64(flights); more > few {
		t.Errorf("%v allocations for %d watches, %v for %d", least, few, most, many)
	}
}

// Who waits for a flight is told when it is over, also if that was at the moment at which
// it looked; and who does not wait is not.
func TestNoLandingIsMissed(t *testing.T) {
	workers := sendqueue.Start(1)
	t.Cleanup(workers.Stop)
	on := workers.NewQueue()
	ran := make(chan struct{}, 10)
	s := &streamSender{}
	s.fence.Init(s.fenceReleased)
	ready := on.NewTask(func(time.Time) { ran <- struct{}{} })
	s.ready = ready.Ready
	runs := func() int {
		done := make(chan struct{})
		last := on.NewTask(func(time.Time) { close(done) })
		last.Ready()
		<-done
		n := len(ran)
		for range n {
			<-ran
		}
		return n
	}
	s.fence.Ref()
	s.fence.Free()
	if n := runs(); n != 0 {
		t.Errorf("nobody waits, and it has run %d times", n)
	}
	s.awaitFence()
	if n := runs(); n != 1 {
		t.Errorf("the flight was over, and it has run %d times", n)
	}
	s.fence.Ref()
	s.fence.Ref()
	s.awaitFence()
	s.fence.Free()
	if n := runs(); n != 0 {
		t.Errorf("a message is on its way, and it has run %d times", n)
	}
	s.fence.Free()
	if n := runs(); n != 1 {
		t.Errorf("the flight is over, and it has run %d times", n)
	}
}

// A worker sends nothing after a right is gone, although the handler, which ends the watch,
// has not had its turn yet.
func TestWorkerSendsNothingWithoutTheRight(t *testing.T) {
	a := seated(t, 2, dispatch.Options{})
	denied := a.watches[0]
	denied.ctx.end(&apierr.DeniedError{})
	a.after(1, func() { a.store.Put("key", "value") })
	if messages, _ := denied.entry.sent(); messages != 2 {
		t.Errorf("got %d messages, want the two before", messages)
	}
}

// A watch that has to end gets no further event: its last message says where to resume.
func TestWorkerSendsNothingOfAWatchThatEnds(t *testing.T) {
	a := seated(t, 2, dispatch.Options{})
	ending := a.watches[0]
	ending.ctx.end(apierr.ErrDraining)
	a.after(1, func() { a.store.Put("key", "value") })
	a.after(1, func() { a.store.Put("key", "more") })
	if messages, _ := ending.entry.sent(); messages != 2 {
		t.Errorf("got %d messages, want the two before", messages)
	}
}

// However what is written and what happens meet, a watch is told everything: none is left
// that waits for what has been.
func TestNoWatchIsLeftWaiting(t *testing.T) {
	const watches, events = 8, 3000
	a := seated(t, watches, dispatch.Options{})
	before := a.counts.liveEvents.Load()
	// A connection that writes what it has while more comes.
	queue := make(chan mem.BufferSlice, watches*events)
	var writing sync.WaitGroup
	for range 2 {
		writing.Go(func() {
			for m := range queue {
				runtime.Gosched()
				m.Free()
			}
		})
	}
	a.written = func(m mem.BufferSlice) { queue <- m }
	value := strings.Repeat("x", 700)
	for i := range events {
		a.store.Put(object.Key(fmt.Sprint("key ", i)), value)
		if i%10 == 0 {
			runtime.Gosched()
		}
	}
	poll.Until(t, "all events are delivered", func() bool { return a.counts.liveEvents.Load()-before >= watches*events })
	close(queue)
	writing.Wait()
	if a.flights == 0 {
		t.Error("the test is too easy: nothing was on its way")
	}
}

// Who asks when a flight is over is told once, though it be over already.
func TestTheEndOfAFlightIsToldOnce(t *testing.T) {
	f, told := &grpcmsg.WriteFence{}, 0
	f.Init(func() {})
	f.OnRelease(func() { told++ })
	if told != 1 {
		t.Errorf("nothing is on its way, and it was told %d times", told)
	}
	f.Ref()
	f.OnRelease(func() { told++ })
	f.Ref()
	f.Free()
	if told != 1 {
		t.Errorf("a message is on its way, and it was told %d times", told)
	}
	f.Free()
	f.Ref()
	f.Free()
	if told != 2 {
		t.Errorf("it was told %d times, want once for each that asked", told)
	}
}
