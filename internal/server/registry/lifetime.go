package registry

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// ErrTimeLimit ends a watch at its time limit, and a stream at that of the server. Clients expect
// this end, so its status is OK.
var ErrTimeLimit = errors.New("the time limit is reached")

// TimeLimit returns the time limit of an RPC: between four fifths of the configured limit and the
// whole limit. So watches that began together do not end together. 0 means no limit.
func (r *Registry) TimeLimit() time.Duration { return randomLimit(r.timeLimit) }

func randomLimit(configured time.Duration) time.Duration {
	if configured <= 0 {
		return 0
	}
	return configured - rand.N(configured/5+1)
}

// Shorter returns the shorter of two limits. 0 means no limit.
func Shorter(a, b time.Duration) time.Duration {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

// LastBookmark returns when to send the last bookmark of a watch, or the zero time if the
// watch has neither a deadline nor a limit. The watch ends at the deadline of ctx or when the
// limit has passed, whichever is earlier. The last bookmark is due one second before the end,
// so it can still reach the client. A watch of less than ten seconds gets it when a tenth of its
// time is left.
func LastBookmark(ctx context.Context, now time.Time, limit time.Duration) time.Time {
	left := limit
	if deadline, ok := ctx.Deadline(); ok {
		left = Shorter(left, max(deadline.Sub(now), 1))
	}
	if left == 0 {
		return time.Time{}
	}
	return now.Add(left - min(time.Second, left/10))
}

// deniedGrace limits the grace period when rights or credentials are lost. One second is
// enough for the message that is being sent. It is also enough for the last message, which
// the client gets if only the credentials were lost.
const deniedGrace = time.Second

// timers are what ends an RPC in time. They stop when the RPC has ended, because they would keep it in
// memory.
type timers struct {
	mu      sync.Mutex
	all     []*time.Timer // guarded by mu
	stopped bool          // guarded by mu
}

// after calls a function after a time, unless the timers have been stopped by then.
func (t *timers) after(d time.Duration, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.all = append(t.all, time.AfterFunc(d, f))
	}
}

func (t *timers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	for _, timer := range t.all {
		timer.Stop()
	}
	t.all = nil
}

// EndAt ends an RPC with [ErrTimeLimit] at a time, unless it was unregistered by then.
func (r *Registry) EndAt(one RPC, at time.Time) {
	one.Caller().timers.after(time.Until(at), func() { one.EndAll(ErrTimeLimit) })
}

// CutOffAfter cuts off the stream of an RPC that ends for the reason, if its client does not read the
// last messages within the grace period. Any goroutine may call it.
func (r *Registry) CutOffAfter(one RPC, reason error, stream grpc.ServerStream) {
	if grace := r.graceAfter(reason); grace > 0 {
		one.Caller().timers.after(grace, func() { rpc.CutOff(stream.Context()) })
	}
}

// graceAfter returns how long a stream that ends for the reason may take to send its last
// messages. It returns 0 if there is no limit: when the server stops, it closes the
// connections of clients that do not read.
func (r *Registry) graceAfter(reason error) time.Duration {
	switch {
	case errors.Is(reason, apierr.ErrDraining):
		return 0
	case apierr.IsDenied(reason), apierr.IsBadCredentials(reason):
		return min(r.grace, deniedGrace)
	}
	return r.grace
}
