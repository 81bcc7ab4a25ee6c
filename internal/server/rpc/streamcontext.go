package rpc

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// streamContext is the context of a stream whose client can be given up. A handler that
// sends to a client who does not read waits for that client or for the end of this
// context, and for nothing that it could derive from it.
type streamContext struct {
	context.Context
	cancel context.CancelFunc
	done   atomic.Bool
	late   atomic.Pointer[time.Timer]  // gives up a client whose request does not come; nil: it has
	ended  atomic.Pointer[error]       // what over was called with
	then   atomic.Pointer[func(error)] // see whenOver

	request *frames.Request // what has come of the request; nil when it is there, and on connections within the process
}

type cutoffKey struct{}

// WithStreamContext gives each request a cutoff before its stream begins. It is a
// [tap.ServerInHandle]. Behind the headers the request itself has to come in time:
// until then a goroutine waits for it, which nobody else sees.
func WithStreamContext(l *quota.Limiter, ctx context.Context) (context.Context, error) {
	c := &streamContext{}
	c.Context, c.cancel = context.WithCancel(ctx)
	c.late.Store(time.AfterFunc(l.RequestPatience, c.end))
	forget := func() {}
	if conn := transport.FramesOf(ctx); conn != nil {
		c.request, forget = conn.Open(c.end)
	}
	context.AfterFunc(ctx, func() {
		c.arrived()
		forget()
		c.over(cmp.Or(ctx.Err(), context.Canceled))
	})
	return c, nil
}

// OnDone has a function called with the error of the context of a request when that
// is done.
func OnDone(ctx context.Context, then func(error)) {
	c, ok := ctx.Value(cutoffKey{}).(*streamContext)
	if !ok {
		context.AfterFunc(ctx, func() { then(ctx.Err()) })
		return
	}
	c.then.Store(&then)
	if err := c.ended.Load(); err != nil {
		c.over(*err)
	}
}

// over says that the context is done, or about to be: that of gRPC, from which it is
// derived, may tell this before it. Who waits for that is told once.
func (c *streamContext) over(err error) {
	c.ended.Store(&err)
	if then := c.then.Swap(nil); then != nil {
		(*then)(err)
	}
}

// arrived says that the request with this context has come.
func arrived(ctx context.Context) {
	if c, ok := ctx.Value(cutoffKey{}).(*streamContext); ok {
		c.arrived()
		c.request = nil
	}
}

func (c *streamContext) arrived() {
	if late := c.late.Swap(nil); late != nil {
		late.Stop()
	}
}

// CutOff gives up the client of the stream with this context: whatever is being
// sent to it fails, and it finds DEADLINE_EXCEEDED behind what it has not read.
func CutOff(ctx context.Context) {
	if c, ok := ctx.Value(cutoffKey{}).(*streamContext); ok {
		c.end()
	}
}

func (c *streamContext) end() {
	c.done.Store(true)
	c.cancel()
	c.over(context.DeadlineExceeded)
}

// Value implements [context.Context].
func (c *streamContext) Value(key any) any {
	if key == (cutoffKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Err implements [context.Context]. It is what gRPC makes the status of: cancelled is
// what clients do, and what they may take for their own doing.
func (c *streamContext) Err() error {
	err := c.Context.Err()
	if err != nil && c.done.Load() {
		return context.DeadlineExceeded
	}
	return err
}
