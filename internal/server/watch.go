package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// Watch implements FanoutService. It registers a watcher and carries its
// messages to the stream until one of the two ends, the server stops, or the time
// limit has come.
func (f *fanout) Watch(req *fanoutv1.WatchRequest, stream grpc.ServerStream) error {
	began := time.Now()
	if err := f.rights.mayWithin(stream.Context(), policy.Watch, req.GetResource(), req.GetScope()); err != nil {
		return err
	}
	resource, err := f.resources.find(req.GetResource())
	if err != nil {
		return err
	}
	watch, err := parseWatch(resource, req)
	if err != nil {
		return err
	}
	watch.limit = shorter(watch.limit, f.timeLimit())
	watch.options.LastBookmark = lastBookmark(stream.Context(), watch.limit)
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	leave, ok := f.drain.enter(func() { cancel(errDraining) })
	if !ok {
		return errDraining
	}
	defer leave()
	giveBack, err := f.limits.watch(ctx)
	if err != nil {
		return err
	}
	defer giveBack()
	forget, err := f.limits.selector(ctx, resource, &watch.interest)
	if err != nil {
		return err
	}
	defer forget()
	w, err := resource.source().watch(ctx, &watch)
	if err != nil {
		if errors.Is(context.Cause(ctx), errDraining) {
			return errDraining
		}
		return err
	}
	defer w.Close()
	end := func(reason error) {
		cancel(reason)
		grace := f.watchGrace
		if isDenied(reason) || isRefused(reason) {
			grace = min(grace, deniedGrace)
		}
		// It does no harm to a watch that has ended by then.
		time.AfterFunc(grace, func() { cutOff(stream.Context()) })
	}
	session := f.sessions.begin(stream.Context(), req, watch.interest.Scope, w, end)
	defer f.sessions.end(session)
	if err := f.examine(session); err != nil {
		return err
	}
	if expires := session.pass.Expires; !expires.IsZero() {
		timer := time.AfterFunc(time.Until(expires), func() { end(access.ErrExpired) })
		defer timer.Stop()
	}
	// The watcher is registered: who has the header knows that.
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return status.FromContextError(context.Canceled).Err() // the connection is gone, which nobody is to blame for
	}
	if watch.limit > 0 {
		timer := time.AfterFunc(watch.limit, func() { end(errTimeLimit) })
		defer timer.Stop()
	}
	turn := f.limits.newTurn(ctx, &watch)
	defer turn.end()
	clock := watchClock{slow: f.slow, req: session.request, began: began}
	return carry(ctx, &outlet{stream, session, turn, clock, resource.Trail, f.sessions.id}, w)
}

// deniedGrace is how long a watch may take to send what it is sending when its right is
// gone, or its credentials are not good any more. Nothing follows that but, in the second
// case, its last position.
const deniedGrace = time.Second

// carry brings the messages of a watcher to its client until one of the two, or
// ctx, ends.
func carry(ctx context.Context, to *outlet, w watcher) error {
	for {
		m, err := next(ctx, to, w)
		// What the client does has the causes of its context; all others are ours.
		end := context.Cause(ctx)
		ours := end != nil && !errors.Is(end, context.Canceled) && !errors.Is(end, context.DeadlineExceeded)
		switch {
		case isDenied(end):
			return end // without a last position: the client has that of its last message
		case err == nil:
			// What next has returned counts as delivered, so it is sent before
			// anything else, be it the last message.
			if err := to.send(m); err != nil {
				return err
			}
		case errors.Is(err, dispatch.ErrStopped):
			end, ours = errDraining, true
		case !ours:
			return err
		}
		if ours {
			return endWatch(to, w, end)
		}
	}
}

// next waits for the turn of a catch-up, and then for the next message.
func next(ctx context.Context, to *outlet, w watcher) (dispatch.Message, error) {
	if err := to.turn.wait(ctx); err != nil {
		return dispatch.Message{}, err
	}
	return w.Next(ctx)
}

// errTimeLimit ends a watch that has lasted long enough.
var errTimeLimit = errors.New("the time limit of the watch has come")

