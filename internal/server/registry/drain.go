package registry

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

// drained is an RPC that a drain ends.
type drained struct {
	RPC
	watches int // at least 1
}

// Drain refuses new watches and ends the present ones over the period, one connection after
// another. It divides the period into equal slices, one for each watch, and ends the watch at
// a random moment of its slice. The watches of a stream end together, at a random moment of
// their slices. Before the first watch of a connection ends, the connection gets a GOAWAY, so
// the client resumes its watches on another connection. Drain returns when it has told the
// last watch to end, or earlier if all watches have gone or ctx is done. It does not wait for
// watches whose clients do not read their last messages.
func (r *Registry) Drain(ctx context.Context, period time.Duration) {
	all := byConnection(r.refuseNew())
	count := 0
	for _, d := range all {
		count += d.watches
	}
	reason := apierr.ErrDraining
	if period > 0 {
		reason = apierr.ErrDrainedInTurn
	}
	period = min(period, time.Duration(count)*drainGap)
	began := r.clock.Now()
	before := 0 // watches that end earlier
	for _, d := range all {
		// The product of a period and a number of watches may exceed an int64.
		from := time.Duration(float64(period) * float64(before) / float64(count))
		slice := time.Duration(float64(period) * float64(d.watches) / float64(count))
		before += d.watches
		if !r.clock.Wait(ctx, began.Add(from+rand.N(max(slice, 1))), r.empty) {
			return
		}
		d.Caller().goAway()
		r.endOne(d, reason)
	}
}

// byConnection sorts watches by their connections. The connection with the oldest watch comes
// first, and the watches of a connection are in the order of their age. Watches within the
// process belong to many clients, so each of these watches counts as a connection.
func byConnection(all []drained) []drained {
	oldest := map[*frames.Conn]uint64{}
	for _, d := range all {
		c := d.Caller()
		if n, ok := oldest[c.Conn]; !ok || c.number < n {
			oldest[c.Conn] = c.number
		}
	}
	rank := func(d drained) uint64 {
		if c := d.Caller(); c.Conn == nil {
			return c.number
		}
		return oldest[d.Caller().Conn]
	}
	slices.SortFunc(all, func(x, y drained) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.Caller().number, y.Caller().number))
	})
	return all
}

// refuseNew refuses new watches from now on. It returns all RPCs that are registered, in any order.
func (r *Registry) refuseNew() []drained {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		r.draining = true
		r.checkEmpty()
	}
	all := make([]drained, 0, r.rpcs.Len())
	for _, one := range r.rpcs.Values() {
		all = append(all, drained{one, max(one.Len(), 1)})
	}
	return all
}

// endOne ends an RPC with a reason, if it is still registered.
func (r *Registry) endOne(d drained, reason error) {
	if found := r.rpcAt(d.Caller().number); found != nil {
		found.EndAll(reason)
	}
}

// EndAll refuses new watches, ends the present ones at once, and waits until none is left. A
// watch whose client does not read stays until the caller closes the connection.
func (r *Registry) EndAll() {
	for _, d := range r.refuseNew() {
		r.endOne(d, apierr.ErrDraining)
	}
	<-r.empty
}

// WaitToDrain waits for the given time or until ctx is done. It uses the same clock as Drain.
func (r *Registry) WaitToDrain(ctx context.Context, d time.Duration) {
	r.clock.Wait(ctx, r.clock.Now().Add(d), nil)
}

// SetDrainClock replaces the clock of the drain. It is for tests.
func (r *Registry) SetDrainClock(c DrainClock) { r.clock = c }

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
