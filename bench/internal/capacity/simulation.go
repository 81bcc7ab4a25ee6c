package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/config"
)

// simulation is a discrete event simulation of an incident. Its clock advances from event to
// event; once per simulated second it samples the servers.
type simulation struct {
	fleet     Fleet
	constants *Constants
	settings  config.Config
	resource  config.Resource
	incident  incident
	r         *rand.Rand

	eventQueue
	now           time.Duration
	replicas      []replica
	listed        []int32 // replicas that the load balancer uses, in order
	connections   []connection
	steps         []func() // of the incident, by target of their events
	pendingSteps  int
	missing       int             // affected connections
	interruptions []time.Duration // durations of the interruptions that are over

	connectWork, watchWork, deliverWork time.Duration // processor time of a server
	windowSpan                          time.Duration

	result Result
}

const (
	incidentTime = 60 * time.Second // when the incident begins
	quietPeriod  = 30 * time.Second // simulated after the last connection is back
	maxDuration  = 30 * time.Minute // of the simulation
)

// Simulate simulates an incident of a fleet. It is deterministic for a given seed.
func Simulate(c *Constants, f Fleet, name string, seed uint64) (Result, error) {
	if err := f.Validate(); err != nil {
		return Result{}, err
	}
	i, err := findIncident(name)
	if err != nil {
		return Result{}, err
	}
	s := newSimulation(c, f, i, seed)
	s.begin()
	s.run()
	return s.result, nil
}

func newSimulation(c *Constants, f Fleet, i incident, seed uint64) *simulation {
	s := &simulation{
		fleet: f, constants: c, settings: config.Defaults(), resource: config.NewResource("simulated"), incident: i,
		r: rand.New(rand.NewPCG(seed, 1)), replicas: make([]replica, f.Replicas), connections: make([]connection, f.connections()),
	}
	s.connectWork = seconds(c.connectCPU(f.Load))
	s.watchWork = seconds(float64(f.PerConnection) * c.Watch.Value / 1e6)
	s.deliverWork = seconds(float64(f.PerConnection) * c.burstCPU(f.PerConnection))
	s.windowSpan = s.window()
	// Operators set this limit to the capacity of the machine.
	s.settings.MaxConnections = max(s.settings.MaxConnections, 3*f.connections()/f.Replicas)
	return s
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// window returns the duration that the window of a server covers.
func (s *simulation) window() time.Duration {
	w := s.resource.Window
	most := min(float64(w.MaxEvents), float64(w.MaxSize)/s.fleet.EventBytes) / s.fleet.Changes
	return seconds(min(most, max(time.Duration(w.Freshness).Seconds(), float64(w.MinEvents)/s.fleet.Changes)))
}

// begin connects all clients, with random ends of their time limits, and schedules the
// incident.
func (s *simulation) begin() {
	for i := range s.replicas {
		r := &s.replicas[i]
		r.up, r.listed, r.since, r.nextAdmit = true, true, math.MinInt64/2, map[int32]time.Duration{}
		s.listed = append(s.listed, int32(i))
	}
	limit := time.Duration(s.settings.WatchTimeLimit)
	for i := range s.connections {
		at := s.choose()
		host := int32(i)
		if s.fleet.Hosts > 0 {
			host = int32(i % s.fleet.Hosts)
		}
		s.connections[i] = connection{replica: at, host: host, state: stateLive}
		r := &s.replicas[at]
		r.serving++
		r.most = max(r.most, r.connections())
		s.add(randomUpTo(s.r, limit), eventExpired, int32(i), 0)
	}
	s.result = Result{Incident: s.incident.name, Fleet: s.fleet}
	s.at(incidentTime, func() { s.incident.inject(s) })
}

// randomUpTo returns a random time up to the limit.
func randomUpTo(r *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(limit) + 1))
}

// at schedules a step of the incident.
func (s *simulation) at(at time.Duration, f func()) {
	s.pendingSteps++
	s.steps = append(s.steps, f)
	s.add(at, eventStep, int32(len(s.steps)-1), 0)
}

// then schedules an event of a connection, and voids its earlier events.
func (s *simulation) then(client int32, after time.Duration, k eventKind) {
	c := &s.connections[client]
	c.generation++
	s.add(s.now+after, k, client, c.generation)
}

// run runs the simulation until all clients have been back for the quiet period, or until
// maxDuration.
func (s *simulation) run() {
	end := time.Duration(0)
	for second := time.Second; ; second += time.Second {
		for len(s.events) > 0 && s.events[0].at < second {
			e := s.next()
			s.now = e.at
			s.handle(&e)
		}
		s.now = second
		s.sample()
		switch {
		case s.pendingSteps > 0 || s.missing > 0:
			end = second + quietPeriod
		case second >= end:
			s.summarize()
			return
		}
		if second > maxDuration {
			s.summarize()
			return
		}
	}
}

func (s *simulation) handle(e *event) {
	if e.kind == eventStep {
		s.pendingSteps--
		s.steps[e.target]()
		return
	}
	c := &s.connections[e.target]
	if c.generation != e.generation {
		return
	}
	switch e.kind {
	case eventConnect:
		s.connect(e.target)
	case eventAdmitted:
		s.admit(e.target)
	case eventConnectFailed:
		s.fail(e.target)
	case eventConnected:
		s.replicas[c.replica].accepted++
		c.failures = 0
		s.watch(e.target)
	case eventWatch:
		s.watch(e.target)
	case eventCaughtUp:
		s.caughtUp(e.target)
	case eventExpired:
		s.disconnect(e.target, s.now, randomUpTo(s.r, firstRetry))
	case eventDrained:
		s.interrupt(e.target, s.now, 0) // the server has said so
	}
}

// choose chooses a server as the load balancer does, or returns -1 if there is none.
func (s *simulation) choose() int32 {
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
func (s *simulation) list(r int32, listed bool) {
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

// spread returns how long all processors of a server take for work of this CPU time while
// they also deliver events. At least a tenth of the processors is left for the work.
func (s *simulation) spread(r *replica, work time.Duration) time.Duration {
	cores := float64(s.fleet.Cores)
	return time.Duration(float64(work) / max(cores-s.busy(r), cores/10))
}

// busy returns the number of processors that deliver events.
func (s *simulation) busy(r *replica) float64 {
	return float64(r.serving*s.fleet.PerConnection) * s.fleet.Events * s.constants.deliveryCPU(s.fleet.PerConnection)
}
