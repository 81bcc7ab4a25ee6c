package watch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/poll"
)

// sharedWatches has watches of one store that one worker serves. Their streams record the
// messages. With gRPC's streams the test would count gRPC's allocations, too.
type sharedWatches struct {
	store    *cachertest.Memory
	handlers []*handler
	sent     sync.WaitGroup // messages that after waits for

	messages map[*grpcmsg.SharedMessage]int // the number of times that each was sent; used by the worker
	fences   int                            // number of messages that were sent with a fence

	written func(mem.BufferSlice) // gets the messages with a fence; nil: their buffers are freed at once
	counts  registry.Counters
	slow    *rpc.SlowLog

	dispatcher *dispatch.Dispatcher
	workers    *sendqueue.Workers
}

// recordingStream is the stream of one watch.
type recordingStream struct {
	grpc.ServerStream
	watches *sharedWatches
}

// Context implements [grpc.ServerStream].
func (s *recordingStream) Context() context.Context { return context.Background() }

// SendMsg implements [grpc.ServerStream].
func (s *recordingStream) SendMsg(m any) error {
	switch m := m.(type) {
	case *grpcmsg.SharedMessage:
		s.watches.messages[m]++
	case grpcmsg.Pieces:
		s.watches.fences++
		if s.watches.written != nil {
			s.watches.written(mem.BufferSlice(m))
			return nil
		}
		mem.BufferSlice(m).Free()
	}
	if s.watches.written == nil {
		s.watches.sent.Done()
	}
	return nil
}

// startWatches starts watches, each with one of the options.
func startWatches(t *testing.T, watches int, options ...dispatch.Options) *sharedWatches {
	t.Helper()
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	a := &sharedWatches{store: cachertest.NewMemory(), messages: map[*grpcmsg.SharedMessage]int{}}
	c := cacher.New(cacher.Config{Resource: "r", Store: a.store, Codec: codec, Preencode: wire.Preencode, Log: slog.New(slog.DiscardHandler)})
	d := dispatch.New(feed.Config{Source: c, Encoder: wire.Encoder{}})
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
	poll.Until(t, "the dispatcher has seen the first state", func() bool { return d.Stats().DispatchedUpTo.Revision > 0 })
	begin := catchup.FromNow(c.State().Position())
	var q *sendqueue.Queue
	for i := range watches {
		if i%100 == 0 {
			q = workers.NewQueue()
		}
		w := &handler{}
		w.ctx.Context = ctx
		w.init(&recordingStream{watches: a})
		w.sink.counters, w.sink.slow = &a.counts, rpc.NewSlowLog(0, slog.New(slog.DiscardHandler))
		a.handlers = append(a.handlers, w)
		served := make(chan struct{})
		a.after(1, func() { // the first bookmark
			w.begins(d, begin, options[i%len(options)], q)
			go func() {
				defer close(served)
				_ = w.out.Serve()
			}()
		})
		t.Cleanup(func() {
			w.ctx.end(context.Canceled)
			w.out.Abort(context.Canceled)
			<-served
		})
	}
	// A watch that has received an event waits in its group.
	a.after(watches, func() { a.store.Put("key", "first") })
	for _, h := range a.handlers {
		poll.Until(t, "both messages are counted", func() bool {
			messages := h.watch.Progress().Messages
			return messages == 2
		})
	}
	clear(a.messages)
	return a
}

// begins starts the watch of a handler.
func (h *handler) begins(d *dispatch.Dispatcher, b catchup.Begin, o dispatch.Options, q *sendqueue.Queue) {
	h.open(dispatch.StreamConfig{Queue: q, Sink: &h.sink, Solo: true})
	h.start(func() { h.out.Start(d, &h.watch.StreamWatch, feed.Interest{}, b, o) })
}

// after calls a function and waits until a number of messages are sent.
func (a *sharedWatches) after(messages int, do func()) {
	a.sent.Add(messages)
	do()
	a.sent.Wait()
}

func TestAnEventIsEncodedOnceForAllWatches(t *testing.T) {
	const watches, events = 1000, 20
	a := startWatches(t, watches, dispatch.Options{}, dispatch.Options{Latest: true})
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
		t.Errorf("got %d messages for %d events, sent %d times", len(a.messages), events, sent)
	}
}

// Sending an event to a watch allocates nothing, except for a message with a fence.
func TestSendingAllocatesNothingForEachWatch(t *testing.T) {
	const few, many, runs = 10, 1000, 100
	allocations := func(watches int) (allocated float64, fences int) {
		a := startWatches(t, watches, dispatch.Options{}, dispatch.Options{Latest: true})
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
		t.Errorf("got %v allocations for %d watches and %v for %d", least, few, most, many)
	}
}

// A worker sends nothing after a right is revoked, even before the handler has ended the watch.
func TestWorkerSendsNothingWithoutTheRight(t *testing.T) {
	a := startWatches(t, 2, dispatch.Options{})
	denied := a.handlers[0]
	denied.ctx.end(&apierr.DeniedError{})
	a.after(1, func() { a.store.Put("key", "value") })
	if messages := denied.watch.Progress().Messages; messages != 2 {
		t.Errorf("got %d messages, want the two before", messages)
	}
}

// A watch that must end gets no further event. Its last message has the position to resume
// from.
func TestWorkerSendsNothingOfAWatchThatEnds(t *testing.T) {
	a := startWatches(t, 2, dispatch.Options{})
	ending := a.handlers[0]
	a.after(1, func() { ending.ctx.end(apierr.ErrDraining) })
	a.after(1, func() { a.store.Put("key", "value") })
	a.after(1, func() { a.store.Put("key", "more") })
	if messages := ending.watch.Progress().Messages; messages != 2 {
		t.Errorf("got %d messages, want the two before the last one", messages)
	}
}

// Each watch gets every event, although fences are released at any moment.
func TestNoWatchIsLeftWaiting(t *testing.T) {
	const watches, events = 8, 3000
	a := startWatches(t, watches, dispatch.Options{})
	before := a.counts.Events()
	// The connection writes messages while more of them come.
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
	poll.Until(t, "all events are delivered", func() bool { return a.counts.Events()-before >= watches*events })
	close(queue)
	writing.Wait()
	if a.fences == 0 {
		t.Error("the test is too easy: no message had a fence")
	}
}
