package capacity

import (
	"fmt"
	"strings"
	"time"
)

// incident is an incident of a fleet.
type incident struct {
	name, about string
	happen      func(*storm)
}

var incidents = []incident{
	{"kill", "the process of one server ends without notice", kill},
	{"rolling", "all servers are replaced, one after the other, each drained before", rolling},
	{"zone", "the machines of one zone are gone, and nobody says so", zone},
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

func incidentOf(name string) (incident, error) {
	for _, i := range incidents {
		if i.name == name {
			return i, nil
		}
	}
	return incident{}, fmt.Errorf("incident %q: one of %s", name, strings.Join(Incidents(), ", "))
}

func kill(s *storm) { s.lose(0, false, func() { s.start(0, s.history()) }) }

func rolling(s *storm) { s.replaceFrom(0) }

func zone(s *storm) {
	for i := range s.replicas {
		if i%s.fleet.Zones == 0 {
			r := int32(i)
			s.lose(r, true, func() { s.start(r, s.history()) })
		}
	}
}

func outage(s *storm) { s.loseAll(s.history) }

func compacted(s *storm) { s.loseAll(func() time.Duration { return s.now }) }

// loseAll stops all servers; they start again with the history since then.
func (s *storm) loseAll(since func() time.Duration) {
	for i := range s.replicas {
		r := int32(i)
		s.lose(r, false, func() { s.start(r, since()) })
	}
}

// restore gives every watch a RESET in its open stream. The history of the servers begins
// with the new epoch.
func restore(s *storm) {
	for i := range s.replicas {
		s.replicas[i].since = s.now
	}
	for i := range s.connections {
		c := &s.connections[i]
		if c.state != attended {
			continue
		}
		s.miss(int32(i))
		c.state = waiting
		r := &s.replicas[c.replica]
		r.serving--
		r.waiting++
		s.then(int32(i), 0, asked)
	}
}

// history returns the beginning of the history of a server that starts now.
func (s *storm) history() time.Duration {
	return s.now - historyFactor*seconds(float64(s.resource.Window.MaxEvents)/s.fleet.Changes)
}

// lose stops a server without draining, and calls a function when it can run again.
func (s *storm) lose(r int32, silent bool, again func()) {
	s.replicas[r].up, s.replicas[r].silent = false, silent
	for i := range s.connections {
		c := &s.connections[i]
		if c.replica != r || c.state == away {
			continue
		}
		after := rand64(s.r, firstRetry)
		if silent {
			after += rand64(s.r, keepalive) + keepaliveGrace
		}
		s.interrupt(int32(i), s.now-rand64(s.r, bookmarks), after)
	}
	s.at(s.now+noticed, func() {
		if !s.replicas[r].up {
			s.list(r, false)
		}
	})
	s.at(s.now+s.fleet.Restart, again)
}

// start starts a server with the history since a time. It serves when it has loaded the
// state.
func (s *storm) start(r int32, since time.Duration) {
	s.at(s.now+s.loading(), func() {
		s.replicas[r].start(since)
		s.list(r, true)
	})
}

// loading returns the time that a server needs to load the state from etcd.
func (s *storm) loading() time.Duration { return seconds(s.fleet.State / s.constants.LoadRate.Value) }

// replaceFrom drains and replaces a server, then the next one when it is ready.
func (s *storm) replaceFrom(r int32) {
	if int(r) == len(s.replicas) {
		return
	}
	s.replicas[r].draining = true
	s.at(s.now+noticed, func() { s.list(r, false) })
	period := time.Duration(s.settings.DrainPeriod)
	if many := time.Duration(s.replicas[r].serving*s.fleet.PerConnection) * drainGap; many < period {
		period = many
	}
	for i := range s.connections {
		if c := &s.connections[i]; c.replica == r && c.state == attended {
			// Spread evenly, as those of the server are.
			s.then(int32(i), rand64(s.r, period), ended)
		}
	}
	s.at(s.now+max(period, noticed)+time.Second, func() {
		s.lose(r, false, func() {
			s.start(r, s.history())
			s.at(s.now+s.loading()+time.Second, func() { s.replaceFrom(r + 1) })
		})
	})
}
