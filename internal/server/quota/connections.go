package quota

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// maxConnectionDelay is how long a connection waits that its host begins too soon. It is
// less than half of the five seconds that our client gives a connection, handshake
// included: one that is given up shortly before its turn has taken that from another.
const maxConnectionDelay = transport.ConnectionTimeout / 5

// connLimiter says how often a host may begin a connection, which costs more than
// anything else that it can do without being known: a handshake, buffers, goroutines.
// Those that come too soon wait: so a thousand clients behind one address that come at
// once all get through, and who connects again and again is slowed down. A refusal
// would only have both come back.
type connLimiter struct{ ClientLimiters }

func newConnLimiter(perSecond float64, burst int) *connLimiter {
	return &connLimiter{NewClientLimiters(perSecond, burst)}
}

// reserve returns how long a connection that has come now has to wait, or false if that is
// too long. Nil has nobody wait.
func (a *connLimiter) reserve(c Client, now time.Time) (wait time.Duration, ok bool) {
	if a == nil {
		return 0, true
	}
	turn := a.Of(c).ReserveN(now, 1)
	if wait = turn.DelayFrom(now); wait > maxConnectionDelay {
		turn.CancelAt(now)
		return 0, false
	}
	return wait, true
}
