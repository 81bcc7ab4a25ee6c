package store

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/stats"
)

// monitorInterval is the time between inspections of etcd while the connection is
// stable. A proxy can exchange the etcd behind it without breaking the connection.
const monitorInterval = time.Minute

// monitorRetry is the time before a failed inspection is repeated.
const monitorRetry = time.Second

// monitor verifies the epoch after every reconnect. etcd must stop to be restored, so
// this usually detects a restored etcd before anyone writes to it.
func (s *Store) monitor(ctx context.Context) {
	conn := s.client.ActiveConnection()
	state := conn.GetState()
	interval := monitorInterval
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, interval)
		changed := conn.WaitForStateChange(wait, state)
		cancel()
		state = conn.GetState()
		if ctx.Err() != nil || changed && state != connectivity.Ready {
			continue
		}
		interval = monitorInterval
		call, cancel := context.WithTimeout(ctx, callTimeout)
		if err := s.epochs.verify(call); err != nil {
			s.log.Debug("could not verify the epoch of etcd", "error", err)
			interval = monitorRetry
		}
		cancel()
	}
}

// connectionCounter counts the connections made to etcd. It is a gRPC statistics
// handler, and counts a connection before the client sends anything on it.
type connectionCounter struct{ count atomic.Int64 }

// HandleConn implements [stats.Handler].
func (c *connectionCounter) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		c.count.Add(1)
	}
}

// TagConn implements [stats.Handler].
func (*connectionCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

// TagRPC implements [stats.Handler].
func (*connectionCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return ctx
}

// HandleRPC implements [stats.Handler].
func (*connectionCounter) HandleRPC(context.Context, stats.RPCStats) {}
