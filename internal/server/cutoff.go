package server

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/tap"
)

// cutoff is the context of a stream whose client can be given up. A handler that
// sends to a client who does not read waits for that client or for the end of this
// context, and for nothing that it could derive from it.
type cutoff struct {
	context.Context
	cancel context.CancelFunc
	done   atomic.Bool
	late   *time.Timer            // gives up a client whose request does not come
	then   atomic.Pointer[func()] // see whenOver

	incoming *incoming // what has come of the request; nil on connections within the process
}

type cutoffKey struct{}

// withCutoff gives each request a cutoff before its stream begins. It is a
// [tap.ServerInHandle]. Behind the headers the request itself has to come in time:
// until then a goroutine waits for it, which nobody else sees.
func (l *limits) withCutoff(ctx context.Context, _ *tap.Info) (context.Context, error) {
	c := &cutoff{}
	c.Context, c.cancel = context.WithCancel(ctx)
	c.late = time.AfterFunc(l.requestPatience, c.end)
	forget := func() {}
	if conn := connectionOf(ctx); conn != nil {
		c.incoming, forget = conn.open(c.end)
	}
	context.AfterFunc(ctx, func() {
		c.late.Stop()
		forget()
		c.over()
	})
	return c, nil
}

// whenOver has a function called when the context of a request is done.
func whenOver(ctx context.Context, then func()) {
	c, ok := ctx.Value(cutoffKey{}).(*cutoff)
	if !ok {
		context.AfterFunc(ctx, then)
		return
	}
	c.then.Store(&then)
	if ctx.Err() != nil {
		c.over()
	}
}

// over calls who waits for the end of the context, once.
func (c *cutoff) over() {
	if then := c.then.Swap(nil); then != nil {
		(*then)()
	}
}

// arrived says that the request with this context has come.
func arrived(ctx context.Context) {
	if c, ok := ctx.Value(cutoffKey{}).(*cutoff); ok {
		c.late.Stop()
	}
}

// cutOff gives up the client of the stream with this context: whatever is being
// sent to it fails, and it finds DEADLINE_EXCEEDED behind what it has not read.
func cutOff(ctx context.Context) {
	if c, ok := ctx.Value(cutoffKey{}).(*cutoff); ok {
		c.end()
	}
}

func (c *cutoff) end() {
	c.done.Store(true)
	c.cancel()
	c.over()
}

// Value implements [context.Context].
func (c *cutoff) Value(key any) any {
	if key == (cutoffKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Err implements [context.Context]. It is what gRPC makes the status of: cancelled is
// what clients do, and what they may take for their own doing.
func (c *cutoff) Err() error {
	err := c.Context.Err()
	if err != nil && c.done.Load() {
		return context.DeadlineExceeded
	}
	return err
}
