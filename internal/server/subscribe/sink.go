package subscribe

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// sink sends the responses of a stream. It is the [dispatch.StreamSink] of the stream.
type sink struct {
	grpcmsg.SendWindow
	stream  *stream
	slot    quota.Slot
	encoder encoder
	times   catchUpTimes
}

func (k *sink) init(s *stream) {
	k.stream = s
	k.slot.Init(s.service.registry.Interceptors.Limits, s.caller.Client())
	k.encoder.statusOf = s.statusOf
	k.SendWindow.Init(s.out.Ready)
}

// HasRoom implements [dispatch.StreamSink]. If the handler has to send, the worker finds out with
// TrySend.
func (k *sink) HasRoom() bool {
	if !k.NeedsServe() && !k.SendWindow.HasRoom() {
		k.times.wait(time.Now())
		return false
	}
	if k.times.waits() {
		k.times.endWait(time.Now())
	}
	k.slot.EndPart()
	return true
}

// TrySend implements [dispatch.StreamSink].
func (k *sink) TrySend(r *dispatch.Response, now time.Time) error {
	if !k.TakesMessage() {
		return dispatch.ErrNeedsServe
	}
	message := k.encoder.encode(r)
	if fence := k.BeginTrySend(message.Size(), now); fence != nil {
		message = append(message, fence)
	}
	k.noteSending(r)
	if err := k.stream.grpc.SendMsg(message); err != nil {
		return err
	}
	k.noteSent(r)
	return nil
}

// TakesBatch implements [dispatch.StreamSink].
func (k *sink) TakesBatch() bool { return k.TakesMessage() }

// SendBatch implements [dispatch.StreamSink].
func (k *sink) SendBatch(b dispatch.MemberBatch, now time.Time) (bytes int, err error) {
	message := grpcmsg.EncodedEntry(b.Batch, encodedIDs(b.IDs))
	if err := k.SendShared(k.stream.grpc, message, now); err != nil {
		return 0, err
	}
	if t := k.stream.service.resourceOf[b.Dispatcher].Tracer; t != nil && t.Wants() {
		k.trace(t, b.IDs, b.Batch, b.Before, message.Size(), time.Now())
	}
	return message.Size(), nil
}

// CountSent implements [dispatch.StreamSink].
func (k *sink) CountSent(d *dispatch.Dispatcher, b *feed.Batch, n, bytes int, now time.Time) {
	service := k.stream.service
	service.registry.Counters(service.resourceOf[d].Name, k.stream.worker).Note(&b.Message, n, bytes, false, now)
}

// Prefetch implements [dispatch.StreamSink].
func (k *sink) Prefetch() int {
	if k.stream.grpc.Context() != nil {
		return 1
	}
	return 0
}

// Size implements [dispatch.StreamSink]. A stream of Subscribe may have several watches.
func (k *sink) Size(b *feed.Batch) int { return b.Size() }

// Send implements [dispatch.StreamSink].
func (k *sink) Send(r *dispatch.Response) error {
	message := k.encoder.encode(r)
	size := message.Size()
	fence := k.BeginSend(time.Now())
	if fence != nil {
		message = append(message, fence)
	}
	k.noteSending(r)
	k.times.wait(time.Now())
	err := k.stream.grpc.SendMsg(message)
	k.times.endWait(time.Now())
	if err != nil {
		k.CancelSend()
		return err
	}
	if err := k.EndSend(size, fence); err != nil {
		return err
	}
	k.noteSent(r)
	return nil
}

// AcquireSlot implements [dispatch.StreamSink].
func (k *sink) AcquireSlot(ctx context.Context, isNew bool) error { return k.slot.Acquire(ctx, isNew) }

// HoldsSlot implements [dispatch.StreamSink].
func (k *sink) HoldsSlot() bool { return k.slot.IsHeld() }

// ReleaseSlot implements [dispatch.StreamSink].
func (k *sink) ReleaseSlot() { k.slot.Release(k.OnWritten) }

// noteSending records what the client may get to know as soon as gRPC has the response: ids that it may use
// again, and RESETs.
func (k *sink) noteSending(r *dispatch.Response) {
	if r.Part {
		k.slot.BeginPart()
	}
	t := &k.stream.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.Batch != nil {
			k.encoder.entries[i].resource = k.resourceOf(e)
			if e.Batch.Header.BeginsReset() {
				for _, id := range e.IDs.All() {
					if w := t.byID[id]; w != nil {
						w.BeginReset()
					}
				}
			}
		}
		for _, w := range e.Watches {
			if used := t.byID[w.ID]; used != nil && &used.StreamWatch == w {
				delete(t.byID, w.ID)
			}
		}
	}
}

