package watch

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/test/poll"
)

// transportBuffer has the messages of one stream that gRPC has accepted and not written yet.
// Like gRPC, it blocks the sender at grpcWindow bytes.
type transportBuffer struct {
	recordingStream
	loses bool // writes everything at once, and never frees a buffer
	alone bool // only the test sends: where gRPC would block, SendMsg returns errWouldBlock

	mu       sync.Mutex
	room     sync.Cond
	pending  []mem.BufferSlice
	bytes    int
	messages int
	closed   bool
	blocked  int // number of times that gRPC would have blocked a worker
}

var errWouldBlock = errors.New("gRPC would block the sender")

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
	if _, encoded := m.(*grpcmsg.SharedMessage); b.bytes >= grpcWindow && encoded {
		b.blocked++ // handlers send no such messages
	}
	for b.bytes >= grpcWindow && !b.closed {
		if b.alone {
			return errWouldBlock
		}
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

// fillUntilOverdue puts events until the sender of a watch is full, and makes its fence overdue.
func (a *sharedWatches) fillUntilOverdue(t *testing.T, h *handler, value string) {
	t.Helper()
	poll.Until(t, "the sender is full", func() bool {
		if !h.sender.awaitsFence.Load() {
			a.store.Put("key", value)
		}
		return h.sender.awaitsFence.Load()
	})
	h.sender.CheckFence(time.Now().Add(fenceTimeout - time.Second))
	if h.sender.overdue.Load() {
		t.Fatal("the fence is overdue before the timeout")
	}
	h.sender.CheckFence(time.Now().Add(fenceTimeout + time.Second))
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
			if !errors.Is(err, errFenceLost) {
				t.Errorf("Serve returned %v, want %v", err, errFenceLost)
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
		return stream.bytes >= grpcWindow
	})
	for range 3 {
		h.sender.CheckFence(time.Now().Add(time.Hour))
	}
	select {
	case err := <-done:
		t.Fatalf("the watch has ended with %v", err)
	default:
	}
	poll.Until(t, "the client has everything", func() bool {
		read(stream)
		return h.entry.position().Revision >= last
	})
	stream.write()
	// The worker serves the watch again.
	last = a.store.Put("key", value)
	poll.Until(t, "the client has the next event", func() bool {
		stream.write()
		return h.entry.position().Revision >= last
	})
	if h.sender.overdue.Load() {
		t.Error("the fence is still overdue")
	}
	stream.mu.Lock()
	defer stream.mu.Unlock()
	if stream.blocked > 0 {
		t.Errorf("gRPC blocked the worker %d times", stream.blocked)
	}
}

// soleSender returns a sender that only the test uses. The test calls Send as the handler would,
// and trySend, which sends a message of 2 KiB, as a worker would.
func soleSender(t *testing.T) (s *streamSender, stream *transportBuffer, trySend func() error) {
	t.Helper()
	a := startWatches(t, 0)
	stream = newTransportBuffer(a)
	stream.alone = true
	h := newHandler(t, a, stream)
	t.Cleanup(h.sender.watcher.Close)
	b := &dispatch.Batch{Message: bigMessage()}
	return &h.sender, stream, func() error { return h.sender.TrySend(b, time.Now()) }
}

func bigMessage() dispatch.Message {
	m := oneEvent()
	m.Events = [][]byte{make([]byte, 2<<10)}
	return m
}

// When an overdue fence is released, the messages that the handler sent after the fence still
// count as in flight. Otherwise gRPC would block the worker.
func TestReleaseOfAnOverdueFenceLeavesLaterMessagesInFlight(t *testing.T) {
	s, stream, trySend := soleSender(t)
	if err := s.Send(bigMessage()); err != nil {
		t.Fatal(err)
	}
	if err := trySend(); !errors.Is(err, dispatch.ErrFull) {
		t.Fatalf("got %v from the worker while the fence is out, want %v", err, dispatch.ErrFull)
	}
	s.CheckFence(time.Now().Add(2 * fenceTimeout))
	for stream.bytes < grpcWindow-4<<10 {
		if err := s.Send(bigMessage()); err != nil {
			t.Fatal(err)
		}
	}
	stream.writeFirst() // the message with the fence, and nothing else
	if !s.fence.Released() {
		t.Fatal("the fence is not released")
	}
	if err := trySend(); !errors.Is(err, dispatch.ErrNeedsHandler) {
		t.Errorf("got %v from the worker after the fence is released, want %v", err, dispatch.ErrNeedsHandler)
	}
	if err := s.Send(bigMessage()); err != nil {
		t.Fatal(err)
	}
	if err := trySend(); !errors.Is(err, dispatch.ErrFull) {
		t.Errorf("got %v from the worker after a message of the handler, want %v", err, dispatch.ErrFull)
	}
	stream.write()
	if err := trySend(); err != nil {
		t.Errorf("got %v from the worker after everything is written, want no error", err)
	}
}

