package watch

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// sink sends the messages of a watch to its gRPC stream. It is the [dispatch.StreamSink] of the
// watch.
type sink struct {
	stream grpc.ServerStream
	tracer backend.WriteTracer // nil: none
	grpcmsg.SendWindow

	handler  *handler
	counters *registry.Counters
	slow     *rpc.SlowLog

	slot       *quota.Slot   // the permission to send a RESET or a DELTA; nil: the watch does not need it
	interval   time.Duration // the bookmark interval of the watch
	catchingUp bool          // SYNCED was not sent

	// notCounted is the part of the time since the watch began that does not count for the slow
	// log. This is the time before the present catch-up began, and the time in which messages
	// of the catch-up waited for the client.
	notCounted time.Duration
}

// AcquireSlot implements [dispatch.StreamSink].
func (s *sink) AcquireSlot(ctx context.Context, isNew bool) error {
	slot := &quota.Slot{}
	slot.Init(s.handler.registry.Interceptors.Limits, s.handler.watch.caller.Client())
	slot.Expect(s.interval)
	if err := slot.Acquire(ctx, isNew); err != nil {
		return err
	}
	s.slot = slot
	return nil
}

// HoldsSlot implements [dispatch.StreamSink].
func (s *sink) HoldsSlot() bool { return s.slot.IsHeld() }

// ReleaseSlot implements [dispatch.StreamSink].
func (s *sink) ReleaseSlot() {
	s.slot.Release(s.OnWritten)
	s.slot = nil
}

// closeSlot returns the slot, if the watch has one.
func (s *sink) closeSlot() {
	if s.slot != nil {
		s.slot.Close()
	}
}

// HasRoom implements [dispatch.StreamSink]. If the handler has to send, the worker finds out with
// TrySend.
func (s *sink) HasRoom() bool {
	return s.mayWait() || s.NeedsServe() || s.SendWindow.HasRoom()
}

// mayWait reports whether the handler sends if there is no room: a catch-up or the last message. gRPC
// accepts more bytes from the handler than from a worker, which must not wait.
func (s *sink) mayWait() bool { return s.catchingUp || s.handler.ctx.reason.Load() != nil }

// TakesBatch implements [dispatch.StreamSink].
func (s *sink) TakesBatch() bool { return s.TakesMessage() }

// TrySend implements [dispatch.StreamSink].
func (s *sink) TrySend(r *dispatch.Response, now time.Time) error {
	e := messageOf(r)
	switch {
	case e == nil:
		return nil
	case !s.TakesBatch():
		return dispatch.ErrNeedsServe
	}
	s.noteSending(r, e)
	if _, err := s.SendBatch(dispatch.MemberBatch{Batch: e.Batch, Before: s.handler.watch.Status().Sent.Revision}, now); err != nil {
		return err
	}
	s.noteSent(e)
	return nil
}

// SendBatch implements [dispatch.StreamSink].
func (s *sink) SendBatch(b dispatch.MemberBatch, now time.Time) (bytes int, err error) {
	encoded := grpcmsg.Encoded(b.Batch)
	if err := s.SendShared(s.stream, encoded, now); err != nil {
		return 0, err
	}
	s.trace(b.Batch, encoded.Size(), b.Before)
	return encoded.Size(), nil
}

// Size implements [dispatch.StreamSink].
func (s *sink) Size(b *feed.Batch) int { return grpcmsg.Encoded(b).Size() }

// CountSent implements [dispatch.StreamSink].
func (s *sink) CountSent(_ *dispatch.Dispatcher, b *feed.Batch, n, bytes int, now time.Time) {
	s.counters.Note(&b.Message, n, bytes, false, now)
}

// Prefetch implements [dispatch.StreamSink].
func (s *sink) Prefetch() int {
	if s.stream.Context() != nil {
		return 1
	}
	return 0
}

// Send implements [dispatch.StreamSink].
func (s *sink) Send(r *dispatch.Response) error {
	e := messageOf(r)
	if e == nil {
		return nil
	}
	s.noteSending(r, e)
	message := grpcmsg.Join(e.Batch.Events, wire.AppendHeader(nil, e.Batch.Header))
	size, before, began := message.Size(), s.handler.watch.Status().Sent.Revision, time.Now()
	fence := s.BeginSend(began)
	if fence != nil {
		message = append(message, fence)
	}
	if err := s.stream.SendMsg(message); err != nil {
		s.CancelSend()
		return err
	}
	s.notCounted += time.Since(began) // the log of slow catch-ups does not count the time of the client
	if err := s.EndSend(size, fence); err != nil {
		return err
	}
	s.trace(e.Batch, size, before)
	s.noteSent(e)
	return nil
}

// messageOf returns the entry of a response that has a message, or nil.
func messageOf(r *dispatch.Response) *dispatch.Entry {
	for i := range r.Entries {
		if e := &r.Entries[i]; e.Batch != nil {
			return e
		}
	}
	return nil
}

// noteSending records what the client may get to know as soon as gRPC has the message.
func (s *sink) noteSending(r *dispatch.Response, e *dispatch.Entry) {
	if r.Part && s.slot != nil { // a small DELTA needs no slot
		s.slot.BeginPart()
	}
	h := &e.Batch.Header
	s.catchingUp = s.catchingUp && h.Kind != object.Synced || h.Kind == object.CatchUpBegin
	if h.BeginsReset() {
		w := &s.handler.watch
		w.mu.Lock()
		defer w.mu.Unlock()
		w.BeginReset()
	}
}

// noteSent counts a message that gRPC has accepted.
func (s *sink) noteSent(e *dispatch.Entry) {
	if e.Batch.Header.Kind == object.CatchUpPart && s.slot != nil { // while AcquireSlot runs, no part is sent
		s.slot.EndPart()
	}
	s.counters.Note(&e.Batch.Message, 1, grpcmsg.Encoded(e.Batch).Size(), e.First, time.Now())
	s.logSlowWatch(&e.Batch.Header, e.First)
}

// trace reports a live message that gRPC has accepted to the tracer. The revision before is
// that of the previous message.
func (s *sink) trace(b *feed.Batch, size int, before object.Revision) {
	if t := s.tracer; t != nil && b.Header.Kind == object.Live && t.Wants() {
		w := &s.handler.watch
		t.Delivered(backend.Delivery{
			Watch: s.stream.Context(), Watcher: registry.IDOf(w), Peer: w.caller.Peer,
			After: before, Upto: b.Header.Position.Revision, Shows: w.Shows,
			Events: b.Count, Bytes: size, Arrived: b.Arrived, Sent: time.Now(),
		})
	}
}

// logSlowWatch logs a watch that was slow to begin or to catch up. The times of the first
// message and of the first catch-up are measured from the beginning of the watch, the time of
// a later catch-up from its own beginning. The time in which messages wait for the client does
// not count.
func (s *sink) logSlowWatch(h *object.Header, first bool) {
	switch {
	case first:
		s.logSlow("first message")
	case h.Kind == object.CatchUpBegin:
		s.notCounted = time.Since(s.handler.watch.Began())
	case h.Kind == object.Synced:
		s.logSlow("catch-up")
	}
}

func (s *sink) logSlow(what string) {
	w := &s.handler.watch
	if took := time.Since(w.Began()) - s.notCounted; s.slow.IsSlow(took) {
		s.slow.Note(s.handler.ctx.Context, what, took, w.Request())
	}
}
