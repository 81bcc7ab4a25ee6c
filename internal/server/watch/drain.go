package watch

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/frames"
)

// DrainClock is the clock that a drain uses. Tests replace it.
type DrainClock interface {
	// Now returns the present time.
	Now() time.Time
	// Wait waits until the given time and returns true. It returns false if ctx is done, or if
	// done is closed while it waits.
	Wait(ctx context.Context, until time.Time, done <-chan struct{}) bool
}

// drainGap is the longest time that a drain takes per watch. A hundred clients that reconnect
// within a second are no burden, so a drain of few watches may be shorter than its period.
const drainGap = 10 * time.Millisecond

// drain refuses new watches and ends the present ones over the period, one connection after
// another. It divides the period into equal slices, one for each watch, and ends the watch at
// a random moment of its slice. Before the first watch of a connection ends, the connection
// gets a GOAWAY, so the client resumes its watches on another connection. drain returns when
// it has told the last watch to end, or earlier if all watches have gone or ctx is done. It
// does not wait for watches whose clients do not read their last messages.
func (r *Registry) drain(ctx context.Context, period time.Duration) {
	entries := byConnection(r.refuseNew())
	count := time.Duration(len(entries))
	reason := apierr.ErrDraining
	if period > 0 {
		reason = apierr.ErrDrainedInTurn
	}
	period = min(period, count*drainGap)
	began := r.clock.Now()
	for i, e := range entries {
		slice := period / count
		at := began.Add(period*time.Duration(i)/count + rand.N(max(slice, 1)))
		if !r.clock.Wait(ctx, at, r.empty) {
			return
		}
		e.goAway()
		r.endOne(e, reason)
	}
}

// byConnection sorts watches by their connections. The connection with the oldest watch comes
// first, and the watches of a connection are in the order of their age. Watches within the
// process belong to many clients, so each of these watches counts as a connection.
func byConnection(entries []*Entry) []*Entry {
	oldest := map[*frames.Conn]uint64{}
	for _, e := range entries {
		if n, ok := oldest[e.conn]; !ok || e.number < n {
			oldest[e.conn] = e.number
		}
	}
	rank := func(e *Entry) uint64 {
		if e.conn == nil {
			return e.number
		}
		return oldest[e.conn]
	}
	slices.SortFunc(entries, func(x, y *Entry) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.number, y.number))
	})
	return entries
}

// goAway makes the client use another connection for its next requests.
func (e *Entry) goAway() {
	if e.conn != nil {
		e.conn.GoAway()
	}
}

// endAll refuses new watches, ends the present ones at once, and waits until none is left. A
// watch whose client does not read stays until the caller closes the connection.
func (r *Registry) endAll() {
	for _, e := range r.refuseNew() {
		r.endOne(e, apierr.ErrDraining)
	}
	<-r.empty
}

// SetDrainClock replaces the clock of the drain. It is for tests.
func (s *Service) SetDrainClock(c DrainClock) { s.Registry.clock = c }

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) Wait(ctx context.Context, until time.Time, done <-chan struct{}) bool {
	left := time.Until(until)
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
	case <-ctx.Done():
	}
	return false
}
