package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// SlowLog logs requests that take too long. While etcd is unreachable all of them do, so it
// limits the lines per second and counts the rest.
type SlowLog struct {
	least   time.Duration // requests that take longer are slow; 0: none are
	log     *slog.Logger
	limiter *rate.Limiter
	slow    atomic.Int64 // requests that were slow
	leftOut atomic.Int64 // slow requests since the last line
}

// How many lines are logged per second and at once. These are guesses: enough to see what is
// slow, too few to fill a log.
const (
	slowLinesPerSecond = 5
	slowLinesAtOnce    = 50
)

// NewSlowLog returns a log of requests that take longer than a threshold.
func NewSlowLog(least time.Duration, log *slog.Logger) *SlowLog {
	return &SlowLog{least: least, log: log, limiter: rate.NewLimiter(slowLinesPerSecond, slowLinesAtOnce)}
}

// IsSlow reports whether a request that took so long is slow.
func (l *SlowLog) IsSlow(took time.Duration) bool { return l.least > 0 && took > l.least }

// Note logs a part of a request, such as its first message, if it took too long.
func (l *SlowLog) Note(ctx context.Context, what string, took time.Duration, req any) {
	if !l.IsSlow(took) {
		return
	}
	l.slow.Add(1)
	if !l.limiter.Allow() {
		l.leftOut.Add(1)
		return
	}
	resource, scope := subject(req)
	address, _ := transport.CallerOf(ctx)
	attributes := []any{
		"method", Method(ctx), "what", what, "duration", took,
		"resource", apierr.Clip(resource, apierr.MaxEchoBytes), "scope", apierr.Clip(scope, apierr.MaxEchoBytes),
		"peer", address, "identity", access.From(ctx).Name,
	}
	if n := l.leftOut.Swap(0); n > 0 {
		attributes = append(attributes, "left_out", n)
	}
	l.log.WarnContext(ctx, "slow", attributes...)
}

// Count returns how many parts of requests were slow.
func (l *SlowLog) Count() int64 { return l.slow.Load() }

// subject returns the resource of a request, and which part of it the request concerns.
func subject(req any) (resource, scope string) {
	if r, ok := req.(interface{ GetResource() string }); ok {
		resource = r.GetResource()
	}
	if r, ok := req.(interface{ GetScope() *fanoutv1.Scope }); ok {
		switch s := r.GetScope().GetScope().(type) {
		case *fanoutv1.Scope_Key:
			return resource, "key " + s.Key
		case *fanoutv1.Scope_Prefix:
			return resource, "prefix " + s.Prefix
		}
		return resource, "everything"
	}
	switch keys, n := keysOf(req); {
	case n == 1:
		scope = "key " + keys[0]
	case n > 1:
		scope = fmt.Sprintf("%d operations", n)
	}
	return resource, scope
}
