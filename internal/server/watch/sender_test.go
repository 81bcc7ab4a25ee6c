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

// audience has the watches of one store, which one worker serves. Their streams record the
// messages instead of gRPC, whose memory would be counted with ours.
type audience struct {
	store   *cachertest.Memory
	watches []*handler
	sent    sync.WaitGroup // messages that after waits for

	messages map[*grpcmsg.EncodedMessage]int // what was sent since it was emptied, of the one worker
	fences   int                             // messages that were sent with a fence

	written func(mem.BufferSlice) // gets the messages with a fence; nil: they are written at once
	counts  counters
	slow    *rpc.SlowLog

	dispatcher *dispatch.Dispatcher
	workers    *sendqueue.Workers
}

// seat is the stream of a watch in the audience.
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
		s.audience.messages[m]++
	case grpcmsg.Encoded:
		s.audience.fences++
		if s.audience.written != nil {
			s.audience.written(mem.BufferSlice(m))
			return nil
		}
		mem.BufferSlice(m).Free()
	}
	if s.audience.written == nil {
		s.audience.sent.Done()
	}
	return nil
}

// seated returns an audience whose watches each have one of the options.
func seated(t *testing.T, watches int, options ...dispatch.Options) *audience {
	t.Helper()
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	a := &audience{store: cachertest.NewMemory(), messages: map[*grpcmsg.EncodedMessage]int{}}
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
	for _, h := range a.watches {
		poll.Until(t, "both messages are counted", func() bool {
			messages, _ := h.entry.sent()
			return messages == 2
		})
	}
	clear(a.messages)
	return a
}

// after calls a function and waits until so many messages are sent.
func (a *audience) after(messages int, do func()) {
	a.sent.Add(messages)
	do()
	a.sent.Wait()
}

func TestAnEventIsEncodedOnceForAllWatches(t *testing.T) {
	const watches, events = 1000, 20
	a := seated(t, watches, dispatch.Options{}, dispatch.Options{Latest: true})
	for range events {
		a.after(watches, func() { a.store.Put("key", "value") })
	}
	sent := a.fences
	for p, n := range a.messages {
		if sent += n; p.Size() == 0 {
			t.Error("got an empty message")
		}
	}
	if len(a.messages) != events || sent < watches*events {
		t.Errorf("%d events were %d messages, sent %d times", events, len(a.messages), sent)
	}
}

// Sending an event to a watch allocates nothing, except for a message with a fence.
func TestSendingAllocatesNothingForEachWatch(t *testing.T) {
	const few, many, runs = 10, 1000, 100
	allocations := func(watches int) (allocated float64, fences int) {
		a := seated(t, watches, dispatch.Options{}, dispatch.Options{Latest: true})
		before := a.fences
		allocated = testing.AllocsPerRun(runs, func() {
			a.after(watches, func() { a.store.Put("key", "value") })
		})
		return allocated, (a.fences - before) / runs
	}
	least, _ := allocations(few)
	most, fences := allocations(many)
	if fences == 0 || fences > many/20 {
		t.Errorf("got %d fences for %d messages", fences, many)
	}
	// A message with a fence is a slice of buffers, and a header of that slice.
	if more := most - least - 2*float64(fences); more > few {
		t.Errorf("%v allocations for %d watches, %v for %d", least, few, most, many)
	}
}

// A sender that waits for its fence becomes ready when the fence is released, even at the
// moment at which it looks. A sender that does not wait does not.
func TestNoReleaseOfAFenceIsMissed(t *testing.T) {
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
		t.Errorf("got %d runs although the sender does not wait", n)
	}
	s.awaitFence()
	if n := runs(); n != 1 {
		t.Errorf("got %d runs for a fence that was released, want 1", n)
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
		t.Errorf("got %d runs after the release, want 1", n)
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

// Each watch gets every event, however writing and new events meet.
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
	if a.fences == 0 {
		t.Error("the test is too easy: nothing was on its way")
	}
}

// OnRelease calls its function once, even if the fence is already released.
func TestOnReleaseCallsOnce(t *testing.T) {
	f, calls := &grpcmsg.WriteFence{}, 0
	f.Init(func() {})
	f.OnRelease(func() { calls++ })
	if calls != 1 {
		t.Errorf("got %d calls for a released fence, want 1", calls)
	}
	f.Ref()
	f.OnRelease(func() { calls++ })
	f.Ref()
	f.Free()
	if calls != 1 {
		t.Errorf("got %d calls while a message is in flight, want 1", calls)
	}
	f.Free()
	f.Ref()
	f.Free()
	if calls != 2 {
		t.Errorf("got %d calls, want one for each OnRelease", calls)
	}
}
