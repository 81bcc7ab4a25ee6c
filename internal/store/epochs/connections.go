package epochs

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
)

// Connections counts the connections made to etcd. It is a gRPC statistics
// handler, and counts a connection before the client sends anything on it.
type Connections struct{ count atomic.Int64 }

// HandleConn implements [stats.Handler].
func (c *Connections) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		c.count.Add(1)
	}
}

// TagConn implements [stats.Handler].
func (*Connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

// TagRPC implements [stats.Handler].
func (*Connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return ctx
}

// HandleRPC implements [stats.Handler].
func (*Connections) HandleRPC(context.Context, stats.RPCStats) {}
