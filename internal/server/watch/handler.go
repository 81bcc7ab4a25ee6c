package watch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/work"
)

// handler serves one watch. Most handlers only wait, so their goroutines keep small stacks.
// Work that needs a deep stack, such as the interceptors and catch-ups, runs on another
// goroutine while the handler waits for it (work.OnFreshStack).
//
// The fields that change with each message are in one cache line, from sink.stream to
// sink.sentAt. The runtime places an object of at most 512 bytes at the beginning of a line. A test
// checks both.
type handler struct {
	sink  sink
	ctx   watchContext
	watch watch

	registry *registry.Registry
	out      *dispatch.Stream // nil: the watch was not admitted

	unstarted func() // closes the source of a watch that out does not have yet; nil: it needs no closing
	fromNow   bool   // the watch does not begin with a catch-up
	started   bool   // out has the watch
	served    bool   // out was served
}

var watchMethod = &grpc.StreamServerInfo{FullMethod: fanoutv1.FanoutService_Watch_FullMethodName, IsServerStream: true}

// Handler returns the handler of the Watch method, for one server. Of [rpc.Interceptors], the handler uses
// only [rpc.Interceptors.AdmitRequest], and only around handler.begin. The method handler.finish
// does what the other interceptors do for other RPCs: it sets the status and writes the log
// line and the audit record.
func Handler(r *registry.Registry) grpc.StreamHandler {
	ending := work.NewTurns()
	begin := func(h any, stream grpc.ServerStream) error {
		req := &fanoutv1.WatchRequest{}
		if err := stream.RecvMsg(req); err != nil {
			return err
		}
		return h.(*handler).begin(stream.Context(), req)
	}
	return func(_ any, stream grpc.ServerStream) error {
		h := &handler{registry: r}
		h.ctx.Context = stream.Context()
		h.watch.SetBegan(time.Now())
		h.init(stream)
		err := work.OnFreshStack(func() error { return r.Interceptors.AdmitRequest(h, stream, watchMethod, begin) })
		if err == nil {
			err = h.serve()
		}
		// Very many watches may end at once, so their handlers take turns.
		ending.Do(func() { err = work.OnFreshStack(func() error { return h.finish(err) }) })
		return r.Interceptors.LogPanic(stream.Context(), err)
	}
}

// init connects the parts of the handler.
func (h *handler) init(stream grpc.ServerStream) {
	h.watch.handler, h.sink.handler, h.sink.stream = h, h, stream
}

// begin registers the watch and checks the request. ctx is the context of the request with
// the values that the interceptors have added.
func (h *handler) begin(ctx context.Context, req *fanoutv1.WatchRequest) error {
	h.ctx.Context = ctx
	r, w := h.registry, &h.watch
	rpc.OnDone(ctx, h.ctx.end)
	w.caller.Init(ctx, false)
	if err := r.Register(w); err != nil {
		return err
	}
	admitted, err := r.AdmitWatch(ctx, w, req)
	if err != nil {
		return err
	}
	now, request := time.Now(), &admitted.Watch // the time limit includes the wait for the store
	limit := registry.Shorter(request.TimeLimit, r.TimeLimit())
	last := registry.LastBookmark(ctx, now, limit)
	queue := r.Queues.Of(w.caller.Conn)
	h.fromNow = request.FromNow
	h.sink.tracer, h.sink.slow, h.sink.interval = admitted.Resource.Tracer, r.Interceptors.Slow, request.Options.BookmarkInterval
	h.sink.counters = r.Counters(w.Resource(), queue.Worker())
	start, err := h.await(admitted, last)
	if err != nil {
		switch reason, _ := h.ctx.why(); {
		case errors.Is(reason, apierr.ErrDraining):
			return apierr.ErrDraining
		case reason != nil:
			return reason
		}
		return err
	}
	h.open(dispatch.StreamConfig{
		Queue: queue, Sink: &h.sink, Solo: true, Order: rpc.StreamID(ctx), LastBookmark: last,
	})
	if err := r.Begin(w); err != nil {
		return err
	}
	// The header tells the client that the watch is registered.
	if err := rpc.Accept(ctx, h.sink.stream, metadata.MD{registry.TokenHeader: {w.caller.Token()}}); err != nil {
		return err
	}
	if limit > 0 {
		r.EndAt(w, now.Add(limit))
	}
	h.start(start)
	return nil
}