// noteSent counts and traces a response that gRPC has accepted, and removes the watches that have ended.
func (k *sink) noteSent(r *dispatch.Response) {
	s, now := k.stream, time.Now()
	defer k.encoder.forget()
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.Batch == nil {
			for _, w := range e.Watches {
				k.times.forget(w.ID)
			}
			if e.Ended != nil {
				s.retire(e.Watches, e.Ended)
			}
			continue
		}
		resource, size := k.encoder.entries[i].resource, k.encoder.entries[i].size
		if resource == nil {
			continue // the watch of a resource without a cache has been stopped
		}
		s.service.registry.Counters(resource.Name, s.worker).Note(&e.Batch.Message, e.IDs.Len(), size, e.First, now)
		if t := resource.Tracer; t != nil && e.Dispatcher != nil && e.Batch.Header.Kind == object.Live && t.Wants() {
			before := object.Revision(0)
			if w := s.table.find(e.IDs.All()[0]); w != nil {
				before = w.StreamWatch.Status().Sent.Revision
			}
			k.trace(t, e.IDs, e.Batch, before, size, now)
		}
		k.logSlow(e, now)
	}
}

// resourceOf returns the resource of an entry with a message. It is called with table.mu held.
func (k *sink) resourceOf(e *dispatch.Entry) *backend.Resource {
	if e.Dispatcher != nil {
		return k.stream.service.resourceOf[e.Dispatcher]
	}
	if w := k.stream.table.byID[e.IDs.All()[0]]; w != nil {
		return w.Backend()
	}
	return nil
}

// maxTraced is the number of watches of an entry that a trace shows. Further ones are only
// counted.
const maxTraced = 16

// trace reports a live message to the tracer. The revision before is that of the previous message.
func (k *sink) trace(t backend.WriteTracer, ids *dispatch.IDs, b *feed.Batch, before object.Revision, size int, now time.Time) {
	traced := min(ids.Len(), maxTraced)
	others := ids.Len() - traced // reported with one of the traced watches
	for _, id := range ids.All()[:traced] {
		w := k.stream.table.find(id)
		if w == nil {
			continue // stopped
		}
		t.Delivered(backend.Delivery{
			Watch: k.stream.ctx, Watcher: registry.IDOf(w), Peer: k.stream.caller.Peer,
			After: before, Upto: b.Header.Position.Revision, Shows: w.Shows, Others: others,
			Events: b.Count, Bytes: size, Arrived: b.Arrived, Sent: now,
		})
		others = 0
	}
}

// logSlow logs watches that were slow to begin or to catch up, as those of Watch. Watches that begin
// or catch up together need one line. The first catch-up is measured from the beginning of the watch,
// a later one from its own beginning.
func (k *sink) logSlow(e *dispatch.Entry, now time.Time) {
	id, slow := e.IDs.All()[0], k.stream.service.registry.Interceptors.Slow
	if e.First && slow.IsSlow(now.Sub(k.stream.since)) { // otherwise no watch of the stream is slow
		if w := k.stream.table.find(id); w != nil {
			slow.Note(k.stream.ctx, "first message", now.Sub(k.times.beginOf(w.Began())), w.Request())
		}
	}
	switch e.Batch.Header.Kind {
	case object.CatchUpBegin:
		began := now
		if w := k.stream.table.find(id); w != nil && e.First {
			began = k.times.beginOf(w.Began())
		}
		k.times.begin(id, began)
	case object.Synced:
		if took := k.times.end(id, now); slow.IsSlow(took) {
			if w := k.stream.table.find(id); w != nil {
				slow.Note(k.stream.ctx, "catch-up", took, w.Request())
			}
		}
	}
}

// retire removes and counts watches whose end was sent.
func (s *stream) retire(ended []*dispatch.StreamWatch, how *dispatch.Ending) {
	if len(ended) == 0 || s.endsAll.Load() {
		return // at the end of the stream, finish removes all watches
	}
	gone := s.table.remove(ended...)
	code := codes.OK
	if how.Reason != nil {
		code = status.Code(apierr.Status(s.ctx, how.Reason))
	}
	s.service.ended.add(code, len(gone))
	for _, e := range gone {
		s.service.registry.End(e)
	}
}
