package frames

import "time"

const (
	// burstSize is how many streams or watches begin in a burst. If bursts were shorter, other
	// connections would read between them, and gRPC would place the streams of each connection far
	// apart in memory. With a burst for each stream, a delivery to 10,000 watches, 100 on a
	// connection, costs 50 percent more CPU (fanoutbench run --watchers 10000 --per-connection 100).
	burstSize = 16

	// burstTime is how long a burst lasts. Otherwise a client could save up bursts of thousands of
	// connections, and begin all of them at once.
	burstTime = 10 * time.Millisecond
)

// burst lets streams begin in bursts, each in a turn of the budget. One goroutine uses it.
type burst struct {
	left int // of the streams of the burst
	ends time.Time
}

// await waits, unless the burst goes on. It returns how long it has waited.
func (b *burst) await(budget Budget, closed <-chan struct{}) (waited time.Duration) {
	if budget == nil {
		return 0
	}
	if b.left == 0 || time.Now().After(b.ends) {
		waited = budget.AwaitTurn(closed)
		b.left, b.ends = burstSize, time.Now().Add(burstTime)
	}
	b.left--
	return waited
}

// Starts paces the watches that begin on one stream. One goroutine uses it.
type Starts struct {
	conn  *Conn // nil: within the process
	burst burst
}

// Starts returns the pace of a stream of the connection, which may be nil.
func (c *Conn) Starts() Starts { return Starts{conn: c} }

// Await waits until the server may begin another watch, like a stream that the client opens, or
// done is closed.
func (s *Starts) Await(done <-chan struct{}) {
	if s.conn != nil {
		s.burst.await(s.conn.budget, done)
	}
}
