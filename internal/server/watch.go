package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// Watch implements FanoutService. It registers a watcher and carries its
// messages to the stream until one of the two ends, the server stops, or the time
// limit has come.
func (f *fanout) Watch(req *fanoutv1.WatchRequest, stream grpc.ServerStream) error {
	resource, err := f.resources.find(req.GetResource())
	if err != nil {
		return err
	}
	watch, err := f.parseWatch(stream.Context(), resource, req)
	if err != nil {
		return err
	}
	if !f.drain.enter() {
		return errDraining
	}
	defer f.drain.leave()
	w := resource.Dispatcher.Watch(watch.interest, watch.begin, watch.options)
	defer w.Close()
	// The watcher is registered: who has the header knows that.
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}

	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(f.drain.watches, func() { cancel(errDraining) })()
	if watch.limit > 0 {
		timer := time.AfterFunc(watch.limit, func() { cancel(errTimeLimit) })
		defer timer.Stop()
	}
	for {
		m, err := w.Next(ctx)
		end := context.Cause(ctx)
		switch {
		case err == nil:
			// What Next has returned counts as delivered, so it is sent before
			// anything else, be it the last message.
			if err := send(stream, m); err != nil {
				return err
			}
		case errors.Is(end, errDraining), errors.Is(end, errTimeLimit):
		case errors.Is(err, dispatch.ErrStopped):
			end = errDraining
		default:
			return err
		}
		if errors.Is(end, errDraining) || errors.Is(end, errTimeLimit) {
			return endWatch(stream, w, end)
		}
	}
}

// errTimeLimit ends a watch that has lasted long enough.
var errTimeLimit = errors.New("the time limit of the watch has come")

// endWatch tells the client where to resume and ends the stream, with an error if
// that is not what the client could expect.
func endWatch(stream grpc.ServerStream, w *dispatch.Watcher, reason error) error {
	last := dispatch.Message{Header: object.Header{Kind: object.Draining, Position: w.Position()}}
	if err := send(stream, last); err != nil {
		return err
	}
	if errors.Is(reason, errTimeLimit) {
		return nil
	}
	return reason
}

func send(stream grpc.ServerStream, m dispatch.Message) error {
	return stream.SendMsg(joined(m.Events, wire.AppendHeader(nil, m.Header)))
}

// watch is what a request asks for.
type watch struct {
	interest dispatch.Interest
	begin    dispatch.Begin
	options  dispatch.Options
	limit    time.Duration // 0: none
}

// The limits of what a request may ask for.
const (
	minBookmarkInterval = 100 * time.Millisecond
	maxBookmarkInterval = time.Hour
	minBatchDelay       = time.Millisecond
	maxBatchDelay       = time.Minute
	minTimeLimit        = time.Second
	maxTimeLimit        = 10 * 365 * 24 * time.Hour
)

// parseWatch checks the request and waits until the resource is fresh enough for
// it.
func (f *fanout) parseWatch(ctx context.Context, resource *Resource, req *fanoutv1.WatchRequest) (watch, error) {
	var check checker
	w := watch{
		interest: dispatch.Interest{
			Scope:    check.scope("scope", req.GetScope()),
			Selector: check.selector(req.GetLabelSelector(), req.GetFieldSelector(), resource.Fields),
			View:     object.View{Previous: req.GetPreviousObject(), OmitValues: req.GetOmitValues()},
		},
		options: dispatch.Options{
			EveryEvent:       req.GetEveryEvent(),
			BookmarkInterval: check.duration("bookmark_interval", req.GetBookmarkInterval(), minBookmarkInterval, maxBookmarkInterval),
			BatchDelay:       check.duration("max_batch_delay", req.GetMaxBatchDelay(), minBatchDelay, maxBatchDelay),
		},
	}
	switch delivery := req.GetDelivery(); delivery {
	case fanoutv1.Delivery_DELIVERY_UNSPECIFIED, fanoutv1.Delivery_DELIVERY_EVERY:
	case fanoutv1.Delivery_DELIVERY_LATEST:
		w.options.Latest = true
		if req.GetEveryEvent() {
			check.refuse("every_event", "contradicts DELIVERY_LATEST")
		}
	default:
		check.refuse("delivery", "is %d, which is not defined", delivery)
	}
	asked := check.duration("time_limit", req.GetTimeLimit(), minTimeLimit, maxTimeLimit)
	consistency := check.consistency("consistency", req.GetConsistency())
	after := check.after(req, consistency)
	if req.GetFromNow() && consistency.exact > 0 {
		check.refuse("consistency.exact_revision", "contradicts from_now")
	}
	if err := check.err(); err != nil {
		return watch{}, err
	}
	var err error
	switch {
	case after != nil:
		w.begin = dispatch.After(*after)
		_, err = resource.reach(ctx, *after)
	case consistency.exact > 0:
		w.begin, err = resource.fromExactly(ctx, consistency.exact)
	default:
		w.begin, err = resource.fromFresh(ctx, consistency.Consistency, req.GetFromNow())
	}
	// The time that a watch has begins when the waiting is over.
	w.limit = shorter(f.timeLimit(), asked)
	w.options.LastBookmark = lastBookmark(ctx, w.limit)
	return w, err
}

// after checks the position after which a watch begins, nil for none.
func (c *checker) after(req *fanoutv1.WatchRequest, asked consistency) *object.Position {
	after := req.GetAfter()
	if after == nil {
		return nil
	}
	c.revision("after.revision", after.GetRevision())
	if after.GetEpoch() == "" && after.GetRevision() > 0 {
		c.refuse("after.epoch", "must not be empty")
	}
	if asked != (consistency{}) {
		c.refuse("consistency", "must be left out with after, which says it itself")
	}
	return &object.Position{Epoch: object.Epoch(after.GetEpoch()), Revision: object.Revision(after.GetRevision())}
}

// fromExactly begins with the snapshot of a revision that is remembered.
func (r *Resource) fromExactly(ctx context.Context, at object.Revision) (dispatch.Begin, error) {
	v, err := r.view(ctx, consistency{exact: at})
	if err == nil && !v.remembered() {
		err = &expiredError{asked: v.at, oldest: v.state.Replayable()}
	}
	return dispatch.FromExactly(at), err
}

// fromFresh begins with a snapshot, or with now.
func (r *Resource) fromFresh(ctx context.Context, c cacher.Consistency, now bool) (dispatch.Begin, error) {
	needed, err := r.Cacher.Reach(ctx, c)
	if err != nil || !now {
		return dispatch.FromSnapshot(needed), err
	}
	return dispatch.FromNow(r.Cacher.State().Position()), nil
}
