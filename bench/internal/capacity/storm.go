package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/config"
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
	drainPause     = time.Second      // limit of the random delay after DRAINING
	keepalive      = 15 * time.Second // silence before a keepalive ping
	keepaliveGrace = 10 * time.Second // time for the answer to the ping
	bookmarks      = 10 * time.Second // limit of the age of a position
	roundTrip      = 10 * time.Millisecond
	clientRate     = 10 * mib // bytes per second at which a client reads a snapshot
)

// The behaviour of servers and load balancers that is not configurable.
const (
	turnPatience  = 10 * time.Second      // limit of the wait for a snapshot slot
	refusedPause  = time.Second           // RetryInfo after that
	drainGap      = 10 * time.Millisecond // limit of the gap between two watches that are ended
	noticed       = 3 * time.Second       // time for a load balancer to notice a server that fails or stops
	historyFactor = 10                    // windows of history that a starting server reads
)

// connection is a connection of a client. All its watches do the same at the same time.
type connection struct {
	replica  int32 // that it uses or connects to
	host     int32
	turn     uint32        // counts its state changes, to void old events
	failures uint8         // consecutive failures to connect
	refusals uint8         // consecutive refusals of its watches
	state    state         // current state
	affected bool          // interrupted by the incident and not back yet
	position time.Duration // it has all changes up to this time
	tried    time.Duration // when it began to connect
	backoff  time.Duration // delay after a failure
	lost     time.Duration // beginning of the interruption, if affected
}

type state uint8

const (
	away     state = iota // not connected
	waiting               // connecting or catching up
	attended              // gets live events
)

// storm is a simulation.
type storm struct {
	fleet     Fleet
	constants *Constants
	settings  config.Config
	resource  config.Resource
	incident  incident
	r         *rand.Rand

	agenda
	now         time.Duration
	replicas    []replica
	listed      []int32
	connections []connection
	steps       []func() // of the incident; events of the agenda refer to them
	unfinished  int      // steps that have not happened yet
	missing     int      // affected connections

	beginWork, watchWork, deliverWork time.Duration // processor time of a server
	windowSpan                        time.Duration

	result Result
	away   []time.Duration // durations of the interruptions that are over
}

// beginning is the time of the incident; quiet is the time simulated after the last return.
const (
	beginning = 60 * time.Second
	quiet     = 30 * time.Second
	longest   = 30 * time.Minute
)

// Simulate simulates an incident of a fleet. It is deterministic for a given seed.
func Simulate(c *Constants, f Fleet, name string, seed uint64) (Result, error) {
	if err := f.Problem(); err != nil {
		return Result{}, err
	}
	happens, err := incidentOf(name)
	if err != nil {
		return Result{}, err
	}
	s := newStorm(c, f, happens, seed)
	s.begin()
	s.run()
	return s.result, nil
}

func newStorm(c *Constants, f Fleet, happens incident, seed uint64) *storm {
	s := &storm{
		fleet: f, constants: c, settings: config.Defaults(), resource: config.NewResource("simulated"), incident: happens,
		r: rand.New(rand.NewPCG(seed, 1)), replicas: make([]replica, f.Replicas), connections: make([]connection, f.connections()),
	}
	s.beginWork = seconds(c.begin(f.Load))
	s.watchWork = seconds(float64(f.PerConnection) * c.Watch.Value / 1e6)
	s.deliverWork = seconds(float64(f.PerConnection) * c.burst(f.PerConnection))
	s.windowSpan = s.window()
	// Operators set this limit to the capacity of the machine.
	s.settings.MaxConnections = max(s.settings.MaxConnections, 3*f.connections()/f.Replicas)
	return s
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// window returns the duration that the window of a server covers.
func (s *storm) window() time.Duration {
	w := s.resource.Window
	most := min(float64(w.MaxEvents), float64(w.MaxSize)/s.fleet.EventBytes) / s.fleet.Changes
	return seconds(min(most, max(time.Duration(w.Freshness).Seconds(), float64(w.MinEvents)/s.fleet.Changes)))
}

// begin connects all clients, with random ends of their time limits.
func (s *storm) begin() {
	for i := range s.replicas {
		r := &s.replicas[i]
		r.up, r.listed, r.since, r.arrived = true, true, math.MinInt64/2, map[int32]turn{}
		s.listed = append(s.listed, int32(i))
	}
	limit := time.Duration(s.settings.WatchTimeLimit)
	for i := range s.connections {
		at := s.choose()
		host := int32(i)
		if s.fleet.Hosts > 0 {
			host = int32(i % s.fleet.Hosts)
		}
		s.connections[i] = connection{replica: at, host: host, state: attended}
		r := &s.replicas[at]
		r.serving++
		r.most = max(r.most, r.connections())
		s.add(rand64(s.r, limit), renewed, int32(i), 0)
	}
	s.result = Result{Incident: s.incident.name, Fleet: s.fleet}
	s.at(beginning, func() { s.incident.happen(s) })
}

// rand64 returns a random time up to the limit.
func rand64(r *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(limit) + 1))
}

