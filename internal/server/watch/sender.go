package watch

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// streamSender sends the messages of a watch to its gRPC stream. It is the [dispatch.Sink] of
// the watcher. The handler calls Send, which waits while the client does not read. A worker
// calls TrySend, which must not wait.
//
// gRPC blocks a sender while 64 KiB of its stream have not been written to the buffer of the
// connection. So a worker limits the bytes in flight. When 4 KiB or more are in flight, the
// worker appends a write fence to a message. While 16 KiB or more are in flight, the worker
// sends nothing until gRPC releases the fence. So if a client does not read, a few of its
// messages are in flight, and it costs the worker nothing.
//
// A fence is overdue if a worker waits for it and gRPC has not released it within a minute.
// Either the client does not read, or gRPC has lost the fence. The handler then sends the
// messages without fences. It does so until the fence is released, or until gRPC has accepted
// so many bytes after the fence that it must have written everything before them. Then gRPC
// has lost the fence, and the watch ends.
type streamSender struct {
	stream grpc.ServerStream
	tracer backend.WriteTracer // nil: none

	inFlight     int32        // bytes that gRPC may not have written yet
	beforeFence  int32        // the part of inFlight that was sent up to the fence; 0: gRPC has no fence
	afterOverdue int32        // bytes sent after an overdue fence; counted up to grpcWindow
	broken       bool         // a message could not be sent
	awaitsFence  atomic.Bool  // a worker has a message to send when the fence is released
	overdue      atomic.Bool  // the fence was not released within fenceTimeout
	sentAt       atomic.Int64 // time of the latest message that had a fence or came from the handler; Unix nanoseconds

	ctx      *watchContext
	entry    *Entry
	counters *counters
	watcher  *dispatch.Watcher // nil: the resource has no cache
	ready    func()            // makes the worker serve the watcher again
	fence    grpcmsg.WriteFence

	slot snapshotSlot
	slow *rpc.SlowLog

	// notCounted is the part of the time since entry.since that does not count for the slow
	// log. This is the time before the present catch-up began, and the time in which messages
	// of the catch-up waited for the client.
	notCounted time.Duration
}

const (
	// maxInFlight limits the bytes in flight: a worker sends only while fewer bytes are in
	// flight. The limit is far below the 64 KiB of gRPC, because each message in flight costs
	// some memory besides the events that it shares with other watches.
	maxInFlight = 16 << 10

	// fenceBytes is the number of bytes in flight from which a worker appends a fence to a
	// message. A fence costs memory until gRPC has released it, so not every message has one.
	fenceBytes = 4 << 10

	// grpcWindow is how many bytes of a stream gRPC accepts before it blocks the sender.
	grpcWindow = 64 << 10

	// fenceTimeout is how long gRPC may take to release a fence before the fence is overdue.
	// If the peer is gone, the connection has ended by then, because keepalive or the timeout
	// of TCP ends it after 30 s.
	fenceTimeout = time.Minute

	// blockedAfter is how long gRPC may take to write a message to the buffer of the
	// connection before operators see that the watch is blocked.
	blockedAfter = 100 * time.Millisecond
)

// errFenceLost ends a watch whose write fence gRPC has lost.
var errFenceLost = status.Error(codes.Internal, "internal error: the server does not know whether it sent all messages of this watch; resume the watch from your last position")

// init sets the fields that all methods need.
func (s *streamSender) init(ctx *watchContext, entry *Entry, stream grpc.ServerStream) {
	s.ctx, s.entry, s.stream = ctx, entry, stream
}

// attach sets the watcher, before it is served.
func (s *streamSender) attach(w *dispatch.Watcher) {
	s.watcher, s.ready = w, w.Ready
	s.fence.Init(s.fenceReleased)
	s.ctx.callOnEnd(w.Stop)
}

// Reserve implements [dispatch.Sink].
func (s *streamSender) Reserve() error {
	messages, _ := s.entry.sent()
	err := s.slot.reserve(s.ctx, messages == 0)
	if s.watcher != nil {
		s.ctx.forgetDone() // only the wait for the slot needed the channel
	}
	return err
}