func (h *handler) open(c dispatch.StreamConfig) {
	h.out = dispatch.NewStream(c)
	h.sink.Init(h.out.Ready)
}

// start starts the watch with a function. From now on, the end of the context ends the watch.
func (h *handler) start(start func()) {
	start()
	h.started = true
	h.ctx.callOnEnd(h.endWatch)
	rpc.OnDone(h.ctx.Context, func(err error) {
		h.ctx.end(err)
		h.out.Abort(err) // the last message may wait for a client that does not read
	})
}

// await waits until the store is fresh enough for the watch. It returns a function that starts the
// watch, and releases it if the client has gone before.
func (h *handler) await(r *registry.Parsed, lastBookmark time.Time) (start func(), err error) {
	ctx, cancel := h.ctx.waiting()
	defer cancel()
	if r.Resource.Direct != nil {
		w, err := r.Resource.WatchDirect(ctx, &r.Watch, lastBookmark)
		if err != nil {
			return nil, err
		}
		h.unstarted = w.Close
		return func() { h.out.StartDirect(&h.watch.StreamWatch, w) }, nil
	}
	begin, err := r.Resource.Await(ctx, &r.Watch)
	return func() {
		h.out.Start(r.Resource.Dispatcher, &h.watch.StreamWatch, r.Interest, backend.BeginOf(&r.Watch, begin), r.Options)
	}, err
}

// serve sends the messages of the watch until the watch ends. It returns the error for the client.
func (h *handler) serve() error {
	h.served = true
	err := h.out.Serve()
	switch reason, byServer := h.ctx.why(); {
	case reason != nil && !byServer:
		return status.FromContextError(reason).Err()
	case errors.Is(err, registry.ErrTimeLimit):
		return nil // clients expect this end
	case errors.Is(err, dispatch.ErrStopped):
		return apierr.ErrDraining
	}
	return err
}

// endWatch ends the watch when its context has ended. If the server ends it, its last message has the
// position to resume from. A watch that has lost its rights gets nothing more: its client resumes from
// the latest message that it received.
func (h *handler) endWatch() {
	if reason, byServer := h.ctx.why(); !byServer || apierr.IsDenied(reason) {
		h.out.Abort(reason)
	} else {
		h.out.EndAll(dispatch.Ending{Reason: reason, Last: true, ResumeAtOnce: errors.Is(reason, apierr.ErrDrainedInTurn)})
	}
}

// end ends the watch. It cuts off the stream if the client does not read the remaining
// messages within the grace period. Any goroutine may call it.
func (h *handler) end(reason error) {
	h.ctx.end(reason)
	h.registry.CutOffAfter(&h.watch, reason, h.sink.stream)
}

// release releases everything that the watch holds. If one step panics, the other steps still
// run. Otherwise the watch could stay in the registry, and a server that stops would wait for
// the watch forever.
func (h *handler) release() (err error) {
	for _, step := range []func(){
		h.stop, h.sink.closeSlot, func() { h.registry.End(&h.watch) }, func() { h.registry.Unregister(&h.watch) },
	} {
		err = cmp.Or(work.Guard(func() error { step(); return nil }), err)
	}
	return err
}

// stop makes sure that nothing uses the watch any more.
func (h *handler) stop() {
	switch {
	case !h.started && h.unstarted != nil:
		h.unstarted()
	case h.started && !h.served:
		h.out.Abort(context.Canceled)
		_ = h.out.Serve()
	}
}

// finish releases everything that the watch holds, writes the audit record and the log line,
// and returns the status for the client.
func (h *handler) finish(err error) error {
	if panicked := h.release(); panicked != nil {
		err = panicked
	}
	return h.registry.Interceptors.Conclude(h.ctx.Context, watchMethod.FullMethod, h.watch.Began(), err)
}
