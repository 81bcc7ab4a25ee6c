package watch

import (
	"context"
	"time"

	"google.golang.org/grpc"

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
// calls TrySend, which must not wait. So the handler is the waiting sender of the [SendWindow].
type streamSender struct {
	stream grpc.ServerStream
	tracer backend.WriteTracer // nil: none
	SendWindow

	ctx      *watchContext
	entry    *Entry
	counters *counters
	watcher  *dispatch.Watcher // nil: the resource has no cache

	slot snapshotSlot
	slow *rpc.SlowLog

	// notCounted is the part of the time since entry.since that does not count for the slow
	// log. This is the time before the present catch-up began, and the time in which messages
	// of the catch-up waited for the client.
	notCounted time.Duration
}

// init sets the fields that all methods need.
func (s *streamSender) init(ctx *watchContext, entry *Entry, stream grpc.ServerStream) {
	s.ctx, s.entry, s.stream = ctx, entry, stream
}

// attach sets the watcher, before it is served.
func (s *streamSender) attach(w *dispatch.Watcher) {
	s.watcher = w
	s.Init(w.Ready)
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
	began := time.Now()
	fence := s.BeginSend(began)
	if fence != nil {
		message = append(message, fence)
	}
	s.slot.beginSend()
	s.entry.beginSend(m.Header.Position)
	if err := s.stream.SendMsg(message); err != nil {
		s.broken = true
		return err
	}
	s.notCounted += time.Since(began) // the log of slow catch-ups does not count the time of the client
	if err := s.EndSend(size, fence); err != nil {
		return err
	}
	before, first := s.entry.note(&m.Header, size)
	s.trace(&m, size, before)
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
	switch {
	case s.NeedsWaitingSender():
		return dispatch.ErrNeedsHandler
	case !s.HasRoom():
		return dispatch.ErrFull
	}
	encoded := Encoded(b)
	var message any = encoded
	if fence := s.BeginTrySend(encoded.Size(), now); fence != nil {
		message = encoded.WithFence(fence)
	}
	// The entry has the position before the client can report that it has applied it.
	before, _ := s.entry.note(&b.Header, encoded.Size())
	if err := s.stream.SendMsg(message); err != nil {
		s.broken = true
		return err
	}
	s.trace(&b.Message, encoded.Size(), before)
	return nil
}

// CountSent implements [dispatch.Sink].
func (s *streamSender) CountSent(b *dispatch.Batch, n int, now time.Time) {
	s.counters.note(&b.Message, n, n*Encoded(b).Size(), false, now)
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

// Encoded returns the encoded message of a batch. All watches share the message, also those of
// Subscribe streams.
func Encoded(b *dispatch.Batch) *grpcmsg.SharedMessage {
	return b.Encoded(encode).(*grpcmsg.SharedMessage)
}

func encode(m *dispatch.Message) any {
	return grpcmsg.NewSharedMessage(m.Events, func(b []byte) []byte { return wire.AppendHeader(b, m.Header) })
}

// trace reports a live message that gRPC has accepted to the tracer. The revision before is
// that of the previous message.
func (s *streamSender) trace(m *dispatch.Message, size int, before object.Revision) {
	if t := s.tracer; t != nil && s.watcher != nil && m.Header.Kind == object.Live && t.Wants() {
		t.Delivered(backend.Delivery{
			Watch: s.stream.Context(), Watcher: s.entry.ID(), Peer: s.entry.peer,
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
		s.notCounted = time.Since(s.entry.since)
	case h.Kind == object.Synced:
		s.logSlow("catch-up")
	}
}

func (s *streamSender) logSlow(what string) {
	if took := time.Since(s.entry.since) - s.notCounted; s.slow.IsSlow(took) {
		var ctx context.Context = s.ctx
		s.slow.Note(ctx, what, took, s.entry.summary.Request(s.entry.scope))
	}
}
