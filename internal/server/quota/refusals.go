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

// exhaustedInterval is how often the log says that requests are refused because
// something is used up. A client that is refused may come back many times a second.
const exhaustedInterval = 10 * time.Second

// refusalLog are the refusals that the log has been told of.
type refusalLog struct {
	log *slog.Logger

	mu        sync.Mutex
	throttles map[apierr.Reason]*throttle // guarded by mu
}

// throttle are what was said about a reason.
type throttle struct {
	sometimes rate.Sometimes
	refused   int // guarded by exhausted.mu; refusals since
}

// pushback is the header with which gRPC's own retries are told when to come back.
const pushback = "grpc-retry-pushback-ms"

// longestPushback is for how long a library shall hold back an answer that its caller
// could act on.
const longestPushback = 10 * time.Second

// pushbackFor returns what the header says of a try that may succeed after a while.
func pushbackFor(after time.Duration) string {
	if after == 0 || after > longestPushback {
		return "-1" // no retry
	}
	// The requests of one client shall not all come back at once.
	after += rand.N(after)
	return strconv.FormatInt(after.Milliseconds()+1, 10)
}

// Refuse notes a request that is refused because something is used up.
func (l *Limiter) Refuse(ctx context.Context, err error) {
	reason := apierr.ReasonOf(err)
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		reason = "" // gRPC itself has refused it
	}
	if limit, ok := errors.AsType[*apierr.LimitError](err); ok {
		l.refused[reason].Add(1)
		// It fails where the stream has ended, and then nobody is told.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, pushbackFor(limit.RetryAfter)))
	}
	l.refusals.mu.Lock()
	defer l.refusals.mu.Unlock()
	said := l.refusals.throttles[reason]
	if said == nil {
		said = &throttle{sometimes: rate.Sometimes{Interval: exhaustedInterval}}
		l.refusals.throttles[reason] = said
	}
	said.refused++
	said.sometimes.Do(func() {
		name, _ := grpc.Method(ctx)
		l.refusals.log.WarnContext(ctx, "requests are refused", "reason", string(reason), "requests", said.refused,
			"client", ClientOf(ctx).String(), "method", name, "error", err)
		said.refused = 0
	})
}
