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
// connection. So the worker keeps the bytes in flight below that: it appends a write fence to
// some messages, and sends no more until gRPC releases the fence. A client that does not read
// has a few messages in flight and costs the worker nothing.
type streamSender struct {
	stream grpc.ServerStream
	tracer backend.WriteTracer // nil: none

	inFlight    int32 // bytes that gRPC may not have written yet
	fenced      int32 // those of them that are written when the fence is released
	unfenced    int32 // bytes sent while the fence is overdue
	broken      bool  // a message could not be sent
	awaitsFence atomic.Bool
	overdue     atomic.Bool  // the fence was not released within fenceTimeout
	fullSince   atomic.Int64 // in nanoseconds since 1970; 0: there is room

	ctx      *watchContext
	entry    *Entry
	counters *counters
	watcher  *dispatch.Watcher // nil: the resource has no cache
	ready    func()            // makes the worker look after the watcher
	fence    grpcmsg.WriteFence

	slot    snapshotSlot
	slow    *rpc.SlowLog
	catchUp time.Duration // when the catch-up that is under way began, after the watch did
}

const (
	// maxInFlight is how many bytes may be in flight before a worker waits until they are
	// written. It is far below gRPC's 64 KiB, because each message in flight costs some
	// memory besides the events that it shares with others.
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
)

// errFenceLost ends a watch whose write fence gRPC has lost.
var errFenceLost = status.Error(codes.Internal, "the transport has written the messages of this watch and lost the fence after them")

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
		s.ctx.forgetDone() // nobody else waits for it
	}
	return err
}

// Send implements [dispatch.Sink].
func (s *streamSender) Send(m dispatch.Message) error {
	if reason, _ := s.ctx.why(); apierr.IsDenied(reason) {
		return reason // the message may have what happened after the right was gone
	}
	message := grpcmsg.Join(m.Events, wire.AppendHeader(nil, m.Header))
	size := message.Size()
	var fence *grpcmsg.WriteFence
	if s.watcher != nil && !s.overdue.Load() {
		fence = &s.fence
		fence.Ref()
		message = append(message, fence)
	}
	s.slot.before()
	s.entry.sending()
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
	s.slot.after(&m.Header, fence)
	s.logSlowWatch(&m.Header, first)
	return nil
}

// TrySend implements [dispatch.Sink].
func (s *streamSender) TrySend(b *dispatch.Batch, now time.Time) error {
	if reason, _ := s.ctx.why(); reason != nil {
		return reason // the handler sends the last message
	}
	if !s.hasRoom(now) {
		if s.overdue.Load() {
			return dispatch.ErrNeedsHandler
		}
		return dispatch.ErrFull
	}
	encoded := encodedMessage(b)
	var message any = encoded
	s.inFlight += int32(encoded.Size())
	if s.inFlight >= maxInFlight || s.inFlight >= fenceBytes && s.fenced == 0 {
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

// encodedMessage returns the batch as gRPC takes it. It is made once for all watches.
func encodedMessage(b *dispatch.Batch) *grpcmsg.EncodedMessage {
	return b.Encoded(encode).(*grpcmsg.EncodedMessage)
}

func encode(m *dispatch.Message) any {
	return grpcmsg.NewEncodedMessage(m.Events, func(b []byte) []byte { return wire.AppendHeader(b, m.Header) })
}

// hasRoom reports whether another message may be in flight. If not, the fence makes the
// watcher ready.
func (s *streamSender) hasRoom(now time.Time) bool {
	if s.fenced > 0 && s.fence.Released() {
		s.inFlight -= s.fenced
		s.fenced, s.unfenced = 0, 0
		s.overdue.Store(false)
	}
	if s.inFlight < maxInFlight {
		if s.fullSince.Load() != 0 {
			s.fullSince.Store(0)
		}
		return true
	}
	if s.fullSince.Load() == 0 {
		s.fullSince.Store(now.UnixNano())
	}
	s.awaitFence()
	return false
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

// checkFence makes the handler send the messages of a watch whose fence was not released
// within fenceTimeout. Any goroutine may call it.
func (s *streamSender) checkFence(now time.Time) {
	since := s.fullSince.Load()
	if since == 0 || now.Sub(time.Unix(0, since)) < fenceTimeout || s.fence.Released() {
		return
	}
	if s.overdue.CompareAndSwap(false, true) {
		s.ready()
	}
}

// checkOverdueFence tells a client that does not read from a lost fence, after the handler
// has sent a message of the size. gRPC accepts a message only if less than grpcWindow is not
// written. So when as much was accepted before this message and after the fence, the bytes
// before the fence are written, and gRPC should have released it. While the client does not
// read, gRPC blocks the handler instead.
func (s *streamSender) checkOverdueFence(size int) error {
	if s.fence.Released() || s.unfenced < grpcWindow {
		s.unfenced = min(s.unfenced+int32(size), grpcWindow)
		return nil
	}
	s.broken = true
	return errFenceLost
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

// logSlowWatch logs a watch that was slow to begin or to catch up. The first message is
// measured from the beginning of the watch, and a catch-up from its own beginning, except
// for the first one.
func (s *streamSender) logSlowWatch(h *object.Header, first bool) {
	switch {
	case first:
		s.logSlow("first message")
	case h.Kind == object.CatchUpBegin:
		s.catchUp = time.Since(s.entry.since)
	case h.Kind == object.Synced:
		s.logSlow("catch-up")
	}
}

func (s *streamSender) logSlow(what string) {
	if took := time.Since(s.entry.since) - s.catchUp; s.slow.IsSlow(took) {
		var ctx context.Context = s.ctx
		s.slow.Note(ctx, what, took, s.entry.request.request())
	}
}
