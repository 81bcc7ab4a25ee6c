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

// streamSender sends the messages of a watch to its gRPC stream. It is the [dispatch.Sink]
// of the watcher: the handler calls Send, which waits while the client does not read, and a
// worker calls TrySend, which must not wait.
//
// gRPC blocks a sender while 64 KiB of its stream have not been written to the buffer of the
// connection. So the worker keeps the bytes in flight below that: from 4 KiB on it appends a
// write fence to a message, and at 16 KiB it sends no more until gRPC releases the fence. A
// client that does not read has a few messages in flight and costs the worker nothing.
//
// A fence that stays out for a minute is overdue: either the client does not read, or gRPC has
// lost the fence. The handler then sends the messages, without fences, until the fence is
// released, or until gRPC has accepted so much that the fence must be lost.
type streamSender struct {
	stream grpc.ServerStream
	tracer backend.WriteTracer // nil: none

	inFlight    int32        // bytes that gRPC may not have written yet
	fenced      int32        // the part of inFlight that precedes the fence
	unfenced    int32        // bytes sent after an overdue fence; counted up to grpcWindow
	broken      bool         // a message could not be sent
	awaitsFence atomic.Bool  // a worker has a message to send when the fence is released
	overdue     atomic.Bool  // the fence was not released within fenceTimeout
	sentAt      atomic.Int64 // time of the latest message with a fence or of the handler, in nanoseconds since 1970

	ctx      *watchContext
	entry    *Entry
	counters *counters
	watcher  *dispatch.Watcher // nil: the resource has no cache
	ready    func()            // makes the worker look after the watcher
	fence    grpcmsg.WriteFence

	slot         snapshotSlot
	slow         *rpc.SlowLog
	catchUpBegan time.Duration // when the catch-up that is under way began, as an offset from entry.since
}

const (
	// maxInFlight is how many bytes may be in flight before the watch gets no more messages
	// from a worker. It is far below gRPC's 64 KiB, because each message in flight costs some
	// memory besides the events that it shares with other watches.
	maxInFlight = 16 << 10

	// fenceBytes is how many bytes may be in flight before a worker appends a fence. A fence
	// costs memory for a moment, so not every message has one.
	fenceBytes = 4 << 10

	// grpcWindow is how many bytes of a stream gRPC accepts before it blocks the sender.
	grpcWindow = 64 << 10

	// fenceTimeout is how long a fence may stay out before the sender no longer relies on
	// it. A connection whose peer is gone has ended by then: keepalive and the time-out of
	// TCP need 30 s. So either the client does not read, or gRPC has lost the fence.
	fenceTimeout = time.Minute

	// blockedAfter is how long a message may be on its way to the connection before operators
	// see that the watch is blocked.
	blockedAfter = 100 * time.Millisecond
)

// errFenceLost ends a watch whose write fence gRPC has lost.
var errFenceLost = status.Error(codes.Internal, "internal error: gRPC did not report that it wrote the messages of this watch; resume it")

// init sets what all methods need.
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
	err := s.slot.reserve(s.ctx)
	if s.watcher != nil {
		s.ctx.forgetDone() // only the wait for the slot needed it
	}
	return err
}

