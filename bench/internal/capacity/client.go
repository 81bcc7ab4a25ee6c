package capacity

import (
	"math"
	"time"
)

// The behaviour of the Go client, and of gRPC below it.
const (
	firstRetry     = 200 * time.Millisecond // limit of the random delay of a watch; doubles with each retry
	longestRetry   = 5 * time.Second
	firstBackoff   = 200 * time.Millisecond // delay of a connection; grows by 1.6 with each failure
	longestBackoff = 5 * time.Second
	backoffFactor  = 1.6
	backoffJitter  = 0.2              // more or less
	connectTimeout = 5 * time.Second  // for a connection to open; at least the current backoff
	keepalive      = 15 * time.Second // silence before a keepalive ping
	keepaliveGrace = 10 * time.Second // time for the answer to the ping
	bookmarks      = 10 * time.Second // limit of the age of a position
	roundTrip      = 10 * time.Millisecond
	clientRate     = 10 * mib // bytes per second at which a client reads a snapshot

	drainRetryDelay = time.Second // RetryInfo of a watch that a draining server refuses
)

// The behaviour of servers and load balancers that is not configurable.
const (
	maxSlotWait    = 10 * time.Second      // limit of the wait for a snapshot slot
	slotRetryDelay = time.Second           // RetryInfo after that
	drainGap       = 10 * time.Millisecond // limit of the gap between two watches that are ended
	detectionTime  = 3 * time.Second       // time for a load balancer to notice a server that fails or stops
	historyFactor  = 10                    // windows of history that a starting server reads
)

// connection is a connection of a client. All its watches do the same at the same time.
type connection struct {
	replica    int32 // that it uses or connects to
	host       int32
	generation uint32        // counts its state changes, to void old events
	failures   uint8         // consecutive failures to connect
	refusals   uint8         // consecutive refusals of its watches
	state      state         // current state
	affected   bool          // interrupted by the incident and not back yet
	position   time.Duration // it has all changes up to this time
	tried      time.Duration // when it began to connect
	backoff    time.Duration // delay after a failure
	lost       time.Duration // beginning of the interruption, if affected
}

type state uint8

const (
	stateDisconnected state = iota
	stateWaiting            // connecting or catching up
	stateLive               // gets live events
)

// connect opens a connection to the server that the load balancer chooses.
func (s *simulation) connect(client int32) {
	c := &s.connections[client]
	c.backoff = s.backoff(c)
	at := s.choose()
	if at < 0 {
		s.reconnect(client, 0)
		return
	}
	r := &s.replicas[at]
	switch {
	case !r.up && r.silent:
		s.reconnect(client, max(connectTimeout, c.backoff))
		return
	case !r.accepts() && s.fleet.Balance == Least:
		// A load balancer that counts connections notices the failure and takes another server.
		s.list(at, false)
		s.connect(client)
		return
	case !r.accepts() || r.connections() >= s.settings.MaxConnections:
		s.reconnect(client, 0)
		return
	}
	wait, ok := r.admit(c.host, s.now, s.settings.MaxConnectionRate)
	if !ok {
		s.reconnect(client, 0)
		return
	}
	c.replica, c.state, c.tried = at, stateWaiting, s.now
	r.waiting++
	r.most = max(r.most, r.connections())
	if wait == 0 {
		s.admit(client)
	} else {
		s.then(client, wait, eventAdmitted)
	}
}

// admit handles a connection that the rate limit lets pass.
func (s *simulation) admit(client int32) {
	c := &s.connections[client]
	r := &s.replicas[c.replica]
	ready := r.processors.add(s.now, s.spread(r, s.connectWork)) + 2*roundTrip // the exchange of HTTP/2 settings
	if s.fleet.TLS {
		ready += roundTrip
	}
	if latest := c.tried + max(connectTimeout, c.backoff); ready > latest {
		s.then(client, latest-s.now, eventConnectFailed) // the work of the server is wasted
		return
	}
	s.then(client, ready-s.now, eventConnected)
}

// fail handles an attempt to connect that the server did not answer in time.
func (s *simulation) fail(client int32) {
	s.replicas[s.connections[client].replica].waiting--
	s.reconnect(client, 0)
}

