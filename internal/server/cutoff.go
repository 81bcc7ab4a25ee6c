package server

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// cutoff is the context of a stream whose client can be given up. A handler that
// sends to a client who does not read waits for that client or for the end of this
// context, and for nothing that it could derive from it.
type cutoff struct {
	context.Context
	cancel context.CancelFunc
	done   atomic.Bool
	late   atomic.Pointer[time.Timer]  // gives up a client whose request does not come; nil: it has
	ended  atomic.Pointer[error]       // what over was called with
	then   atomic.Pointer[func(error)] // see whenOver

	incoming *frames.Request // what has come of the request; nil when it is there, and on connections within the process

	headed headed
}

type cutoffKey struct{}

// withCutoff gives each request a cutoff before its stream begins. It is a
// [tap.ServerInHandle]. Behind the headers the request itself has to come in time:
// until then a goroutine waits for it, which nobody else sees.
func withCutoff(l *quota.Limiter, ctx context.Context) (context.Context, error) {
	c := &cutoff{}
	c.headed.of = ctx
	c.Context, c.cancel = context.WithCancel(&c.headed)
	c.late.Store(time.AfterFunc(l.RequestPatience, c.end))
	forget := func() {}
	if conn := transport.FramesOf(ctx); conn != nil {
		c.incoming, forget = conn.Open(c.end)
	}
	context.AfterFunc(&c.headed, func() {
		c.arrived()
		forget()
		c.over(cmp.Or(c.headed.Err(), context.Canceled))
	})
	return c, nil
}

// headed is the context of a request as gRPC has it, with all its headers.
type headed struct {
	mu sync.Mutex
	of context.Context // guarded by mu
}

// forgetHeaders has the headers of a request forgotten, which would be there for as
// long as it lasts. Its peer is still known. Some keep all: those with a deadline and
// those within the process, of whom there are few.
func forgetHeaders(ctx context.Context) {
	c, ok := ctx.Value(cutoffKey{}).(*cutoff)
	_, limited := ctx.Deadline()
	if !ok || limited {
		return
	}
	bare := transport.SharedContext(ctx)
	if bare == nil {
		return
	}
	c.headed.mu.Lock()
	defer c.headed.mu.Unlock()
	c.headed.of = bare
}

func (h *headed) now() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of
}

// Deadline implements [context.Context].
func (h *headed) Deadline() (time.Time, bool) { return h.now().Deadline() }

// Done implements [context.Context]. When the headers are forgotten there is nobody any
// more who asks: the library hears of the end once it has asked.
func (h *headed) Done() <-chan struct{} { return h.now().Done() }

// Err implements [context.Context].
func (h *headed) Err() error { return h.now().Err() }

// Value implements [context.Context].
func (h *headed) Value(key any) any { return h.now().Value(key) }

// whenOver has a function called with the error of the context of a request when that
// is done.
func whenOver(ctx context.Context, then func(error)) {
	c, ok := ctx.Value(cutoffKey{}).(*cutoff)
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
func (c *cutoff) over(err error) {
	c.ended.Store(&err)
	if then := c.then.Swap(nil); then != nil {
		(*then)(err)
	}
}

// arrived says that the request with this context has come.
func arrived(ctx context.Context) {
	if c, ok := ctx.Value(cutoffKey{}).(*cutoff); ok {
		c.arrived()
		c.incoming = nil
	}
}

func (c *cutoff) arrived() {
	if late := c.late.Swap(nil); late != nil {
		late.Stop()
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
	c.over(context.DeadlineExceeded)
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
