package capacity

import "time"

// line is a resource that serves one request after the other: the processors of a server,
// its network, or its snapshot slots.
type line struct {
	free  time.Duration // when all work so far is done
	taken time.Duration // total duration of that work
}

// take adds work, and returns when it is done.
func (l *line) take(at, work time.Duration) time.Duration {
	l.free = max(l.free, at) + work
	l.taken += work
	return l.free
}

// wait returns how long new work waits.
func (l *line) wait(at time.Duration) time.Duration { return max(0, l.free-at) }

// served returns the duration of the work that is done.
func (l *line) served(at time.Duration) time.Duration { return l.taken - l.wait(at) }

// replica is a server.
type replica struct {
	up       bool // answers requests
	silent   bool // if it is down, its machine is gone, so clients get no error
	draining bool // ends its watches and accepts no new ones
	listed   bool // the load balancer uses it

	since   time.Duration // beginning of its history
	arrived map[int32]turn
	waiting int // connections that open or catch up
	serving int // connections that are live
	most    int // maximum number of connections

	processors, network, places line

	served   time.Duration // processor time up to the last second
	accepted int           // connections in this second
}

// turn says when the next connection of an address may begin.
type turn struct{ next time.Duration }

// patience bounds the wait of a connection for its turn.
const patience = 2 * time.Second

// admit returns how long a connection waits under the rate limit per address, or false if
// that is too long.
func (r *replica) admit(host int32, at time.Duration, perSecond float64) (time.Duration, bool) {
	gap := time.Duration(float64(time.Second) / perSecond)
	// The burst is a second's worth of connections.
	next := max(r.arrived[host].next, at-time.Second+gap)
	wait := max(0, next-at)
	if wait > patience {
		return 0, false
	}
	r.arrived[host] = turn{next + gap}
	return wait, true
}

// connections returns the number of connections.
func (r *replica) connections() int { return r.waiting + r.serving }

// start makes it a server without clients and with the history since a time.
func (r *replica) start(since time.Duration) {
	*r = replica{up: true, since: since, arrived: r.arrived, most: r.most}
	clear(r.arrived)
}
