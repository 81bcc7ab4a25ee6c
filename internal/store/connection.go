package store

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/stats"
)

// guardInterval is how often etcd is looked at although nothing has happened to
// the connection: behind a proxy, etcd can be exchanged without a trace.
const guardInterval = time.Minute

// guardRetry is how long to wait before a look at the epoch that failed is tried
// again.
const guardRetry = time.Second

// guard looks at the epoch whenever the connection to etcd was lost and is there
// again, because to be restored etcd has to be stopped. So a restored etcd is
// noticed before anything is written to it, mostly, and not when somebody asks.
func (s *Store) guard(ctx context.Context) {
	conn := s.client.ActiveConnection()
	state := conn.GetState()
	interval := guardInterval
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, interval)
		changed := conn.WaitForStateChange(wait, state)
		cancel()
		state = conn.GetState()
		if ctx.Err() != nil || changed && state != connectivity.Ready {
			continue
		}
		interval = guardInterval
		call, cancel := context.WithTimeout(ctx, callTimeout)
		if err := s.epochs.verify(call); err != nil {
			s.log.Debug("could not look at the epoch of etcd", "error", err)
			interval = guardRetry
		}
		cancel()
	}
}

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
