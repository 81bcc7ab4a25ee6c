package server

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/tap"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// cutoff is the context of a stream whose client can be given up. A handler that
// sends to a client who does not read waits for that client or for the end of this
// context, and for nothing that it could derive from it.
type cutoff struct {
	context.Context
	cancel context.CancelFunc
	done   atomic.Bool
}

type cutoffKey struct{}

// withCutoff gives each watch a cutoff before its stream begins. It is a
// [tap.ServerInHandle].
func withCutoff(ctx context.Context, info *tap.Info) (context.Context, error) {
	if info.FullMethodName != fanoutv1.FanoutService_Watch_FullMethodName {
		return ctx, nil
	}
	c := &cutoff{}
	c.Context, c.cancel = context.WithCancel(ctx)
	return c, nil
}

// cutOff gives up the client of the stream with this context: whatever is being
// sent to it fails, and it finds DEADLINE_EXCEEDED behind what it has not read.
func cutOff(ctx context.Context) {
	if c, ok := ctx.Value(cutoffKey{}).(*cutoff); ok {
		c.done.Store(true)
		c.cancel()
	}
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