// endWatch tells the client where to resume and ends the stream, with an error if
// that is not what the client could expect.
func endWatch(to *outlet, w watcher, reason error) error {
	last := dispatch.Message{Header: object.Header{Kind: object.Draining, Position: w.Position()}}
	if err := to.send(last); err != nil {
		return err
	}
	if errors.Is(reason, errTimeLimit) {
		return nil
	}
	return reason
}

// outlet is where the messages of a watch go.
type outlet struct {
	stream  grpc.ServerStream
	session *session // notes what was sent
	turn    *turn    // to send catch-ups
	clock   watchClock
	trail   Trail // nil: nobody follows writes
	id      func(*session) string
}

func (o *outlet) send(m dispatch.Message) error {
	message := joined(m.Events, wire.AppendHeader(nil, m.Header))
	o.turn.before(&m.Header)
	o.session.sending()
	if err := o.stream.SendMsg(message); err != nil {
		return err
	}
	size, before := mem.BufferSlice(message).Len(), object.Revision(o.session.revision.Load())
	o.session.sent(&m, size)
	o.turn.after(&m.Header)
	o.clock.sent(o.stream.Context(), &m.Header)
	o.follow(&m, before, size)
	return nil
}

// watch is what a request asks for.
type watch struct {
	interest    dispatch.Interest
	after       *object.Position // where to begin; nil: with a snapshot, or now
	fromNow     bool
	consistency consistency // of the snapshot, or of now
	options     dispatch.Options
	limit       time.Duration // 0: none
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

// parseWatch checks a request.
func parseWatch(resource *Resource, req *fanoutv1.WatchRequest) (watch, error) {
	var check checker
	w := watch{
		interest: dispatch.Interest{
			Scope:    check.scope("scope", req.GetScope()),
			Selector: check.selector(req.GetLabelSelector(), req.GetFieldSelector(), resource.Fields),
			View:     object.View{Previous: req.GetPreviousObject(), OmitValues: req.GetOmitValues()},
		},
		fromNow:     req.GetFromNow(),
		consistency: check.consistency("consistency", req.GetConsistency()),
		options: dispatch.Options{
			Latest:           check.delivery("delivery", req.GetDelivery()),
			EveryEvent:       req.GetEveryEvent(),
			BookmarkInterval: check.duration("bookmark_interval", req.GetBookmarkInterval(), minBookmarkInterval, maxBookmarkInterval),
			BatchDelay:       check.duration("max_batch_delay", req.GetMaxBatchDelay(), minBatchDelay, maxBatchDelay),
		},
		limit: check.duration("time_limit", req.GetTimeLimit(), minTimeLimit, maxTimeLimit),
	}
	w.after = check.after("after", req.GetAfter())
	if w.after != nil && w.consistency != (consistency{}) {
		check.refuse("consistency", "must be left out with after, which says it itself")
	}
	if w.fromNow && w.consistency.level == exactly && w.consistency.at > 0 {
		check.refuse("consistency.exact_revision", "contradicts from_now")
	}
	if w.options.Latest && w.options.EveryEvent {
		check.refuse("every_event", "contradicts DELIVERY_LATEST")
	}
	return w, check.err()
}

// after checks the position after which a watch begins, nil for none.
func (c *checker) after(field string, p *fanoutv1.Position) *object.Position {
	if p == nil {
		return nil
	}
	after := object.Position{Epoch: object.Epoch(p.GetEpoch()), Revision: c.revision(field+".revision", p.GetRevision())}
	if after.Epoch == "" && after.Revision > 0 {
		c.refuse(field+".epoch", "must not be empty")
	}
	return &after
}

// delivery checks a delivery and reports whether it is LATEST.
func (c *checker) delivery(field string, d fanoutv1.Delivery) bool {
	switch d {
	case fanoutv1.Delivery_DELIVERY_UNSPECIFIED, fanoutv1.Delivery_DELIVERY_EVERY:
		return false
	case fanoutv1.Delivery_DELIVERY_LATEST:
		return true
	}
	c.refuse(field, "is %d, which is not defined", d)
	return false
}