// at schedules a step of the incident.
func (s *storm) at(at time.Duration, f func()) {
	s.unfinished++
	s.steps = append(s.steps, f)
	s.add(at, step, int32(len(s.steps)-1), 0)
}

// run runs the simulation until all clients are back and nothing has happened for a while.
func (s *storm) run() {
	end := time.Duration(0)
	for second := time.Second; ; second += time.Second {
		for len(s.events) > 0 && s.events[0].at < second {
			e := s.next()
			s.now = e.at
			s.happen(&e)
		}
		s.now = second
		s.look()
		switch {
		case s.unfinished > 0 || s.missing > 0:
			end = second + quiet
		case second >= end:
			s.conclude()
			return
		}
		if second > longest {
			s.conclude()
			return
		}
	}
}

func (s *storm) happen(e *event) {
	if e.kind == step {
		s.unfinished--
		s.steps[e.who]()
		return
	}
	c := &s.connections[e.who]
	if c.turn != e.turn {
		return
	}
	switch e.kind {
	case attempt:
		s.connect(e.who)
	case admitted:
		s.admit(e.who)
	case failed:
		s.fail(e.who)
	case begun:
		s.replicas[c.replica].accepted++
		c.failures = 0
		s.ask(e.who)
	case asked:
		s.ask(e.who)
	case live:
		s.arrive(e.who)
	case renewed:
		s.leave(e.who, s.now, rand64(s.r, firstRetry))
	case ended:
		s.interrupt(e.who, s.now, rand64(s.r, drainPause))
	}
}

// then schedules an event of a connection, and voids its earlier events.
func (s *storm) then(who int32, after time.Duration, k kind) {
	c := &s.connections[who]
	c.turn++
	s.add(s.now+after, k, who, c.turn)
}

// choose chooses a server as the load balancer does; negative if there is none.
func (s *storm) choose() int32 {
	if len(s.listed) == 0 {
		return -1
	}
	from := s.r.IntN(len(s.listed))
	best := s.listed[from]
	if s.fleet.Balance == Least {
		for i := range s.listed {
			other := s.listed[(from+i)%len(s.listed)]
			if s.replicas[other].connections() < s.replicas[best].connections() {
				best = other
			}
		}
	}
	return best
}

// list adds a server to the load balancer, or removes it.
func (s *storm) list(r int32, listed bool) {
	if s.replicas[r].listed == listed {
		return
	}
	s.replicas[r].listed = listed
	if listed {
		s.listed = append(s.listed, r)
		slices.Sort(s.listed)
	} else {
		s.listed = slices.DeleteFunc(s.listed, func(i int32) bool { return i == r })
	}
}

func (s *storm) connect(who int32) {
	c := &s.connections[who]
	c.backoff = s.backoff(c)
	at := s.choose()
	if at < 0 {
		s.refuse(who, 0)
		return
	}
	r := &s.replicas[at]
	switch {
	case !r.up && r.silent:
		s.refuse(who, max(connectTimeout, c.backoff))
		return
	case !r.up && s.fleet.Balance == Least:
		// A load balancer that counts connections notices the failure and takes another server.
		s.list(at, false)
		s.connect(who)
		return
	case !r.up || r.connections() >= s.settings.MaxConnections:
		s.refuse(who, 0)
		return
	}
	wait, ok := r.admit(c.host, s.now, s.settings.MaxConnectionRate)
	if !ok {
		s.refuse(who, 0)
		return
	}
	c.replica, c.state, c.tried = at, waiting, s.now
	r.waiting++
	r.most = max(r.most, r.connections())
	if wait == 0 {
		s.admit(who)
	} else {
		s.then(who, wait, admitted)
	}
}