// Send implements [dispatch.Sink].
func (s *streamSender) Send(m dispatch.Message) error {
	if reason, _ := s.ctx.why(); apierr.IsDenied(reason) {
		return reason // the client may no longer be allowed to see the events of the message
	}
	message := grpcmsg.Join(m.Events, wire.AppendHeader(nil, m.Header))
	size := message.Size()
	s.awaitsFence.Store(false) // no worker has the watcher now
	began := time.Now()
	s.sentAt.Store(began.UnixNano())
	s.endOverdue()
	var fence *grpcmsg.WriteFence
	if s.watcher != nil && !s.overdue.Load() {
		fence = &s.fence
		fence.Ref()
		message = append(message, fence)
	}
	s.slot.beginSend()
	s.entry.beginSend()
	if err := s.stream.SendMsg(message); err != nil {
		s.broken = true
		return err
	}
	s.notCounted += time.Since(began) // the log of slow catch-ups does not count the time of the client
	switch {
	case s.watcher == nil:
	case fence == nil:
		if err := s.checkOverdueFence(size); err != nil {
			return err
		}
	case !fence.Released():
		s.inFlight = max(s.inFlight, maxInFlight)
		s.beforeFence = s.inFlight
	}
	first := s.note(&m, size)
	s.counters.note(&m, 1, size, first, time.Now())
	s.slot.endSend(&m.Header, fence)
	s.logSlowWatch(&m.Header, first)
	return nil
}

// TrySend implements [dispatch.Sink].
func (s *streamSender) TrySend(b *dispatch.Batch, now time.Time) error {
	if reason, _ := s.ctx.why(); reason != nil {
		return reason // the handler sends the last message
	}
	// While a fence is overdue, the handler sends. If the handler has sent messages without a
	// fence, it also sends the first message after the release of the overdue fence. That
	// message has a fence, from which a worker learns when gRPC has written all of them.
	if s.overdue.Load() && (s.afterOverdue > 0 || !s.fence.Released()) {
		return dispatch.ErrNeedsHandler
	}
	if !s.hasRoom() {
		return dispatch.ErrFull
	}
	encoded := sharedMessage(b)
	var message any = encoded
	s.inFlight += int32(encoded.Size())
	if s.inFlight >= maxInFlight || s.inFlight >= fenceBytes && s.beforeFence == 0 {
		s.sentAt.Store(now.UnixNano())
		s.fence.Ref()
		s.beforeFence = s.inFlight
		message = encoded.WithFence(&s.fence)
	}
	if err := s.stream.SendMsg(message); err != nil {
		s.broken = true
		return err
	}
	s.note(&b.Message, encoded.Size())
	return nil
}

// CountSent implements [dispatch.Sink].
func (s *streamSender) CountSent(b *dispatch.Batch, n int, now time.Time) {
	s.counters.note(&b.Message, n, sharedMessage(b).Size(), false, now)
}

// Prefetch implements [dispatch.Sink].
func (s *streamSender) Prefetch() int {
	read := 0
	if s.ctx.reason.Load() != nil {
		read++
	}
	if s.stream.Context() != nil {
		read++
	}
	return read
}

// sharedMessage returns the encoded message of a batch. All watches share the message.
func sharedMessage(b *dispatch.Batch) *grpcmsg.SharedMessage {
	return b.Encoded(encode).(*grpcmsg.SharedMessage)
}

func encode(m *dispatch.Message) any {
	return grpcmsg.NewSharedMessage(m.Events, func(b []byte) []byte { return wire.AppendHeader(b, m.Header) })
}

// hasRoom reports whether a worker may send another message. If not, the watcher becomes ready
// when the fence is released.
func (s *streamSender) hasRoom() bool {
	if s.fence.Released() {
		if s.overdue.Load() {
			s.overdue.Store(false)
		}
		s.inFlight -= s.beforeFence
		s.beforeFence = 0
	}
	if s.inFlight < maxInFlight {
		return true
	}
	s.awaitFence()
	return false
}

