package watch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// handler serves one watch. Most handlers only wait, so their goroutines keep small stacks.
// Work that needs a deep stack, such as the interceptors and catch-ups, runs on another
// goroutine while the handler waits for it (dispatch.OnFreshStack). That goroutine ends before
// the handler waits for a worker. For a resource without a cache, it lasts as long as the
// watch (serveUncached).
//
// The fields that change with each message are in two cache lines. The first line has the
// fields from ctx.reason to watch.at, the second line has the fields from sender.stream to
// sender.sentAt. The runtime places a handler 8 bytes after the beginning of a cache line. These
// 8 bytes and the fields before ctx.reason fill whole cache lines, so ctx.reason begins a
// line. The fields of the context and the watch after ctx.reason fill whole lines too, so
// sender.stream begins a line. A test checks both lines. It also checks that a handler has at
// most 632 bytes, because the runtime would reserve more memory for a larger one.
type handler struct {
	registry *registry.Registry
	queue    *registry.ConnQueue

	ctx    watchContext
	watch  watch
	sender streamSender

	cleanup   []func() // guarded by ctx.mu: called at the end of the watch, in reverse order
	cleanedUp bool     // guarded by ctx.mu: the cleanup has begun
}

var watchMethod = &grpc.StreamServerInfo{FullMethod: fanoutv1.FanoutService_Watch_FullMethodName, IsServerStream: true}

// Handler returns the handler of the Watch method, for one server. Of [rpc.Interceptors], the handler uses
// only [rpc.Interceptors.Admission], and only around handler.begin. The method handler.finish
// does what the other interceptors do for other RPCs: it sets the status and writes the log
// line and the audit record.
func Handler(r *registry.Registry) grpc.StreamHandler {
	ending := dispatch.NewTurns()
	admit := rpc.Chain(r.Interceptors.Admission(), func(h any, stream grpc.ServerStream) error {
		req := &fanoutv1.WatchRequest{}
		if err := stream.RecvMsg(req); err != nil {
			return err
		}
		return h.(*handler).begin(stream.Context(), req)
	}, watchMethod)
	return func(_ any, stream grpc.ServerStream) error {
		h := &handler{registry: r}
		h.ctx.Context = stream.Context()
		h.watch.SetBegan(time.Now())
		h.init(stream)
		err := h.onFreshStack(func() error { return admit(h, rpc.Receiving{ServerStream: stream}) })
		if err == nil {
			err = h.serve()
		}
		// Very many watches may end at once, so their handlers take turns.
		ending.Do(func() { err = h.onFreshStack(func() error { return h.finish(err) }) })
		return err
	}
}

// init connects the parts of the handler.
func (h *handler) init(stream grpc.ServerStream) {
	h.watch.handler = h
	h.sender.init(&h.ctx, &h.watch, stream)
}

func (h *handler) onFreshStack(do func() error) error { return h.logPanic(dispatch.OnFreshStack(do)) }

// logPanic logs the error if it is a panic, and returns the error for the client.
func (h *handler) logPanic(err error) error { return h.registry.LogPanic(h.ctx.Context, err) }

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
	admitted, err := r.Admit(ctx, w, req)
	if err != nil {
		return err
	}
	now, request := time.Now(), admitted.Watch // the time limit includes the wait in Source.Watch
	request.TimeLimit = registry.Shorter(request.TimeLimit, r.TimeLimit())
	request.Options.LastBookmark = registry.LastBookmark(ctx, now, request.TimeLimit)
	request.Options.Place = rpc.StreamID(ctx)
	h.queue = r.Queues.Acquire(ctx)
	h.sender.tracer, h.sender.slow = admitted.Resource.Tracer, r.Interceptors.Slow
	h.sender.counters = r.Counters(w.Resource(), h.queue.Worker())
	h.sender.limits, h.sender.bookmarkInterval = r.Interceptors.Limits, request.Options.BookmarkInterval
	watcher, err := admitted.Resource.Source().Watch(&h.ctx, &request, h.queue.Queue, &h.sender)
	if err != nil {
		if reason, byServer := h.ctx.why(); byServer {
			if errors.Is(reason, apierr.ErrDraining) {
				return apierr.ErrDraining
			}
			return reason
		}
		return err
	}
	w.watcher, w.catchingUp = watcher, !request.FromNow
	if cached, ok := watcher.(*dispatch.Watcher); ok {
		h.sender.attach(cached)
		h.ctx.forgetDone() // only the wait for the cacher needed the channel
	}
	if err := r.Begin(w); err != nil {
		return err
	}
	if expires := w.caller.Pass.Expires; !expires.IsZero() {
		h.endAfter(time.Until(expires), access.ErrExpired)
	}
	// The header tells the client that the watch is registered.
	if err := rpc.Accept(ctx, h.sender.stream, metadata.MD{registry.TokenHeader: {w.caller.Token()}}); err != nil {
		return err
	}
	if request.TimeLimit > 0 {
		h.endAfter(time.Until(now.Add(request.TimeLimit)), registry.ErrTimeLimit)
	}
	return nil
}