// Send implements [dispatch.Sink].
func (s *streamSender) Send(m dispatch.Message) error {
	if reason, _ := s.ctx.why(); apierr.IsDenied(reason) {
		return reason // the message may contain changes that the client may no longer see
	}
	message := grpcmsg.Join(m.Events, wire.AppendHeader(nil, m.Header))
	size := message.Size()
	s.awaitsFence.Store(false) // the handler has the watcher now
	s.sentAt.Store(time.Now().UnixNano())
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
	switch {
	case s.watcher == nil:
	case fence == nil:
		if err := s.checkOverdueFence(size); err != nil {
			return err
		}
	case !fence.Released():
		s.inFlight = max(s.inFlight, maxInFlight)
		s.fenced = s.inFlight
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
	if s.overdue.Load() && (s.unfenced > 0 || !s.fence.Released()) {
		return dispatch.ErrNeedsHandler // see endOverdue
	}
	if !s.hasRoom() {
		return dispatch.ErrFull
	}
	encoded := encodedMessage(b)
	var message any = encoded
	s.inFlight += int32(encoded.Size())
	if s.inFlight >= maxInFlight || s.inFlight >= fenceBytes && s.fenced == 0 {
		s.sentAt.Store(now.UnixNano())
		s.fence.Ref()
		s.fenced = s.inFlight
		message = encoded.WithFence(&s.fence)
	}
	if err := s.stream.SendMsg(message); err != nil {
		s.broken = true
		return err
	}
	s.note(&b.Message, encoded.Size())
	return nil
}

// Sent implements [dispatch.Sink].
func (s *streamSender) Sent(b *dispatch.Batch, n int, now time.Time) {
	s.counters.note(&b.Message, n, encodedMessage(b).Size(), false, now)
}

// encodedMessage returns the batch as gRPC takes it. All watches share it.
func encodedMessage(b *dispatch.Batch) *grpcmsg.EncodedMessage {
	return b.Encoded(encode).(*grpcmsg.EncodedMessage)
}

func encode(m *dispatch.Message) any {
	return grpcmsg.NewEncodedMessage(m.Events, func(b []byte) []byte { return wire.AppendHeader(b, m.Header) })
}

// hasRoom reports whether a worker may send another message. If not, the watcher becomes ready
// when the fence is released.
func (s *streamSender) hasRoom() bool {
	if s.fence.Released() {
		if s.overdue.Load() {
			s.overdue.Store(false)
		}
		s.inFlight -= s.fenced
		s.fenced = 0
	}
	if s.inFlight < maxInFlight {
		return true
	}
	s.awaitFence()
	return false
}

// endOverdue makes the handler append fences again when an overdue fence has been released.
// A worker cannot do that: the messages that the handler sent after the overdue fence are in
// flight without a fence, so nothing would report when there is room again. The fence of the
// next message covers them.
func (s *streamSender) endOverdue() {
	if s.overdue.Load() && s.fence.Released() {
		s.inFlight, s.fenced, s.unfenced = 0, 0, 0
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

// checkFence makes the handler send the messages of a watch whose worker has waited for the
// fence for fenceTimeout. Any goroutine may call it.
func (s *streamSender) checkFence(now time.Time) {
	// The order matters: a sender stores sentAt before it appends a fence.
	if !s.awaitsFence.Load() || s.fence.Released() || now.Sub(time.Unix(0, s.sentAt.Load())) < fenceTimeout {
		return
	}
	if s.overdue.CompareAndSwap(false, true) {
		s.ready()
	}
}

// checkOverdueFence returns an error if the fence is lost. The handler calls it after it has
// sent a message of the given size without a fence.
//
// gRPC accepts a message only while less than grpcWindow of its stream is unwritten. Suppose
// that grpcWindow bytes were sent after the fence and gRPC then accepts another message. Then
// gRPC has written everything before the fence, and should have released it. If the client does
// not read, gRPC blocks the handler instead.
func (s *streamSender) checkOverdueFence(size int) error {
	if s.fence.Released() || s.unfenced < grpcWindow {
		s.unfenced = min(s.unfenced+int32(size), grpcWindow)
		return nil
	}
	s.broken = true
	return errFenceLost
}

// isBlocked reports whether a message waits for the client: a worker has one and waits for the
// fence, or gRPC has not accepted or not written one for blockedAfter. A worker's messages of
// less than fenceBytes have no fence and do not count. The caller passes whether the handler is
// sending a message. Any goroutine may call isBlocked.
func (s *streamSender) isBlocked(sending bool, now time.Time) bool {
	fenceOut := s.watcher != nil && !s.fence.Released()
	if fenceOut && s.awaitsFence.Load() {
		return true
	}
	return (sending || fenceOut) && now.Sub(time.Unix(0, s.sentAt.Load())) >= blockedAfter
}

// note records a message that gRPC has accepted, and reports whether it is the first.
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

// logSlowWatch logs a watch that was slow to begin or to catch up. The time to the first message
// and the time of the first catch-up count from the beginning of the watch. A later catch-up
// counts from its own beginning.
func (s *streamSender) logSlowWatch(h *object.Header, first bool) {
	switch {
	case first:
		s.logSlow("first message")
	case h.Kind == object.CatchUpBegin:
		s.catchUpBegan = time.Since(s.entry.since)
	case h.Kind == object.Synced:
		s.logSlow("catch-up")
	}
}

func (s *streamSender) logSlow(what string) {
	if took := time.Since(s.entry.since) - s.catchUpBegan; s.slow.IsSlow(took) {
		var ctx context.Context = s.ctx
		s.slow.Note(ctx, what, took, s.entry.summary.request())
	}
}
