package watch

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/test/poll"
)

// transportBuffer has the messages of one stream that gRPC has accepted and not written yet.
// Like gRPC, it blocks the sender at grpcmsg.StreamWindow bytes.
type transportBuffer struct {
	recordingStream
	loses bool // writes everything at once, and never frees a buffer

	mu       sync.Mutex
	room     sync.Cond
	pending  []mem.BufferSlice
	bytes    int
	messages int
	closed   bool
	blocked  int // number of times that gRPC would have blocked a worker
}

func newTransportBuffer(a *sharedWatches) *transportBuffer {
	b := &transportBuffer{recordingStream: recordingStream{watches: a}}
	b.room.L = &b.mu
	return b
}

// SendMsg implements [grpc.ServerStream].
func (b *transportBuffer) SendMsg(m any) error {
	buffers := m.(grpcmsg.Message).Buffers()
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, encoded := m.(*grpcmsg.SharedMessage); b.bytes >= grpcmsg.StreamWindow && encoded {
		b.blocked++ // handlers send no such messages
	}
	for b.bytes >= grpcmsg.StreamWindow && !b.closed {
		b.room.Wait()
	}
	if b.closed {
		return errors.New("the stream is closed")
	}
	b.messages++
	if !b.loses {
		b.pending = append(b.pending, buffers)
		b.bytes += buffers.Len()
	}
	return nil
}

// write writes everything, as if the client had read.
func (b *transportBuffer) write() {
	b.mu.Lock()
	pending := b.pending
	b.pending, b.bytes = nil, 0
	b.room.Broadcast()
	b.mu.Unlock()
	for _, one := range pending {
		one.Free()
	}
}

// writeFirst writes the first message, as if the client had read a little.
func (b *transportBuffer) writeFirst() {
	b.mu.Lock()
	var first mem.BufferSlice
	if len(b.pending) > 0 {
		first = b.pending[0]
		b.pending = b.pending[1:]
		b.bytes -= first.Len()
		b.room.Broadcast()
	}
	b.mu.Unlock()
	first.Free()
}

func (b *transportBuffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.room.Broadcast()
}

func (b *transportBuffer) accepted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.messages
}

// awaitsFence reports whether the worker has a message and waits for the fence.
func awaitsFence(h *handler) bool {
	return h.sink.IsBlocked(func() time.Time { return time.Time{} }) // it is blocked for no other reason
}

// fillUntilOverdue puts events until the window of a watch is full, and makes its fence overdue.
func (a *sharedWatches) fillUntilOverdue(t *testing.T, h *handler, value string) {
	t.Helper()
	poll.Until(t, "the window is full", func() bool {
		if !awaitsFence(h) {
			a.store.Put("key", value)
		}
		return awaitsFence(h)
	})
	h.sink.CheckFence(time.Now().Add(grpcmsg.FenceTimeout - time.Second))
	if h.sink.IsOverdue() {
		t.Fatal("the fence is overdue before the timeout")
	}
	h.sink.CheckFence(time.Now().Add(grpcmsg.FenceTimeout + time.Second))
}

// A watch whose write fence is lost ends with an error. It continues to send until then.
func TestLostFenceEndsTheWatch(t *testing.T) {
	a := startWatches(t, 0)
	h, stream, done := a.serve(t, func(b *transportBuffer) { b.loses = true })
	value := strings.Repeat("x", 2<<10)
	a.fillUntilOverdue(t, h, value)
	before := stream.accepted()
	poll.Until(t, "the watch has ended", func() bool {
		select {
		case err := <-done:
			if !errors.Is(err, grpcmsg.ErrFenceLost) {
				t.Errorf("Serve returned %v, want %v", err, grpcmsg.ErrFenceLost)
			}
			return true
		default:
			a.store.Put("key", value)
			return false
		}
	})
	if stream.accepted() == before {
		t.Error("the watch sent nothing before its end")
	}
}

// A client that does not read keeps its watch, although the fence is overdue, and gets all
// events when it reads again.
func TestClientThatDoesNotReadKeepsItsWatch(t *testing.T) {
	for name, read := range map[string]func(*transportBuffer){
		"then everything at once": (*transportBuffer).write,
		"then a little at a time": (*transportBuffer).writeFirst,
	} {
		t.Run(name, func(t *testing.T) { testClientThatDoesNotRead(t, read) })
	}
}

func testClientThatDoesNotRead(t *testing.T, read func(*transportBuffer)) {
	a := startWatches(t, 0)
	h, stream, done := a.serve(t, func(*transportBuffer) {})
	value := strings.Repeat("x", 2<<10)
	a.fillUntilOverdue(t, h, value)
	last := a.store.Put("key", value)
	for range 200 {
		last = a.store.Put("key", value)
	}
	poll.Until(t, "gRPC blocks the handler", func() bool {
		stream.mu.Lock()
		defer stream.mu.Unlock()
		return stream.bytes >= grpcmsg.StreamWindow
	})
	for range 3 {
		h.sink.CheckFence(time.Now().Add(time.Hour))
	}
	select {
	case err := <-done:
		t.Fatalf("the watch has ended with %v", err)
	default:
	}
	poll.Until(t, "the client has everything", func() bool {
		read(stream)
		return h.watch.Progress().Position.Revision >= last
	})
	stream.write()
	// The worker serves the watch again.
	last = a.store.Put("key", value)
	poll.Until(t, "the client has the next event", func() bool {
		stream.write()
		return h.watch.Progress().Position.Revision >= last
	})
	if h.sink.IsOverdue() {
		t.Error("the fence is still overdue")
	}
	stream.mu.Lock()
	defer stream.mu.Unlock()
	if stream.blocked > 0 {
		t.Errorf("gRPC blocked the worker %d times", stream.blocked)
	}
}

// serve serves one watch whose stream is a transport buffer.
func (a *sharedWatches) serve(t *testing.T, change func(*transportBuffer)) (*handler, *transportBuffer, <-chan error) {
	t.Helper()
	stream := newTransportBuffer(a)
	change(stream)
	h := newHandler(t, a, stream)
	done, served := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(served)
		done <- h.out.Serve()
	}()
	t.Cleanup(func() {
		stream.close()
		h.ctx.end(registry.ErrTimeLimit)
		h.out.Abort(registry.ErrTimeLimit)
		<-served
	})
	return h, stream, done
}

// newHandler returns the handler of a watch with the stream, which is not served yet.
func newHandler(t *testing.T, a *sharedWatches, stream *transportBuffer) *handler {
	t.Helper()
	h := &handler{}
	h.ctx.Context = t.Context()
	h.init(stream)
	h.sink.counters, h.sink.slow = &a.counts, a.slow
	h.begins(a.dispatcher, catchup.FromNow(a.dispatcher.Stats().DispatchedUpTo), dispatch.Options{}, a.workers.NewQueue())
	return h
}
