package server

import (
	"context"
	"errors"
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

// exhausted are the refusals that the log has been told of.
type exhausted struct {
	mu   sync.Mutex
	said map[apierr.Reason]*sayings // guarded by mu
}

// sayings are what was said about a reason.
type sayings struct {
	sometimes rate.Sometimes
	since     int // guarded by exhausted.mu; refusals since
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

// exhausted notes a request that is refused because something is used up.
func (s *Server) exhausted(ctx context.Context, err error) {
	reason := apierr.ReasonOf(err)
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		reason = "" // gRPC itself has refused it
	}
	if limit, ok := errors.AsType[*apierr.LimitError](err); ok {
		s.limits.refused[reason].Add(1)
		// It fails where the stream has ended, and then nobody is told.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, pushbackFor(limit.RetryAfter)))
	}
	s.refusals.mu.Lock()
	defer s.refusals.mu.Unlock()
	said := s.refusals.said[reason]
	if said == nil {
		said = &sayings{sometimes: rate.Sometimes{Interval: exhaustedInterval}}
		s.refusals.said[reason] = said
	}
	said.since++
	said.sometimes.Do(func() {
		s.log.WarnContext(ctx, "requests are refused", "reason", string(reason), "requests", said.since,
			"client", clientOf(ctx).String(), "method", method(ctx), "error", err)
		said.since = 0
	})
}