// A fence is overdue only if a worker waits for it when the whole timeout has passed since the
// message with the fence was sent.
func TestNewFenceIsNotOverdue(t *testing.T) {
	s, stream, trySend := soleSender(t)
	if err := s.Send(bigMessage()); err != nil {
		t.Fatal(err)
	}
	if err := trySend(); !errors.Is(err, dispatch.ErrFull) {
		t.Fatalf("got %v from the worker while the fence is out, want %v", err, dispatch.ErrFull)
	}
	stream.write()
	s.sentAt.Add(-int64(fenceTimeout)) // the first fence went out long ago
	// The handler goes first, with a catch-up.
	for range 3 {
		if err := s.Send(bigMessage()); err != nil {
			t.Fatal(err)
		}
	}
	if s.CheckFence(time.Now().Add(fenceTimeout - time.Second)); s.overdue.Load() {
		t.Error("the handler's fence is overdue at once")
	}
	if s.CheckFence(time.Now().Add(2 * fenceTimeout)); s.overdue.Load() {
		t.Error("a fence is overdue although no worker waits for it")
	}
	// A worker waited, but the handler has the watch again and sends.
	if err := trySend(); !errors.Is(err, dispatch.ErrFull) {
		t.Fatalf("got %v from the worker while the fence is out, want %v", err, dispatch.ErrFull)
	}
	if err := s.Send(bigMessage()); err != nil {
		t.Fatal(err)
	}
	if s.CheckFence(time.Now().Add(2 * fenceTimeout)); s.overdue.Load() {
		t.Error("a fence is overdue although the handler sends")
	}
}

// A watch is blocked while a message waits for its client, but not merely because it sends a
// message.
func TestBlockedMeansThatAMessageWaits(t *testing.T) {
	s, stream, trySend := soleSender(t)
	check := func(what string, sending bool, after time.Duration, want bool) {
		t.Helper()
		if got := s.IsBlocked(sending, func() time.Time { return time.Now().Add(after) }); got != want {
			t.Errorf("%s: got blocked %v, want %v", what, got, want)
		}
	}
	check("before the first message", false, 0, false)
	if err := s.Send(bigMessage()); err != nil {
		t.Fatal(err)
	}
	check("a message was just sent", false, 0, false)
	check("gRPC does not write a message", false, time.Second, true)
	if err := trySend(); !errors.Is(err, dispatch.ErrFull) {
		t.Fatalf("got %v from the worker while the fence is out, want %v", err, dispatch.ErrFull)
	}
	check("a worker has a message and waits", false, 0, true)
	stream.write()
	check("everything is written", false, time.Second, false)
	check("the handler is blocked without a fence", true, time.Second, true)
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
		done <- h.sender.watcher.Serve()
	}()
	t.Cleanup(func() {
		stream.close()
		h.ctx.end(errTimeLimit)
		<-served
		h.sender.watcher.Close()
	})
	return h, stream, done
}

// newHandler returns the handler of a watch with the stream, which is not served yet.
func newHandler(t *testing.T, a *sharedWatches, stream *transportBuffer) *handler {
	t.Helper()
	h := &handler{}
	h.ctx.Context = t.Context()
	h.sender.init(&h.ctx, &h.entry, stream)
	h.sender.counters, h.sender.slow = &a.counts, a.slow
	h.sender.attach(a.dispatcher.Watch(dispatch.Interest{}, dispatch.FromNow(a.dispatcher.Stats().DispatchedUpTo), dispatch.Options{}, a.workers.NewQueue(), &h.sender))
	return h
}
