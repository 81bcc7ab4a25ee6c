package watch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path"
	"slices"
	"time"

	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// handler serves one watch. Most handlers only wait, so they keep a small stack. Work that
// needs a deep stack, such as the interceptors and catch-ups, runs on a goroutine of its own
// (dispatch.OnFreshStack). That goroutine ends before the handler waits for a worker. For a
// resource without a cache it lasts as long as the watch (serveUncached).
//
// The handler is the one allocation of this package for a watch. The fields that change with
// each message are in two cache lines, which begin with ctx.reason and with sender. (The
// runtime puts an object of this size 8 bytes after the beginning of a line.) A test checks
// the lines and the largest size, which is 632 bytes.
type handler struct {
	service *Service
	callCtx callContext
	cleanup []func() // guarded by ctx.mu: runs at the end of the watch, the last one first
	queue   *connQueue

	beginsWithSnapshot bool
	released           bool // guarded by ctx.mu: the cleanup has begun

	ctx    watchContext
	entry  Entry
	_      uint64 // aligns the field below; see above
	sender streamSender
}

var watchMethod = &grpc.StreamServerInfo{FullMethod: fanoutv1.FanoutService_Watch_FullMethodName, IsServerStream: true}

// Handler returns the handler of the Watch method. Of the interceptors, only those that admit
// a request run, and only around begin. The method end sets the status and writes the log and
// the audit record, as the other interceptors do for other methods.
func (s *Service) Handler() grpc.StreamHandler {
	admit := rpc.Chain(s.cfg.Interceptors.Admission(), func(h any, stream grpc.ServerStream) error {
		req := &fanoutv1.WatchRequest{}
		if err := stream.RecvMsg(req); err != nil {
			return err
		}
		return h.(*handler).begin(stream.Context(), req)
	}, watchMethod)
	return func(_ any, stream grpc.ServerStream) error {
		h := &handler{service: s}
		h.callCtx.Context, h.entry.since = stream.Context(), time.Now()
		h.ctx.Context = &h.callCtx
		h.sender.init(&h.ctx, &h.entry, stream)
		admitted := middleware.WrapServerStream(stream)
		admitted.WrappedContext = &h.callCtx
		err := h.onFreshStack(func() error { return admit(h, rpc.Receiving{ServerStream: admitted}) })
		if err == nil {
			err = h.serve()
		}
		return h.onFreshStack(func() error { return h.end(err) })
	}
}

func (h *handler) onFreshStack(do func() error) error { return h.logPanic(dispatch.OnFreshStack(do)) }

// logPanic logs the error if it is a panic, and returns the error for the client.
func (h *handler) logPanic(err error) error {
	if p, ok := errors.AsType[*dispatch.PanicError](err); ok {
		return h.service.cfg.Interceptors.Recovered(h.ctx.Context, p.Value, p.Stack)
	}
	return err
}

// begin checks the request and registers the watch. ctx is the context of the request with
// the values that the interceptors have added.
func (h *handler) begin(ctx context.Context, req *fanoutv1.WatchRequest) error {
	h.ctx.Context = ctx
	s := h.service
	i := s.cfg.Interceptors
	target := request.ParseTarget(req)
	if err := i.Rights.MayRead(ctx, policy.Watch, target); err != nil {
		return err
	}
	resource, err := s.cfg.Resources.Find(target.Resource)
	if err != nil {
		return err
	}
	watch, err := request.ParseWatch(target, req, resource.Fields)
	if err != nil {
		return err
	}
	now := time.Now() // the time limit counts from here, and Source.Watch may wait below
	watch.TimeLimit = shorter(watch.TimeLimit, randomLimit(s.cfg.TimeLimit))
	watch.Options.LastBookmark = lastBookmark(ctx, now, watch.TimeLimit)
	rpc.OnDone(ctx, h.ctx.end)
	if err := s.Registry.add(&h.entry, h.endWith); err != nil {
		return err
	}
	release, err := i.Limits.Watch(ctx)
	if err != nil {
		return err
	}
	h.onCleanup(release)
	if resource.Scans(&watch.Interest) {
		release, err := i.Limits.Selector(ctx, resource.Name, &watch.Interest)
		if err != nil {
			return err
		}
		h.onCleanup(release)
	}
	h.queue = s.queues.acquire(ctx)
	h.sender.tracer, h.sender.slow = resource.Tracer, i.Slow
	h.sender.counters = &s.counters[resource.Name][h.queue.Worker()]
	h.sender.slot.init(i.Limits, watch.Options.BookmarkInterval)
	h.beginsWithSnapshot = watch.After == nil && !watch.FromNow
	watcher, err := resource.Source().Watch(&h.ctx, &watch, h.queue.Queue, &h.sender)
	if err != nil {
		if reason, _ := h.ctx.why(); errors.Is(reason, apierr.ErrDraining) {
			return apierr.ErrDraining
		}
		return err
	}
	h.entry.describe(ctx, req, watch.Interest.Scope, watcher, &h.sender)
	if w, ok := watcher.(*dispatch.Watcher); ok {
		h.sender.attach(w)
		h.ctx.forgetDone() // only the wait for the cacher needed it
	}
	s.Registry.show(&h.entry)
	h.sender.counters.begun.Add(1)
	if err := s.examine(&h.entry); err != nil {
		return err
	}
	if expires := h.entry.pass.Expires; !expires.IsZero() {
		h.endAfter(time.Until(expires), access.ErrExpired)
	}
	// gRPC would compress each message for each watch, on the worker that other watches wait
	// for.
	err = grpc.SetSendCompressor(ctx, encoding.Identity)
	if err == nil {
		// The header tells the client that the watch is registered.
		err = h.sender.stream.SendHeader(metadata.MD{})
	}
	if err != nil {
		return status.FromContextError(context.Canceled).Err() // the client has gone
	}
	if watch.TimeLimit > 0 {
		h.endAfter(time.Until(now.Add(watch.TimeLimit)), errTimeLimit)
	}
	return nil
}

