package quota

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// refusalInterval is how often the log mentions refusals for one reason. A refused client
// may come back many times a second.
const refusalInterval = 10 * time.Second

// refusalLog logs refused requests, at most once per interval and reason.
type refusalLog struct {
	log *slog.Logger

	mu        sync.Mutex
	throttles map[refusalKey]*throttle // guarded by mu
}

// refusalKey is what the log tells apart.
type refusalKey struct {
	reason apierr.Reason
	limit  apierr.Limit // empty: the reason is not a limit
}

// throttle limits the log lines for one reason.
type throttle struct {
	sometimes rate.Sometimes
	refused   int // guarded by refusalLog.mu; requests since the last line
}

// note logs a refused request, or counts it for the next line.
func (r *refusalLog) note(ctx context.Context, key refusalKey, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.throttles[key]
	if t == nil {
		t = &throttle{sometimes: rate.Sometimes{Interval: refusalInterval}}
		r.throttles[key] = t
	}
	t.refused++
	t.sometimes.Do(func() {
		name, _ := grpc.Method(ctx)
		r.log.WarnContext(ctx, "requests are refused", "reason", string(key.reason), "requests", t.refused,
			"client", ClientOf(ctx).String(), "method", name, "error", err)
		t.refused = 0
	})
}

// pushback is the header that tells the retries of gRPC libraries when to try again.
const pushback = "grpc-retry-pushback-ms"

// maxPushback is the longest time for which a library should hold back an error that its
// caller could act on.
const maxPushback = 10 * time.Second

// pushbackFor returns the value of the header for a request that may succeed after a while.
func pushbackFor(after time.Duration) string {
	if after == 0 || after > maxPushback {
		return "-1" // do not retry
	}
	after += rand.N(after) // spreads the requests of one client
	return strconv.FormatInt(after.Milliseconds()+1, 10)
}

// Refuse counts and logs a request that is refused with RESOURCE_EXHAUSTED, and tells the
// client when to try again.
func (l *Limiter) Refuse(ctx context.Context, err error) {
	key := refusalKey{reason: apierr.ReasonOf(err)}
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		key.reason = "" // gRPC itself has refused the request
	}
	if limit, ok := errors.AsType[*apierr.LimitError](err); ok {
		key.limit = limit.Name
		l.refused[limit.Name].Add(1)
		// This fails if the stream has ended. Then there is no client to tell.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, pushbackFor(limit.RetryAfter)))
	}
	l.refusals.note(ctx, key, err)
}
