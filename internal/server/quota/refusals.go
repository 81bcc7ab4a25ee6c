package quota

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

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

// RefuseCredentials logs that the credentials of a client were refused. Callers get only part of
// the reason, and any client can show bad credentials as often as it likes: so the log has few
// lines for each fault. A caller without credentials knows that itself.
func (l *Limiter) RefuseCredentials(c Client, fault access.Fault, err error) {
	if fault == access.FaultMissing {
		return
	}
	l.throttle.note(fault, func(times int) {
		l.log.Warn("credentials are refused", "fault", string(fault), "requests", times, "client", c.String(),
			"error", apierr.Clip(err.Error(), apierr.MaxEchoBytes))
	})
}

// Refuse counts and logs a request that is refused with RESOURCE_EXHAUSTED, and tells the
// client when to try again.
func (l *Limiter) Refuse(ctx context.Context, err error) {
	reason, name := apierr.ReasonOf(err), apierr.Limit("")
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		reason = "" // gRPC itself has refused the request
	}
	if limit, ok := errors.AsType[*apierr.LimitError](err); ok {
		name = limit.Name
		l.refused[limit.Name].Add(1)
		// This fails if the stream has ended. Then there is no client to tell.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(pushback, pushbackFor(limit.RetryAfter)))
	}
	l.throttle.note([2]string{string(reason), string(name)}, func(times int) {
		method, _ := grpc.Method(ctx)
		l.log.WarnContext(ctx, "requests are refused", "reason", string(reason), "requests", times,
			"client", ClientOf(ctx).String(), "method", method, "error", err)
	})
}
