package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// Watch implements FanoutService. It registers a watcher and carries its
// messages to the stream until one of the two ends, or the server stops.
func (f *fanout) Watch(req *fanoutv1.WatchRequest, stream grpc.ServerStream) error {
	resource, err := f.resources.find(req.GetResource())
	if err != nil {
		return err
	}
	interest, begin, err := f.begin(stream.Context(), resource, req)
	if err != nil {
		return err
	}
	if !f.drain.enter() {
		return errDraining
	}
	defer f.drain.leave()
	w := resource.Dispatcher.Watch(interest, begin)
	defer w.Close()
	// The watcher is registered: who has the header knows that.
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}

	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(f.drain.watches, func() { cancel(errDraining) })()
	for {
		m, err := w.Next(ctx)
		switch {
		case err == nil:
			// What Next has returned counts as delivered, so it is sent before
			// anything else, be it the last message.
			if err := send(stream, m); err != nil {
				return err
			}
		case errors.Is(context.Cause(ctx), errDraining), errors.Is(err, dispatch.ErrStopped):
			return endWatch(stream, w)
		default:
			return err
		}
		if f.drain.watches.Err() != nil {
			return endWatch(stream, w)
		}
	}
}

// endWatch tells the client where to resume and ends the stream.
func endWatch(stream grpc.ServerStream, w *dispatch.Watcher) error {
	last := dispatch.Message{Header: object.Header{Kind: object.Draining, Position: w.Position()}}
	if err := send(stream, last); err != nil {
		return err
	}
	return errDraining
}

func send(stream grpc.ServerStream, m dispatch.Message) error {
	return stream.SendMsg(joined(m.Events, wire.AppendHeader(nil, m.Header)))
}

// begin checks the request and waits until the resource is fresh enough for it.
func (f *fanout) begin(ctx context.Context, resource *Resource, req *fanoutv1.WatchRequest) (dispatch.Interest, dispatch.Begin, error) {
	var check checker
	interest := dispatch.Interest{
		Scope:    check.scope("scope", req.GetScope()),
		Selector: check.selector(req.GetLabelSelector(), req.GetFieldSelector(), resource.Fields),
	}
	consistency := check.consistency("consistency", req.GetConsistency())
	after := req.GetAfter()
	if after != nil {
		check.revision("after.revision", after.GetRevision())
		if after.GetEpoch() == "" && after.GetRevision() > 0 {
			check.refuse("after.epoch", "must not be empty")
		}
		if consistency != (cacher.Consistency{}) {
			check.refuse("consistency", "must be left out with after, which says it itself")
		}
	}
	if err := check.err(); err != nil {
		return interest, dispatch.Begin{}, err
	}
	if after != nil {
		position := object.Position{Epoch: object.Epoch(after.GetEpoch()), Revision: object.Revision(after.GetRevision())}
		_, err := resource.reach(ctx, position)
		return interest, dispatch.After(position), err
	}
	state, err := resource.Cacher.Read(ctx, consistency)
	if err != nil {
		return interest, dispatch.Begin{}, err
	}
	if req.GetFromNow() {
		return interest, dispatch.FromNow(state.Position()), nil
	}
	return interest, dispatch.FromSnapshot(), nil
}