// serve sends the messages of the watch until it ends, and its last message.
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
		return reason // without a last position: the client has that of its last message
	case panicked, h.sender.broken:
		return h.logPanic(err) // without a last position: it may be wrong
	case errors.Is(err, dispatch.ErrStopped):
		return h.sendLast(apierr.ErrDraining)
	case byServer:
		return h.sendLast(reason)
	}
	return err
}

// serveUncached sends the messages of a watch of a resource without a cache.
func (h *handler) serveUncached() error {
	watcher := h.entry.watcher.(backend.UncachedWatcher)
	snapshot := h.beginsWithSnapshot
	for {
		if reason, _ := h.ctx.why(); reason != nil {
			return nil
		}
		if snapshot {
			if err := h.sender.Reserve(); err != nil {
				return err
			}
		}
		m, err := watcher.Next(&h.ctx)
		if err != nil {
			return err
		}
		switch m.Header.Kind {
		case object.CatchUpBegin:
			snapshot = m.Header.CatchUp != object.Replay
		case object.Synced:
			snapshot = false
		}
		if err := h.sender.Send(m); err != nil {
			return err
		}
	}
}

// sendLast sends the message that says where to resume. It returns the error for the client:
// nil at the time limit, which the client expects.
func (h *handler) sendLast(reason error) error {
	last := dispatch.Message{Header: object.Header{Kind: object.Draining, Position: h.entry.watcher.Position()}}
	if err := h.sender.Send(last); err != nil {
		return err
	}
	if errors.Is(reason, errTimeLimit) {
		return nil
	}
	return reason
}

// errTimeLimit ends a watch at its time limit.
var errTimeLimit = errors.New("the watch has reached its time limit")

// deniedGrace replaces Config.Grace when rights or credentials are lost: at most one message is
// being sent, and one follows.
const deniedGrace = time.Second

// endWith ends the watch, and cuts off its stream if the client does not read the last messages
// within the grace. Any goroutine may call it.
func (h *handler) endWith(reason error) {
	h.ctx.end(reason)
	if errors.Is(reason, apierr.ErrDraining) {
		return // the server closes the connections of clients that do not read
	}
	grace := h.service.cfg.Grace
	if apierr.IsDenied(reason) || apierr.IsBadCredentials(reason) {
		grace = min(grace, deniedGrace)
	}
	h.callAfter(grace, func() { rpc.CutOff(h.sender.stream.Context()) })
}

func (h *handler) endAfter(d time.Duration, reason error) {
	h.callAfter(d, func() { h.endWith(reason) })
}

// callAfter calls a function after a time, unless the watch has ended by then.
func (h *handler) callAfter(d time.Duration, f func()) {
	timer := time.AfterFunc(d, f)
	h.onCleanup(func() { timer.Stop() })
}

// onCleanup calls a function at the end of the watch, or now if that has come. Any goroutine
// may call it.
func (h *handler) onCleanup(f func()) {
	h.ctx.mu.Lock()
	released := h.released
	if !released {
		h.cleanup = append(h.cleanup, f)
	}
	h.ctx.mu.Unlock()
	if released {
		f()
	}
}

// release releases everything that the watch holds. A panic in one step does not skip the
// others: a watch that stays in the registry would keep the server from draining.
func (h *handler) release() (err error) {
	steps := []func(){h.sender.slot.release}
	if h.entry.watcher != nil {
		steps = append(steps, h.entry.watcher.Close)
	}
	h.ctx.mu.Lock()
	h.released = true
	cleanup := h.cleanup
	h.ctx.mu.Unlock()
	for _, f := range slices.Backward(cleanup) {
		steps = append(steps, f)
	}
	if h.queue != nil {
		steps = append(steps, func() { h.service.queues.release(h.queue) })
	}
	if h.entry.number > 0 {
		steps = append(steps, func() { h.entry.registry.remove(&h.entry) })
	}
	for _, step := range steps {
		err = cmp.Or(dispatch.Guard(func() error { step(); return nil }), err)
	}
	return err
}

// end releases everything that the watch holds, and returns the status for the client.
func (h *handler) end(err error) error {
	if panicked := h.release(); panicked != nil {
		err = h.logPanic(panicked)
	}
	i := h.service.cfg.Interceptors
	result := i.Finish(h.ctx.Context, err)
	i.Record(h.ctx.Context, &h.callCtx.call, watchMethod.FullMethod, result)
	code := status.Code(result)
	peer, _ := transport.CallerOf(h.ctx.Context)
	i.Log.Log(h.ctx.Context, slog.Level(rpc.LogLevel(code)), "finished call",
		"grpc.service", path.Dir(watchMethod.FullMethod)[1:], "grpc.method", "Watch",
		"grpc.code", code.String(), "grpc.time_ms", time.Since(h.entry.since).Milliseconds(), "peer.address", peer)
	return result
}
