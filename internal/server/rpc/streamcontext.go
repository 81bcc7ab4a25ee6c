package rpc

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// streamContext is the context of a stream, which the server can cut off. A handler that
// sends to a client that does not read is blocked in gRPC until the client reads or this
// context ends. Ending a context that is derived from this one does not unblock it.
type streamContext struct {
	context.Context
	cancel context.CancelFunc
	id     uint32                      // see StreamID
	waited time.Duration               // for the turn of its connection; 0: not noticeably
	detach func() bool                 // see concluded
	ended  atomic.Pointer[error]       // why the context has ended; nil: it has not, or only gRPC's context has
	onDone atomic.Pointer[func(error)] // set by OnDone; nil: not set, or already called

	violations sync.Mutex
	refuse     func(error) // guarded by violations; set by OnViolation; nil: not set
	reads      bool        // guarded by violations; see beginReading

	call Call

	conn    *frames.Conn    // nil: the connection is in-process
	request *frames.Request // the received part of the request; nil: it is complete, or the connection is in-process
}

type streamContextKey struct{}

// WithStreamContext gives each request a context that [CutOff] can end. It is a
// [tap.ServerInHandle], so it runs before the stream begins.
func WithStreamContext(ctx context.Context) context.Context {
	c := &streamContext{}
	c.Context, c.cancel = context.WithCancel(ctx)
	c.conn = transport.FramesOf(ctx)
	if c.conn != nil {
		c.request, c.id, c.waited = c.conn.Open(c)
	}
	c.detach = context.AfterFunc(ctx, func() {
		if c.conn != nil {
			c.conn.Ended(c.id)
		}
		c.end(ctx.Err())
	})
	return c
}

// concluded is called when the handler of a unary request with this context is about to return. The
// context then need not watch gRPC's any more, whose end would start a goroutine.
func concluded(ctx context.Context) {
	if c, ok := ctx.Value(streamContextKey{}).(*streamContext); ok && c.detach() && c.conn != nil {
		c.conn.Ended(c.id)
	}
}

// noteAnswer notes that the handler of the request with this context is about to return.
func noteAnswer(ctx context.Context) {
	if c, ok := ctx.Value(streamContextKey{}).(*streamContext); ok && c.conn != nil {
		c.conn.Answered()
	}
}

// waitedHeader is the response header with how long the server was too busy to begin the request, in
// milliseconds.
const waitedHeader = "fanoutd-waited-ms"

// sendWait adds the response header to the request with this context, if it had to wait.
func sendWait(ctx context.Context) {
	if c, ok := ctx.Value(streamContextKey{}).(*streamContext); ok && c.waited > 0 {
		// This fails if the stream has ended. Then there is no client to notice.
		_ = grpc.SetHeader(ctx, metadata.Pairs(waitedHeader, strconv.FormatInt(c.waited.Milliseconds(), 10)))
	}
}

// noteClient notes who makes the request with this context, before the request is read.
func noteClient(ctx context.Context, who *access.Identity) {
	if c, ok := ctx.Value(streamContextKey{}).(*streamContext); ok && c.request != nil && !who.Anonymous() {
		c.request.SetClient(who.Name)
	}
}

// StreamID returns the HTTP/2 stream id of the request with this context, or 0 for a request
// from within the process. A stream that the client opens later has a higher id.
func StreamID(ctx context.Context) uint32 {
	if c, ok := ctx.Value(streamContextKey{}).(*streamContext); ok {
		return c.id
	}
	return 0
}

// OnDone calls a function with the error of the context of a request when the context is
// done, or now if it already is.
func OnDone(ctx context.Context, f func(error)) {
	c, ok := ctx.Value(streamContextKey{}).(*streamContext)
	if !ok {
		context.AfterFunc(ctx, func() { f(ctx.Err()) })
		return
	}
	c.onDone.Store(&f)
	if c.ended.Load() != nil {
		c.callOnDone()
	}
}