// admit handles a connection that the rate limit lets pass.
func (s *storm) admit(who int32) {
	c := &s.connections[who]
	r := &s.replicas[c.replica]
	ready := r.processors.take(s.now, s.spread(r, s.beginWork)) + 2*roundTrip // the exchange of HTTP/2 settings
	if s.fleet.TLS {
		ready += roundTrip
	}
	if latest := c.tried + max(connectTimeout, c.backoff); ready > latest {
		s.then(who, latest-s.now, failed) // the work of the server is wasted
		return
	}
	s.then(who, ready-s.now, begun)
}

// spread returns how long all processors of a server take for work of this CPU time while
// they also deliver events. At least a tenth of the processors is left for the work.
func (s *storm) spread(r *replica, work time.Duration) time.Duration {
	cores := float64(s.fleet.Cores)
	return time.Duration(float64(work) / max(cores-s.busy(r), cores/10))
}

// busy returns the number of processors that deliver events.
func (s *storm) busy(r *replica) float64 {
	return float64(r.serving*s.fleet.PerConnection) * s.fleet.Events * s.constants.delivery(s.fleet.PerConnection)
}

// fail handles a failed attempt to connect.
func (s *storm) fail(who int32) {
	s.replicas[s.connections[who].replica].waiting--
	s.refuse(who, 0)
}

// refuse makes a client retry after an attempt to connect that failed.
func (s *storm) refuse(who int32, after time.Duration) {
	c := &s.connections[who]
	c.state = away
	s.result.Failures++
	if c.failures < 10 {
		c.failures++
	}
	s.then(who, after+max(c.backoff, s.retry(c)), attempt)
}

// backoff returns the delay of a connection after a failure.
func (s *storm) backoff(c *connection) time.Duration {
	wait := min(float64(longestBackoff), float64(firstBackoff)*math.Pow(backoffFactor, float64(c.failures)))
	return time.Duration(wait * (1 + backoffJitter*(2*s.r.Float64()-1)))
}

// retry returns the delay of a watch after a refusal.
func (s *storm) retry(c *connection) time.Duration {
	limit := longestRetry
	if c.refusals < 10 {
		limit = min(limit, firstRetry<<c.refusals)
		c.refusals++
	}
	return rand64(s.r, limit)
}

// ask handles the watch requests of a connection.
func (s *storm) ask(who int32) {
	c := &s.connections[who]
	r := &s.replicas[c.replica]
	if r.draining {
		r.waiting--
		c.state = away
		s.result.Refusals++
		s.then(who, rand64(s.r, drainPause)+s.retry(c), attempt)
		return
	}
	work, bytes := s.watchWork, 0.0
	var places time.Duration
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
		places = seconds(snapshots * s.fleet.Snapshot * mib / clientRate / float64(s.settings.MaxSnapshots))
		if max(r.places.wait(s.now), r.network.wait(s.now), r.processors.wait(s.now)) > turnPatience {
			s.result.Refusals++
			s.then(who, turnPatience+refusedPause+s.retry(c), asked)
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
		r.processors.take(s.now, s.spread(r, work)),
		r.network.take(s.now, seconds(bytes*8/(s.fleet.Network*1e9))),
		r.places.take(s.now, places),
	)
	c.position = s.now
	s.then(who, done-s.now, live)
}

// arrive handles a connection whose watches have caught up.
func (s *storm) arrive(who int32) {
	c := &s.connections[who]
	r := &s.replicas[c.replica]
	r.waiting--
	r.serving++
	c.state = attended
	if c.affected {
		c.affected = false
		s.missing--
		s.away = append(s.away, s.now-c.lost)
		s.result.Back = s.now - beginning
	}
	limit := time.Duration(s.settings.WatchTimeLimit)
	s.then(who, limit*4/5+rand64(s.r, limit/5), renewed)
}

// leave handles a lost connection whose client reconnects.
func (s *storm) leave(who int32, position, after time.Duration) {
	c := &s.connections[who]
	r := &s.replicas[c.replica]
	switch c.state {
	case waiting:
		r.waiting--
	case attended:
		r.serving--
		c.position = position
	}
	c.state = away
	s.then(who, after, attempt)
}

// interrupt is leave for connections that the incident interrupts.
func (s *storm) interrupt(who int32, position, after time.Duration) {
	s.miss(who)
	s.leave(who, position, after)
}

// miss notes the interruption of a connection.
func (s *storm) miss(who int32) {
	if c := &s.connections[who]; !c.affected {
		c.affected, c.lost = true, s.now
		s.missing++
		s.result.Interruptions++
	}
}
