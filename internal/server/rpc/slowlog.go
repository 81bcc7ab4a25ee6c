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

// SlowLog logs what took longer than it should. While etcd is away everything does,
// so it logs so many lines in a second and counts the rest.
type SlowLog struct {
	least   time.Duration // what is reported took longer; 0: nothing is reported
	log     *slog.Logger
	limiter *rate.Limiter
	slow    atomic.Int64 // what was slow
	leftOut atomic.Int64 // what was not logged since the last line
}

// How many lines there are at most in a second, and at once. Guesses: enough to see
// what is slow, and no log is filled by it.
const (
	slowLinesPerSecond = 5
	slowLinesAtOnce    = 50
)

func NewSlowLog(least time.Duration, log *slog.Logger) *SlowLog {
	return &SlowLog{least: least, log: log, limiter: rate.NewLimiter(slowLinesPerSecond, slowLinesAtOnce)}
}

func (l *SlowLog) IsSlow(took time.Duration) bool { return l.least > 0 && took > l.least }

// Note reports something that took so long, if that is too long. What says which part
// of the request it is.
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

// Count returns how many requests, or parts of them, were slow.
func (l *SlowLog) Count() int64 { return l.slow.Load() }

// subject returns what a request is about.
func subject(req any) (resource, scope string) {
	if r, ok := req.(interface{ GetResource() string }); ok {
		resource = r.GetResource()
	}
	switch r := req.(type) {
	case interface{ GetScope() *fanoutv1.Scope }:
		switch s := r.GetScope().GetScope().(type) {
		case *fanoutv1.Scope_Key:
			scope = "key " + s.Key
		case *fanoutv1.Scope_Prefix:
			scope = "prefix " + s.Prefix
		default:
			scope = "everything"
		}
	case *fanoutv1.GetRequest:
		scope = "key " + r.GetKey()
	case *fanoutv1.PutRequest:
		scope = "key " + r.GetPut().GetKey()
	case *fanoutv1.DeleteRequest:
		scope = "key " + r.GetDelete().GetKey()
	case *fanoutv1.TransactRequest:
		scope = fmt.Sprintf("%d operations", len(r.GetOperations()))
	}
	return resource, scope
}
