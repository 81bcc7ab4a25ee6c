package server

import (
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

// watching is a watch that is being served. Its handler has to be there for as long as
// its stream, and of very many watches most just wait: so the handler has little on its
// stack. What needs more, such as the interceptors, which would stay there, and
// catch-ups, is done aside, on a goroutine that ends before the handler waits.
//
// What a worker looks at for each message is in two lines of a processor's cache, the
// first of which begins with ends.reason and the second with stream: there are more
// watches than fit there. (What the runtime allocates of this size begins 8 bytes behind
// the beginning of a line.)
type watching struct {
	context.Context // of gRPC; see Value

	server *Server
	call   rpc.Call
	turn   snapshotSlot
	leave  []func() // what else is to be done when the watch is over, the last one first

	drained uint64       // its number in the drain; 0: it is not there
	lane    *countedLane // nil: it has none
	tally   *tally
	began   time.Duration // of the catch-up that is under way, since the watch began

	beginsWithSnapshot bool
	_                  uint64 // see above

	ends    ending // its context has the call, and later who asks
	session session

	_      [4]uint64 // see above
	sender streamSender
}

// watch returns the handler of Watch. What interceptors do for other methods it does
// for itself; those that are given have to let the request through, and are done when
// they have.
func (s *Server) watch(f *fanout) grpc.StreamHandler {
	admit := rpc.Chain(s.interceptors.Admission(), func(_ any, stream grpc.ServerStream) error {
		req := &fanoutv1.WatchRequest{}
		if err := stream.RecvMsg(req); err != nil {
			return err
		}
		return stream.Context().Value(watchingKey{}).(*watching).begin(f, req, stream.Context())
	}, &grpc.StreamServerInfo{FullMethod: fanoutv1.FanoutService_Watch_FullMethodName, IsServerStream: true})
	return func(_ any, stream grpc.ServerStream) error {
		w := &watching{Context: stream.Context(), server: s}
		w.sender.stream, w.ends.Context, w.session.since = stream, w, time.Now()
		asked := middleware.WrapServerStream(stream)
		asked.WrappedContext = w
		err := w.aside(func() error { return admit(nil, rpc.Receiving{ServerStream: asked}) })
		if err == nil {
			err = w.serve()
		}
		return w.aside(func() error { return w.end(err) })
	}
}

// aside runs a function on a stack of its own, and logs its panic.
func (w *watching) aside(do func() error) error { return w.unpanicked(dispatch.OnFreshStack(do)) }

// unpanicked logs a panic and returns what its client gets to know.
func (w *watching) unpanicked(err error) error {
	if p, ok := errors.AsType[*dispatch.PanicError](err); ok {
		return w.server.interceptors.Recovered(w.ends.Context, p.Value, p.Stack)
	}
	return err
}

// serve sends the messages of the watch until it ends.
func (w *watching) serve() error {
	var err error
	if w.sender.watcher != nil {
		err = w.sender.watcher.Serve()
	} else {
		err = dispatch.OnFreshStack(w.serveUncached)
	}
	reason, ours := w.ends.why()
	_, panicked := errors.AsType[*dispatch.PanicError](err)
	switch {
	case reason != nil && !ours:
		return status.FromContextError(reason).Err()
	case apierr.IsDenied(reason):
		return reason // without a last position: the client has that of its last message
	case panicked, w.sender.broken:
		return w.unpanicked(err) // without a last position: it may be wrong
	case errors.Is(err, dispatch.ErrStopped):
		return w.farewell(apierr.ErrDraining)
	case ours:
		return w.farewell(reason)
	}
	return err
}

// serveUncached sends the messages of a watch of a resource without a cache.
func (w *watching) serveUncached() error {
	watcher := w.session.watcher.(backend.UncachedWatcher)
	snapshot := w.beginsWithSnapshot
	for {
		if reason, _ := w.ends.why(); reason != nil {
			return nil
		}
		if snapshot {
			if err := w.sender.Reserve(); err != nil {
				return err
			}
		}
		m, err := watcher.Next(&w.ends)
		if err != nil {
			return err
		}
		switch m.Header.Kind {
		case object.CatchUpBegin:
			snapshot = m.Header.CatchUp != object.Replay
		case object.Synced:
			snapshot = false
		}
		if err := w.sender.Send(m); err != nil {
			return err
		}
	}
}

type watchingKey struct{}

// Value implements [context.Context]: the watch is found in its context, and its call.
func (w *watching) Value(key any) any {
	switch key.(type) {
	case watchingKey:
		return w
	case rpc.CallKey:
		return &w.call
	}
	return w.Context.Value(key)
}

// end cleans up, and returns what the client is told.
func (w *watching) end(err error) error {
	w.turn.release()
	if w.session.number > 0 {
		w.server.sessions.end(&w.session)
	}
	if w.session.watcher != nil {
		w.session.watcher.Close()
	}
	for _, leave := range slices.Backward(w.leave) {
		leave()
	}
	if w.lane != nil {
		w.server.lanes.leave(w.lane)
	}
	if w.drained > 0 {
		w.server.drain.leave(w.drained)
	}
	told := w.server.interceptors.Finish(w.ends.Context, err)
	w.server.interceptors.Record(w.ends.Context, &w.call, fanoutv1.FanoutService_Watch_FullMethodName, told)
	code := status.Code(told)
	peer, _ := transport.CallerOf(w.ends.Context)
	w.server.log.Log(w.ends.Context, slog.Level(rpc.LogLevel(code)), "finished call",
		"grpc.service", path.Dir(fanoutv1.FanoutService_Watch_FullMethodName)[1:], "grpc.method", "Watch",
		"grpc.code", code.String(), "grpc.time_ms", time.Since(w.session.since).Milliseconds(), "peer.address", peer)
	return told
}

// begin registers the watch.
func (w *watching) begin(f *fanout, req *fanoutv1.WatchRequest, ctx context.Context) error {
	w.ends.Context = ctx
	target := request.ParseTarget(req)
	if err := f.rights.MayRead(ctx, policy.Watch, target); err != nil {
		return err
	}
	resource, err := f.resources.Find(target.Resource)
	if err != nil {
		return err
	}
	watch, err := request.ParseWatch(target, req, resource.Fields)
	if err != nil {
		return err
	}
	watch.TimeLimit = shorter(watch.TimeLimit, f.timeLimit())
	watch.Options.LastBookmark = lastBookmark(ctx, watch.TimeLimit)
	w.sender.init(w)
	rpc.OnDone(ctx, w.ends.end)
	if w.drained = f.drain.enter(func() { w.ends.end(apierr.ErrDraining) }); w.drained == 0 {
		return apierr.ErrDraining
	}
	giveBack, err := f.limits.Watch(ctx)
	if err != nil {
		return err
	}
	w.leave = append(make([]func(), 0, 2), giveBack)
	if resource.Scans(&watch.Interest) {
		forget, err := f.limits.Selector(ctx, resource.Name, &watch.Interest)
		if err != nil {
			return err
		}
		w.leave = append(w.leave, forget)
	}
	w.lane = f.lanes.enter(ctx)
	source, err := resource.Source().Watch(&w.ends, &watch, w.lane.Queue, &w.sender)
	if err != nil {
		if reason, _ := w.ends.why(); errors.Is(reason, apierr.ErrDraining) {
			return apierr.ErrDraining
		}
		return err
	}
	if dispatched, ok := source.(*dispatch.Watcher); ok {
		w.sender.attach(dispatched)
		w.session.fence = &w.sender.fence
		w.ends.forget() // the cacher has been waited for; the watcher waits for nothing
	}
	w.sender.trail, w.tally = resource.Tracer, &w.server.tallies[resource.Name][w.lane.Worker()]
	w.session.init(ctx, req, watch.Interest.Scope, source, w.endWith)
	f.sessions.begin(&w.session)
	w.tally.begun.Add(1)
	if err := f.examine(&w.session); err != nil {
		return err
	}
	if expires := w.session.pass.Expires; !expires.IsZero() {
		w.endAfter(time.Until(expires), access.ErrExpired)
	}
	// What is compressed would be so for each watcher by itself, and by the worker that
	// others wait for.
	err = grpc.SetSendCompressor(ctx, encoding.Identity)
	if err == nil {
		// The watcher is registered: who has the header knows that.
		err = w.sender.stream.SendHeader(metadata.MD{})
	}
	if err != nil {
		return status.FromContextError(context.Canceled).Err() // the client is gone, which nobody is to blame for
	}
	if watch.TimeLimit > 0 {
		w.endAfter(watch.TimeLimit, errTimeLimit)
	}
	w.turn.init(f.limits, watch.Options.BookmarkInterval)
	w.beginsWithSnapshot = watch.After == nil && !watch.FromNow
	return nil
}

// deniedGrace is how long a watch may take to send what it is sending when its right is
// gone, or its credentials are not good any more. Nothing follows that but, in the second
// case, its last position.
const deniedGrace = time.Second

// endWith ends the watch. It may be called at any time.
func (w *watching) endWith(reason error) {
	w.ends.end(reason)
	grace := w.server.watchGrace
	if apierr.IsDenied(reason) || apierr.IsBadCredentials(reason) {
		grace = min(grace, deniedGrace)
	}
	// It does no harm to a watch that has ended by then.
	time.AfterFunc(grace, func() { rpc.CutOff(w.sender.stream.Context()) })
}

func (w *watching) endAfter(d time.Duration, reason error) {
	timer := time.AfterFunc(d, func() { w.endWith(reason) })
	w.leave = append(w.leave, func() { timer.Stop() })
}

// errTimeLimit ends a watch that has lasted long enough.
var errTimeLimit = errors.New("the time limit of the watch has come")

// farewell tells the client where to resume, and returns the error that it is told after
// that, if it is not what it could expect.
func (w *watching) farewell(reason error) error {
	last := dispatch.Message{Header: object.Header{Kind: object.Draining, Position: w.session.watcher.Position()}}
	if err := w.sender.Send(last); err != nil {
		return err
	}
	if errors.Is(reason, errTimeLimit) {
		return nil
	}
	return reason
}