// endOverdue makes the handler use fences again when an overdue fence has been released. The
// messages that the handler has sent meanwhile are in flight without a fence. The fence of
// the handler's next message covers these messages, too.
func (s *streamSender) endOverdue() {
	if s.overdue.Load() && s.fence.Released() {
		s.inFlight, s.beforeFence, s.afterOverdue = 0, 0, 0
		s.overdue.Store(false)
	}
}

// awaitFence makes the watcher ready when the fence is released.
func (s *streamSender) awaitFence() {
	s.awaitsFence.Store(true)
	if s.fence.Released() {
		s.fenceReleased()
	}
}

func (s *streamSender) fenceReleased() {
	if s.awaitsFence.CompareAndSwap(true, false) {
		s.ready()
	}
}

// checkFence makes the handler send the messages if a worker waits for the fence and the
// message with the fence was sent at least fenceTimeout ago. Any goroutine may call it.
func (s *streamSender) checkFence(now time.Time) {
	// The order matters: a sender stores sentAt before it appends the fence, so this method
	// does not read the time of an earlier message.
	if !s.awaitsFence.Load() || s.fence.Released() || now.Sub(time.Unix(0, s.sentAt.Load())) < fenceTimeout {
		return
	}
	if s.overdue.CompareAndSwap(false, true) {
		s.ready()
	}
}

// checkOverdueFence returns an error if the fence is lost. The handler calls it when gRPC has
// accepted a message of the given size without a fence.
//
// gRPC accepts a message only while less than grpcWindow bytes of its stream are unwritten.
// Suppose that grpcWindow bytes were sent after the fence, and gRPC then accepts another
// message. Then gRPC has written everything before the fence, and should have released the
// fence. If the client does not read, gRPC does not accept this other message, and blocks the
// handler.
func (s *streamSender) checkOverdueFence(size int) error {
	if s.fence.Released() || s.afterOverdue < grpcWindow {
		s.afterOverdue = min(s.afterOverdue+int32(size), grpcWindow)
		return nil
	}
	s.broken = true
	return errFenceLost
}

// isBlocked reports whether a message waits for the client. There are three cases: a worker
// has a message and waits for the fence; the handler has been sending a message for at least
// blockedAfter; gRPC has held a message with a fence for at least blockedAfter without
// writing it. A message without a fence does not count once gRPC has accepted it. The
// argument sending says whether the handler is sending a message. Any goroutine may call
// isBlocked.
func (s *streamSender) isBlocked(sending bool, now time.Time) bool {
	fenceOut := s.watcher != nil && !s.fence.Released()
	if fenceOut && s.awaitsFence.Load() {
		return true
	}
	return (sending || fenceOut) && now.Sub(time.Unix(0, s.sentAt.Load())) >= blockedAfter
}

// note records a message that gRPC has accepted, and reports whether it is the first message
// of the watch.
func (s *streamSender) note(m *dispatch.Message, size int) (first bool) {
	before, first := s.entry.note(&m.Header, size)
	if t := s.tracer; t != nil && s.watcher != nil && m.Header.Kind == object.Live && t.Wants() {
		t.Delivered(backend.Delivery{
			Watch: s.stream.Context(), Watcher: s.entry.ID(), Peer: s.entry.peer,
			After: before, Upto: m.Header.Position.Revision, Shows: s.watcher.Shows,
			Events: m.Count, Bytes: size, Arrived: m.Arrived, Sent: time.Now(),
		})
	}
	return first
}

// logSlowWatch logs a watch that was slow to begin or to catch up. The times of the first
// message and of the first catch-up are measured from the beginning of the watch, the time of
// a later catch-up from its own beginning. The time in which messages wait for the client does
// not count.
func (s *streamSender) logSlowWatch(h *object.Header, first bool) {
	switch {
	case first:
		s.logSlow("first message")
	case h.Kind == object.CatchUpBegin:
		s.notCounted = time.Since(s.entry.since)
	case h.Kind == object.Synced:
		s.logSlow("catch-up")
	}
}

func (s *streamSender) logSlow(what string) {
	if took := time.Since(s.entry.since) - s.notCounted; s.slow.IsSlow(took) {
		var ctx context.Context = s.ctx
		s.slow.Note(ctx, what, took, s.entry.summary.request())
	}
}
