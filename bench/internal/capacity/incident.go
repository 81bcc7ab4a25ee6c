package capacity

import (
	"fmt"
	"strings"
	"time"
)

// incident is an incident of a fleet.
type incident struct {
	name, about string
	inject      func(*simulation) // schedules its steps, from the time of the simulation on
}

var incidents = []incident{
	{"kill", "the process of one server ends without notice", kill},
	{"rolling", "all servers are replaced one after another, each after a drain", rolling},
	{"zone", "the machines of one zone are lost without notice", zone},
	{"outage", "the processes of all servers end at the same time", outage},
	{"compacted", "the same, and etcd is compacted before they are back", compacted},
	{"restore", "etcd is restored from a backup: all positions are of another epoch", restore},
}

// Incidents returns the names of all incidents.
func Incidents() []string {
	var names []string
	for _, i := range incidents {
		names = append(names, i.name)
	}
	return names
}

func findIncident(name string) (incident, error) {
	for _, i := range incidents {
		if i.name == name {
			return i, nil
		}
	}
	return incident{}, fmt.Errorf("unknown incident %q (want one of %s)", name, strings.Join(Incidents(), ", "))
}

func kill(s *simulation) { s.lose(0, false, func() { s.start(0, s.history()) }) }

func rolling(s *simulation) { s.replaceFrom(0) }

func zone(s *simulation) {
	for i := range s.replicas {
		if i%s.fleet.Zones == 0 {
			r := int32(i)
			s.lose(r, true, func() { s.start(r, s.history()) })
		}
	}
}

func outage(s *simulation) { s.loseAll(s.history) }

func compacted(s *simulation) { s.loseAll(func() time.Duration { return s.now }) }

// loseAll stops all servers at once. Each starts again with the history since the time that
// since returns at its start.
func (s *simulation) loseAll(since func() time.Duration) {
	for i := range s.replicas {
		r := int32(i)
		s.lose(r, false, func() { s.start(r, since()) })
	}
}

// restore sends every watch a RESET on its open stream. The history of the servers begins
// with the new epoch.
func restore(s *simulation) {
	for i := range s.replicas {
		s.replicas[i].since = s.now
	}
	for i := range s.connections {
		c := &s.connections[i]
		if c.state != stateLive {
			continue
		}
		s.markInterrupted(int32(i))
		c.state = stateWaiting
		r := &s.replicas[c.replica]
		r.serving--
		r.waiting++
		s.then(int32(i), 0, eventWatch)
	}
}

// history returns the beginning of the history of a server that starts now.
func (s *simulation) history() time.Duration {
	return s.now - historyFactor*seconds(float64(s.resource.Window.MaxEvents)/s.fleet.Changes)
}

// lose stops a server without draining, and calls restart when it can run again. If silent
// is true, clients notice the loss only by their keepalive pings.
func (s *simulation) lose(r int32, silent bool, restart func()) {
	s.replicas[r].up, s.replicas[r].silent = false, silent
	for i := range s.connections {
		c := &s.connections[i]
		if c.replica != r || c.state == stateDisconnected {
			continue
		}
		after := randomUpTo(s.r, firstRetry)
		if silent {
			after += randomUpTo(s.r, keepalive) + keepaliveGrace
		}
		s.interrupt(int32(i), s.now-randomUpTo(s.r, bookmarks), after)
	}
	s.at(s.now+detectionTime, func() {
		if !s.replicas[r].up {
			s.list(r, false)
		}
	})
	s.at(s.now+s.fleet.Restart, restart)
}

// start starts a server whose history begins at since. It serves after it has loaded the
// state.
func (s *simulation) start(r int32, since time.Duration) {
	s.at(s.now+s.loading(), func() {
		s.replicas[r].start(since)
		s.list(r, true)
	})
}

// loading returns the time that a server needs to load the state from etcd.
func (s *simulation) loading() time.Duration {
	return seconds(s.fleet.State / s.constants.LoadRate.Value)
}

// replaceFrom drains and replaces a server, then the next one when it is ready.
func (s *simulation) replaceFrom(r int32) {
	if int(r) == len(s.replicas) {
		return
	}
	s.replicas[r].draining = true
	s.at(s.now+detectionTime, func() { s.list(r, false) })
	period := time.Duration(s.settings.DrainPeriod)
	if many := time.Duration(s.replicas[r].serving*s.fleet.PerConnection) * drainGap; many < period {
		period = many
	}
	for i := range s.connections {
		if c := &s.connections[i]; c.replica == r && c.state == stateLive {
			// A server spreads the ends of its watches evenly, too.
			s.then(int32(i), randomUpTo(s.r, period), eventDrained)
		}
	}
	s.at(s.now+max(period, detectionTime)+time.Second, func() {
		s.lose(r, false, func() {
			s.start(r, s.history())
			s.at(s.now+s.loading()+time.Second, func() { s.replaceFrom(r + 1) })
		})
	})
}
