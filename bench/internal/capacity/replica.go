package capacity

import "time"

// fifo is a resource that serves one request after another: the processors of a server,
// its network, or its snapshot slots.
type fifo struct {
	idleAt time.Duration // when all work so far is done
	total  time.Duration // total duration of that work
}

// add adds work, and returns when it is done.
func (f *fifo) add(at, work time.Duration) time.Duration {
	f.idleAt = max(f.idleAt, at) + work
	f.total += work
	return f.idleAt
}

// wait returns how long new work waits.
func (f *fifo) wait(at time.Duration) time.Duration { return max(0, f.idleAt-at) }

// done returns the duration of the work that is done.
func (f *fifo) done(at time.Duration) time.Duration { return f.total - f.wait(at) }

// replica is a server.
type replica struct {
	up       bool // answers requests
	silent   bool // if it is down, its machine is gone, so clients get no error
	draining bool // ends its watches, and accepts no new ones and no connections
	listed   bool // the load balancer uses it

	since     time.Duration           // beginning of its history
	nextAdmit map[int32]time.Duration // when the rate limit lets the next connection of a host pass, by host
	waiting   int                     // connections that connect or catch up
	serving   int                     // connections with live watches
	most      int                     // maximum number of connections

	processors, network, snapshotSlots fifo

	processed time.Duration // processor time up to the last second
	accepted  int           // connections in this second
}

// maxAdmitWait bounds how long the rate limit delays a connection.
const maxAdmitWait = 2 * time.Second

// admit returns how long the rate limit per host delays a connection, or false if the
// delay would be too long.
func (r *replica) admit(host int32, at time.Duration, perSecond float64) (time.Duration, bool) {
	gap := time.Duration(float64(time.Second) / perSecond)
	// The burst is a second's worth of connections.
	next := max(r.nextAdmit[host], at-time.Second+gap)
	wait := max(0, next-at)
	if wait > maxAdmitWait {
		return 0, false
	}
	r.nextAdmit[host] = next + gap
	return wait, true
}

// accepts reports whether the server accepts connections.
func (r *replica) accepts() bool { return r.up && !r.draining }

// connections returns the number of connections.
func (r *replica) connections() int { return r.waiting + r.serving }

// start starts the server without clients. Its history begins at since.
func (r *replica) start(since time.Duration) {
	*r = replica{up: true, since: since, nextAdmit: r.nextAdmit, most: r.most}
	clear(r.nextAdmit)
}
