package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/config"
)

// What clients do: the Go client, and gRPC below it.
const (
	firstRetry     = 200 * time.Millisecond // a watch waits up to this long, at random, and twice as long each time
	longestRetry   = 5 * time.Second
	firstBackoff   = 200 * time.Millisecond // a connection waits so long after the first failure, and 1.6 times each time
	longestBackoff = 5 * time.Second
	backoffFactor  = 1.6
	backoffJitter  = 0.2              // more or less
	connectTimeout = 5 * time.Second  // for a connection, from its beginning to the first words of the server, or longer if what it waits after a failure is
	drainPause     = time.Second      // at most, at random, after a server has said that it stops
	keepalive      = 15 * time.Second // after so much silence a client asks whether the server is there
	keepaliveGrace = 10 * time.Second // and waits so long
	bookmarks      = 10 * time.Second // a position is so old at most
	roundTrip      = 10 * time.Millisecond
	clientRate     = 10 * mib // that a client takes a snapshot at, in bytes per second
)

// What servers and load balancers do that is not a setting.
const (
	turnPatience  = 10 * time.Second      // who waits longer for a snapshot is refused
	refusedPause  = time.Second           // and told to wait so long
	drainGap      = 10 * time.Millisecond // watches that are ended are not further apart
	noticed       = 3 * time.Second       // a load balancer has seen by then that a server does not answer, or stops
	historyFactor = 10                    // a server that starts reads so many windows of history
)

// connection is what a client has. Its watches do everything together.
type connection struct {
	replica  int32 // that it is at, or on its way to
	host     int32
	turn     uint32        // counts what has become of it
	failures uint8         // to connect, in a row
	refusals uint8         // of its watches, in a row
	state    state         // where it is
	affected bool          // the incident has interrupted it, and it is not back
	position time.Duration // up to when it knows everything
	tried    time.Duration // when it was begun
	backoff  time.Duration // how long it waits if it does not come about
	lost     time.Duration // since when it hears nothing, if it is affected
}

type state uint8

const (
	away     state = iota // and has no connection
	waiting               // for its connection, or to be brought to the present
	attended              // it is told what happens
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
	steps       []func() // of the incident, which the agenda names
	unfinished  int      // of them
	missing     int      // connections that the incident has interrupted and that are not back

	beginWork, watchWork, deliverWork time.Duration // of the processors of a server
	windowSpan                        time.Duration

	result Result
	away   []time.Duration // how long those who are back have heard nothing
}

// beginning is when an incident begins, and quiet is how long is looked at what follows.
const (
	beginning = 60 * time.Second
	quiet     = 30 * time.Second
	longest   = 30 * time.Minute
)

// Simulate lets an incident happen to a fleet. The same seed gives the same result.
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
	// An operator sets it to what the machine holds.
	s.settings.MaxConnections = max(s.settings.MaxConnections, 3*f.connections()/f.Replicas)
	return s
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// window returns how far the window of a server reaches back.
func (s *storm) window() time.Duration {
	w := s.resource.Window
	most := min(float64(w.MaxEvents), float64(w.MaxSize)/s.fleet.EventBytes) / s.fleet.Changes
	return seconds(min(most, max(time.Duration(w.Freshness).Seconds(), float64(w.MinEvents)/s.fleet.Changes)))
}

// begin has everybody connected, and their time end at some time.
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

// at has a step of the incident happen.
func (s *storm) at(at time.Duration, f func()) {
	s.unfinished++
	s.steps = append(s.steps, f)
	s.add(at, step, int32(len(s.steps)-1), 0)
}

// run lets everything happen until all are back and it has been quiet for a while.
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

// then has something happen to a connection, and nothing else that was to happen to it.
func (s *storm) then(who int32, after time.Duration, k kind) {
	c := &s.connections[who]
	c.turn++
	s.add(s.now+after, k, who, c.turn)
}

// choose is what the load balancer does; negative if there is no server.
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

// list has the load balancer send clients to a server, or no more.
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
		// Who counts connections sees that there is none, and takes another server.
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

// admit is a connection that it is the turn of.
func (s *storm) admit(who int32) {
	c := &s.connections[who]
	r := &s.replicas[c.replica]
	ready := r.processors.take(s.now, s.spread(r, s.beginWork)) + 2*roundTrip // until both have said what they expect of HTTP/2
	if s.fleet.TLS {
		ready += roundTrip
	}
	if latest := c.tried + max(connectTimeout, c.backoff); ready > latest {
		s.then(who, latest-s.now, failed) // and the work is done in vain
		return
	}
	s.then(who, ready-s.now, begun)
}

// spread returns how long all processors of a server take for what one of them would
// take so long for, besides delivering what happens. They get a tenth at least.
func (s *storm) spread(r *replica, work time.Duration) time.Duration {
	cores := float64(s.fleet.Cores)
	return time.Duration(float64(work) / max(cores-s.busy(r), cores/10))
}

// busy returns how many processors deliver what happens.
func (s *storm) busy(r *replica) float64 {
	return float64(r.serving*s.fleet.PerConnection) * s.fleet.Events * s.constants.delivery(s.fleet.PerConnection)
}

// fail is a connection that has not come about.
func (s *storm) fail(who int32) {
	s.replicas[s.connections[who].replica].waiting--
	s.refuse(who, 0)
}

// refuse has a client come back who has not got a connection.
func (s *storm) refuse(who int32, after time.Duration) {
	c := &s.connections[who]
	c.state = away
	s.result.Failures++
	if c.failures < 10 {
		c.failures++
	}
	s.then(who, after+max(c.backoff, s.retry(c)), attempt)
}

// backoff returns how long a connection waits if it does not come about.
func (s *storm) backoff(c *connection) time.Duration {
	wait := min(float64(longestBackoff), float64(firstBackoff)*math.Pow(backoffFactor, float64(c.failures)))
	return time.Duration(wait * (1 + backoffJitter*(2*s.r.Float64()-1)))
}

// retry returns how long a watch waits that was refused.
func (s *storm) retry(c *connection) time.Duration {
	limit := longestRetry
	if c.refusals < 10 {
		limit = min(limit, firstRetry<<c.refusals)
		c.refusals++
	}
	return rand64(s.r, limit)
}

// ask is the watches of a connection that say where they are.
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
		// What has happened meanwhile, be it as a replay or as a difference.
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

// arrive is a connection whose watches have been brought to the present.
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

// leave is a connection that is no more, and whose client comes back.
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

// interrupt is leave where it is the incident that does it.
func (s *storm) interrupt(who int32, position, after time.Duration) {
	s.miss(who)
	s.leave(who, position, after)
}

// miss notes that a connection is interrupted.
func (s *storm) miss(who int32) {
	if c := &s.connections[who]; !c.affected {
		c.affected, c.lost = true, s.now
		s.missing++
		s.result.Interruptions++
	}
}