// serve sends the messages of the watch until the watch ends, and then the last message. It
// returns the error for the client.
func (h *handler) serve() error {
	var err error
	if w := h.sender.watcher; w != nil {
		err = w.Serve()
	} else {
		err = dispatch.OnFreshStack(h.serveUncached)
	}
	reason, byServer := h.ctx.why()
	_, panicked := errors.AsType[*dispatch.PanicError](err)
	switch {
	case reason != nil && !byServer:
		return status.FromContextError(reason).Err()
	case apierr.IsDenied(reason):
		return reason // no last message: the client resumes from the latest message that it received
	case panicked, h.sender.broken:
		return h.logPanic(err) // no last message: the position may be wrong
	case errors.Is(err, dispatch.ErrStopped):
		return h.sendLast(apierr.ErrDraining)
	case byServer:
		return h.sendLast(reason)
	}
	return err
}

// serveUncached sends the messages of a watch of a resource without a cache.
func (h *handler) serveUncached() error {
	watcher := h.watch.watcher.(backend.UncachedWatcher)
	for {
		if reason, _ := h.ctx.why(); reason != nil {
			return nil
		}
		if watcher.ReadsSnapshot() {
			if err := h.sender.Reserve(); err != nil {
				return err
			}
		}
		m, err := watcher.Next(&h.ctx)
		if err != nil {
			return err
		}
		if err := h.sender.Send(m); err != nil {
			return err
		}
	}
}

// sendLast sends the last message, which has the position to resume from. It returns the
// error for the client. At the time limit it returns nil, because clients expect this end.
func (h *handler) sendLast(reason error) error {
	last := dispatch.Message{Header: object.Header{
		Kind: object.Draining, Position: h.watch.watcher.Position(), ResumeAtOnce: errors.Is(reason, apierr.ErrDrainedInTurn),
	}}
	if err := h.sender.Send(last); err != nil {
		return err
	}
	if errors.Is(reason, registry.ErrTimeLimit) {
		return nil
	}
	return reason
}

// end ends the watch. It cuts off the stream if the client does not read the remaining
// messages within the grace period. Any goroutine may call it.
func (h *handler) end(reason error) {
	h.ctx.end(reason)
	if grace := h.registry.GraceAfter(reason); grace > 0 {
		h.callAfter(grace, func() { rpc.CutOff(h.sender.stream.Context()) })
	}
}

func (h *handler) endAfter(d time.Duration, reason error) {
	h.callAfter(d, func() { h.end(reason) })
}

// callAfter calls a function after the given time, unless the watch has ended by then.
func (h *handler) callAfter(d time.Duration, f func()) {
	timer := time.AfterFunc(d, f)
	h.onCleanup(func() { timer.Stop() })
}

// onCleanup calls a function when the watch is cleaned up, or at once if the cleanup has begun.
// Any goroutine may call it.
func (h *handler) onCleanup(f func()) {
	h.ctx.mu.Lock()
	cleanedUp := h.cleanedUp
	if !cleanedUp {
		h.cleanup = append(h.cleanup, f)
	}
	h.ctx.mu.Unlock()
	if cleanedUp {
		f()
	}
}

// release releases everything that the watch holds. If one step panics, the other steps still
// run. Otherwise the watch could stay in the registry, and a server that stops would wait for
// the watch forever.
func (h *handler) release() (err error) {
	steps := []func(){h.sender.releaseSlot}
	if h.watch.watcher != nil {
		steps = append(steps, h.watch.watcher.Close)
	}
	h.ctx.mu.Lock()
	h.cleanedUp = true
	cleanup := h.cleanup
	h.ctx.mu.Unlock()
	for _, f := range slices.Backward(cleanup) {
		steps = append(steps, f)
	}
	if h.queue != nil {
		steps = append(steps, func() { h.registry.Queues.Release(h.queue) })
	}
	steps = append(steps, func() { h.registry.End(&h.watch) }, func() { h.registry.Unregister(&h.watch) })
	for _, step := range steps {
		err = cmp.Or(dispatch.Guard(func() error { step(); return nil }), err)
	}
	return err
}

// finish releases everything that the watch holds, writes the audit record and the log line,
// and returns the status for the client.
func (h *handler) finish(err error) error {
	if panicked := h.release(); panicked != nil {
		err = h.logPanic(panicked)
	}
	return h.registry.Interceptors.Conclude(h.ctx.Context, watchMethod.FullMethod, h.watch.Began(), err)
}
