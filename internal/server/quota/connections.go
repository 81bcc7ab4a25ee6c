package quota

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// maxConnectionDelay is how long a connection may have to wait because its host opens too
// many. It is less than half of the five seconds that our client waits for a connection,
// including the handshake: a client that gave up just before its turn would have wasted the
// turn.
const maxConnectionDelay = transport.ConnectionTimeout / 5

// reserveConnection returns how long a connection of the client must wait, or false if it is refused.
// A connection costs more than anything else an unauthenticated client can do: a handshake, buffers,
// goroutines. Connections beyond the rate wait. So a thousand clients behind one address that connect
// at once all succeed, and a client that reconnects in a loop is slowed down. Refused clients would
// only come back.
func reserveConnection(often *ClientLimiters, c Client, now time.Time) (wait time.Duration, ok bool) {
	turn := often.Of(c).ReserveN(now, 1)
	if wait = turn.DelayFrom(now); wait > maxConnectionDelay {
		turn.CancelAt(now)
		return 0, false
	}
	return wait, true
}
