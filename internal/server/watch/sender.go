package watch

import (
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// streamSender sends the messages of a watch to its gRPC stream. It is the [dispatch.Sink] of
// the watcher. The handler calls Send, which waits while the client does not read. A worker
// calls TrySend, which must not wait. So the handler is the waiting sender of the [grpcmsg.SendWindow].
type streamSender struct {
	stream grpc.ServerStream
	tracer backend.WriteTracer // nil: none
	grpcmsg.SendWindow

	ctx      *watchContext
	watch    *watch
	counters *registry.Counters
	watcher  *dispatch.Watcher // nil: the resource has no cache

	limits           *quota.Limiter
	bookmarkInterval time.Duration
	slot             *quota.Slot // nil: the watch sends no RESET and no DELTA. Only the handler uses it

	slow   *rpc.SlowLog
	broken bool // a message could not be sent, or it is not known

	// notCounted is the part of the time since the watch began that does not count for the slow
	// log. This is the time before the present catch-up began, and the time in which messages
	// of the catch-up waited for the client.
	notCounted time.Duration
}

// init sets the fields that all methods need.
func (s *streamSender) init(ctx *watchContext, w *watch, stream grpc.ServerStream) {
	s.ctx, s.watch, s.stream = ctx, w, stream
}

// attach sets the watcher, before it is served.
func (s *streamSender) attach(w *dispatch.Watcher) {
	s.watcher = w
	s.Init(w.Ready)
	s.ctx.callOnEnd(w.Stop)
}

// Reserve implements [dispatch.Sink].
func (s *streamSender) Reserve() error {
	if s.slot == nil {
		s.slot = &quota.Slot{}
		s.slot.Init(s.limits, s.watch.caller.Client())
		s.slot.Expect(s.bookmarkInterval)
	}
	if s.slot.IsHeld() {
		return nil
	}
	err := s.slot.Reserve(s.ctx, !s.watch.hasSent())
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
	began := time.Now()
	fence := s.BeginSend(began)
	if fence != nil {
		message = append(message, fence)
	}
	if s.slot != nil {
		s.slot.BeginPart()
	}
	s.watch.beginSend(m.Header.Position)
	if err := s.stream.SendMsg(message); err != nil {
		s.broken = true
		return err
	}
	s.notCounted += time.Since(began) // the log of slow catch-ups does not count the time of the client
	if err := s.EndSend(size, fence); err != nil {
		s.broken = true
		return err
	}
	before, first := s.watch.note(&m.Header, size)
	s.trace(&m, size, before)
	s.counters.Note(&m, 1, size, first, time.Now())
	s.endPart(&m.Header, fence)
	s.logSlowWatch(&m.Header, first)
	return nil
}

// endPart ends the lease of the slot when gRPC has accepted a message.
//
// After the last message of a catch-up, gRPC may still hold the parts in its buffers. So the
// watch keeps the slot until gRPC releases the fence of that message, but not longer than one
// more lease. If the fence is nil, the watch returns the slot at once.
func (s *streamSender) endPart(h *object.Header, fence *grpcmsg.WriteFence) {
	switch {
	case s.slot == nil:
	case h.Kind != object.Synced:
		s.slot.EndPart()
	case fence == nil:
		s.releaseSlot()
	default:
		s.slot.Release(fence.OnRelease)
		s.slot = nil
	}
}

// releaseSlot returns the slot, if the watch has one.
func (s *streamSender) releaseSlot() {
	if s.slot != nil {
		s.slot.Close()
		s.slot = nil
	}
}

// TrySend implements [dispatch.Sink].
func (s *streamSender) TrySend(b *dispatch.Batch, now time.Time) error {
	if reason, _ := s.ctx.why(); reason != nil {
		return reason // the handler sends the last message
	}
	switch {
	case s.NeedsWaitingSender():
		return dispatch.ErrNeedsHandler
	case !s.HasRoom():
		return dispatch.ErrFull
	}
	encoded := grpcmsg.Encoded(b)
	var message any = encoded
	if fence := s.BeginTrySend(encoded.Size(), now); fence != nil {
		message = encoded.WithFence(fence)
	}
	// The watch has the position before the client can report that it has applied it.
	before, _ := s.watch.note(&b.Header, encoded.Size())
	if err := s.stream.SendMsg(message); err != nil {
		s.broken = true
		return err
	}
	s.trace(&b.Message, encoded.Size(), before)
	return nil
}

// CountSent implements [dispatch.Sink].
func (s *streamSender) CountSent(b *dispatch.Batch, n int, now time.Time) {
	s.counters.Note(&b.Message, n, n*grpcmsg.Encoded(b).Size(), false, now)
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

// trace reports a live message that gRPC has accepted to the tracer. The revision before is
// that of the previous message.
func (s *streamSender) trace(m *dispatch.Message, size int, before object.Revision) {
	if t := s.tracer; t != nil && s.watcher != nil && m.Header.Kind == object.Live && t.Wants() {
		t.Delivered(backend.Delivery{
			Watch: s.stream.Context(), Watcher: registry.IDOf(s.watch), Peer: s.watch.caller.Peer,
			After: before, Upto: m.Header.Position.Revision, Shows: s.watcher.Shows,
			Events: m.Count, Bytes: size, Arrived: m.Arrived, Sent: time.Now(),
		})
	}
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
		s.notCounted = time.Since(s.watch.Began())
	case h.Kind == object.Synced:
		s.logSlow("catch-up")
	}
}

func (s *streamSender) logSlow(what string) {
	if took := time.Since(s.watch.Began()) - s.notCounted; s.slow.IsSlow(took) {
		s.slow.Note(s.ctx, what, took, s.watch.Request())
	}
}