// OnViolation calls a function with the error for the client when the request with this context
// violates a rule after its first message, or now if it already has. The function must make the
// handler return the error, and must not block. It may be called twice. If the handler does not
// return soon, CutOff ends the stream. Call OnViolation before the request is read.
func OnViolation(ctx context.Context, f func(error)) {
	c, ok := ctx.Value(streamContextKey{}).(*streamContext)
	if !ok || c.request == nil {
		return
	}
	c.violations.Lock()
	c.refuse = f
	c.violations.Unlock()
	if violation := c.request.Violation(); violation != nil {
		f(violationError(violation))
	}
}

// beginReading notes that the server is about to read the request with this context. It returns an
// error if the request has violated a rule by then. The stream is cut off unless stop is called
// within the patience, because gRPC keeps a goroutine until then that no other limit counts. If stop
// is nil, the request has arrived already.
func beginReading(ctx context.Context, patience time.Duration) (stop func() bool, err error) {
	c, ok := ctx.Value(streamContextKey{}).(*streamContext)
	if !ok {
		return nil, nil
	}
	if c.request != nil {
		c.violations.Lock()
		c.reads = true
		c.violations.Unlock()
		if err := violationOr(ctx, nil); err != nil {
			return nil, err
		}
		if c.request.Arrived() {
			return nil, nil
		}
	}
	return time.AfterFunc(patience, c.CutOff).Stop, nil
}

// Violated implements [frames.Stream]. If the handler listens, it returns now. If the request is
// being read for a handler that does not listen, the stream is cut off, and the client may get no
// reason. Otherwise the handler has just begun, and returns before it lets gRPC read: the request has
// the violation already, so OnViolation and beginReading find it.
func (c *streamContext) Violated(reason error) (returns bool) {
	c.violations.Lock()
	refuse, reads := c.refuse, c.reads
	c.violations.Unlock()
	switch {
	case refuse != nil:
		refuse(violationError(reason))
		return true
	case reads:
		c.CutOff()
	}
	return false
}

// violationError returns the error for a violation of the rules of package frames.
func violationError(violation error) error {
	return apierr.InvalidError{{Description: violation.Error()}}
}

// end ends the context, unless it has ended already, and calls the function of OnDone.
func (c *streamContext) end(err error) {
	c.ended.CompareAndSwap(nil, &err)
	c.cancel()
	c.callOnDone()
}

// callOnDone calls the function of OnDone, once.
func (c *streamContext) callOnDone() {
	if f := c.onDone.Swap(nil); f != nil {
		(*f)(*c.ended.Load())
	}
}

// arrived notes that the request with this context is complete.
func arrived(ctx context.Context) {
	if c, ok := ctx.Value(streamContextKey{}).(*streamContext); ok {
		c.request = nil
	}
}

// CutOff ends the stream with this context. A blocked send fails. After the messages that the
// client has not read yet, it gets DEADLINE_EXCEEDED.
func CutOff(ctx context.Context) {
	if c, ok := ctx.Value(streamContextKey{}).(*streamContext); ok {
		c.CutOff()
	}
}

// CutOff implements [frames.Stream]. It ends the context with DEADLINE_EXCEEDED, because a client could
// mistake CANCELED for its own doing.
func (c *streamContext) CutOff() { c.end(context.DeadlineExceeded) }

// Lost implements [frames.Stream]. gRPC ends the context, too, a moment later.
func (c *streamContext) Lost() { c.end(context.Canceled) }

// Value implements [context.Context].
func (c *streamContext) Value(key any) any {
	switch key.(type) {
	case streamContextKey:
		return c
	case callKey:
		return &c.call
	}
	return c.Context.Value(key)
}

// Err implements [context.Context]. gRPC makes the status of a stream from it. The function of OnDone
// may ask before gRPC's context has ended this one, because it ends its children in any order.
func (c *streamContext) Err() error {
	if ended := c.ended.Load(); ended != nil {
		return *ended
	}
	return c.Context.Err()
}
