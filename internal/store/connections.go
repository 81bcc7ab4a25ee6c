package store

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// connections counts the connections to etcd that were made so far, as a handler of
// gRPC's statistics. A connection is counted before anything is sent on it.
type connections struct{ count atomic.Int64 }

// HandleConn implements [stats.Handler].
func (c *connections) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		c.count.Add(1)
	}
}

// TagConn implements [stats.Handler].
func (*connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// TagRPC implements [stats.Handler].
func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements [stats.Handler].
func (*connections) HandleRPC(context.Context, stats.RPCStats) {}
