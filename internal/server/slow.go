package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// slowLog logs what took longer than it should. While etcd is away everything does,
// so it logs so many lines in a second and counts the rest.
type slowLog struct {
	least   time.Duration // what is reported took longer; 0: nothing is reported
	log     *slog.Logger
	limiter *rate.Limiter
	count   atomic.Int64 // what was slow
	leftOut atomic.Int64 // what was not logged since the last line
}

// How many lines there are at most in a second, and at once. Guesses: enough to see
// what is slow, and no log is filled by it.
const (
	slowLinesPerSecond = 5
	slowLinesAtOnce    = 50
)

func newSlowLog(least time.Duration, log *slog.Logger) *slowLog {
	return &slowLog{least: least, log: log, limiter: rate.NewLimiter(slowLinesPerSecond, slowLinesAtOnce)}
}

func (l *slowLog) isSlow(took time.Duration) bool { return l.least > 0 && took > l.least }

// note reports something that took so long, if that is too long. What says which part
// of the request it is.
func (l *slowLog) note(ctx context.Context, what string, took time.Duration, req any) {
	if !l.isSlow(took) {
		return
	}
	l.count.Add(1)
	if !l.limiter.Allow() {
		l.leftOut.Add(1)
		return
	}
	resource, scope := subject(req)
	address, _ := transport.CallerOf(ctx)
	attributes := []any{
		"method", method(ctx), "what", what, "duration", took,
		"resource", apierr.Clip(resource, apierr.MaxEchoBytes), "scope", apierr.Clip(scope, apierr.MaxEchoBytes),
		"peer", address, "identity", access.From(ctx).Name,
	}
	if n := l.leftOut.Swap(0); n > 0 {
		attributes = append(attributes, "left_out", n)
	}
	l.log.WarnContext(ctx, "slow", attributes...)
}

// SlowRequests returns how many requests, or parts of them, took longer than they
// should. See Config.SlowRequest.
func (s *Server) SlowRequests() int64 { return s.slow.count.Load() }

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

// hurry notes that a message was handed to the network, and reports a watch that was slow
// to begin, or to catch up. Most messages are live ones, and of no interest here.
func (w *watching) hurry(h *object.Header, first bool) {
	switch {
	case first:
		w.tookSince("first message")
	case h.Kind == object.CatchUpBegin:
		w.began = time.Since(w.session.since)
	case h.Kind == object.Synced:
		w.tookSince("catch-up")
	}
}

func (w *watching) tookSince(what string) {
	if took := time.Since(w.session.since) - w.began; w.server.slow.isSlow(took) {
		w.server.slow.note(w.ends.Context, what, took, w.session.request.request())
	}
}
