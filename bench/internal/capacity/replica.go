package capacity

import "time"

// line is something that serves one after the other: the processors of a server, its
// network, or the places of those who get a snapshot.
type line struct {
	free  time.Duration // when it has served all who have come
	taken time.Duration // how long it has served them, or will
}

// take has work done that has come, and returns when it is.
func (l *line) take(at, work time.Duration) time.Duration {
	l.free = max(l.free, at) + work
	l.taken += work
	return l.free
}

// wait returns how long who comes now waits.
func (l *line) wait(at time.Duration) time.Duration { return max(0, l.free-at) }

// served returns how long it has served until now.
func (l *line) served(at time.Duration) time.Duration { return l.taken - l.wait(at) }

// replica is a server.
type replica struct {
	up       bool // it answers
	silent   bool // and if not, nobody says so: its machine is gone
	draining bool // it ends its watches and takes no new ones
	listed   bool // the load balancer sends clients to it

	since   time.Duration // it knows nothing of what happened before
	arrived map[int32]turn
	waiting int // connections that are begun, or catch up
	serving int // connections that are live
	most    int // connections that it has had at once

	processors, network, places line

	served   time.Duration // by the processors, up to the last second
	accepted int           // connections in this second
}

// turn says when the next connection of an address may begin.
type turn struct{ next time.Duration }

// patience is how long a connection waits for its turn.
const patience = 2 * time.Second

// admit returns how long a connection waits for its turn where so many of an address may
// begin per second, as many of them at once; or false where it is too long.
func (r *replica) admit(host int32, at time.Duration, perSecond float64) (time.Duration, bool) {
	gap := time.Duration(float64(time.Second) / perSecond)
	// Whoever has not come for a while may begin a second's worth of them at once.
	next := max(r.arrived[host].next, at-time.Second+gap)
	wait := max(0, next-at)
	if wait > patience {
		return 0, false
	}
	r.arrived[host] = turn{next + gap}
	return wait, true
}

// connections returns how many it has.
func (r *replica) connections() int { return r.waiting + r.serving }

// start makes it a server that has nobody, and knows what happened since then.
func (r *replica) start(since time.Duration) {
	*r = replica{up: true, since: since, arrived: r.arrived, most: r.most}
	clear(r.arrived)
}