// reconnect makes a client retry after a failed attempt to connect. The delay of the retry
// comes on top of after.
func (s *simulation) reconnect(client int32, after time.Duration) {
	c := &s.connections[client]
	c.state = stateDisconnected
	s.result.Failures++
	if c.failures < 10 {
		c.failures++
	}
	s.then(client, after+max(c.backoff, s.retry(c)), eventConnect)
}

// backoff returns the delay of a connection after a failure.
func (s *simulation) backoff(c *connection) time.Duration {
	wait := min(float64(longestBackoff), float64(firstBackoff)*math.Pow(backoffFactor, float64(c.failures)))
	return time.Duration(wait * (1 + backoffJitter*(2*s.r.Float64()-1)))
}

// retry returns the delay of a watch after a refusal.
func (s *simulation) retry(c *connection) time.Duration {
	limit := longestRetry
	if c.refusals < 10 {
		limit = min(limit, firstRetry<<c.refusals)
		c.refusals++
	}
	return randomUpTo(s.r, limit)
}

// watch handles the watch requests of a connection.
func (s *simulation) watch(client int32) {
	c := &s.connections[client]
	r := &s.replicas[c.replica]
	if r.draining {
		r.waiting--
		c.state = stateDisconnected
		s.result.Refusals++
		s.then(client, drainRetryDelay+s.retry(c), eventConnect)
		return
	}
	work, bytes := s.watchWork, 0.0
	var slotTime time.Duration
	missed := (s.now - c.position).Seconds() * s.fleet.Events
	known := c.position >= r.since
	if known {
		// The missed changes, in a REPLAY or a DELTA.
		work += time.Duration(missed * float64(s.deliverWork))
		bytes = missed * s.fleet.EventBytes * float64(s.fleet.PerConnection)
	} else {
		snapshots := float64(s.fleet.PerConnection)
		bytes = snapshots * s.fleet.Snapshot * mib
		work += seconds(snapshots * s.fleet.Snapshot * s.constants.Snapshot.Value / 1e6)
		slotTime = seconds(snapshots * s.fleet.Snapshot * mib / clientRate / float64(s.settings.MaxSnapshots))
		if max(r.snapshotSlots.wait(s.now), r.network.wait(s.now), r.processors.wait(s.now)) > maxSlotWait {
			s.result.Refusals++
			s.then(client, maxSlotWait+slotRetryDelay+s.retry(c), eventWatch)
			return
		}
	}
	if c.affected {
		switch {
		case !known:
			s.result.Snapshots++
		case s.now-c.position > s.windowSpan:
			s.result.Differences++
		}
	}
	c.refusals = 0
	done := max(
		r.processors.add(s.now, s.spread(r, work)),
		r.network.add(s.now, seconds(bytes*8/(s.fleet.Network*1e9))),
		r.snapshotSlots.add(s.now, slotTime),
	)
	c.position = s.now
	s.then(client, done-s.now, eventCaughtUp)
}

// caughtUp handles a connection whose watches have caught up.
func (s *simulation) caughtUp(client int32) {
	c := &s.connections[client]
	r := &s.replicas[c.replica]
	r.waiting--
	r.serving++
	c.state = stateLive
	if c.affected {
		c.affected = false
		s.missing--
		s.interruptions = append(s.interruptions, s.now-c.lost)
		s.result.Back = s.now - incidentTime
	}
	limit := time.Duration(s.settings.WatchTimeLimit)
	s.then(client, limit*4/5+randomUpTo(s.r, limit/5), eventExpired)
}

// disconnect ends a connection, which has all changes up to position if it was live. The
// client connects again after the given time.
func (s *simulation) disconnect(client int32, position, after time.Duration) {
	c := &s.connections[client]
	r := &s.replicas[c.replica]
	switch c.state {
	case stateWaiting:
		r.waiting--
	case stateLive:
		r.serving--
		c.position = position
	}
	c.state = stateDisconnected
	s.then(client, after, eventConnect)
}

// interrupt is disconnect for connections that the incident interrupts.
func (s *simulation) interrupt(client int32, position, after time.Duration) {
	s.markInterrupted(client)
	s.disconnect(client, position, after)
}

// markInterrupted records that the incident interrupts a connection.
func (s *simulation) markInterrupted(client int32) {
	if c := &s.connections[client]; !c.affected {
		c.affected, c.lost = true, s.now
		s.missing++
		s.result.Interruptions++
	}
}
