package capacity

import (
	"slices"
	"time"
)

// Result is what an incident comes to.
type Result struct {
	Incident string
	Fleet    Fleet

	Interruptions int // of connections; some have more than one
	Snapshots     int // of them, those after which a snapshot was needed: what was missed is not known any more
	Differences   int // of them, those that took longer than the window reaches back
	Failures      int // times that a connection did not come about
	Refusals      int // times that watches were told to come again
	Lost          int // connections that did not come back in half an hour

	Half, Most, Longest time.Duration // half, and 99 %, of the interruptions were at most so long; the longest
	Back                time.Duration // from the beginning of the incident until the last one was over

	Connects   int     // that a server takes in a second, at most
	Processors float64 // of a server that are busy, at most, as a share of all
	Memory     float64 // of a server, at most, in bytes
	Spread     float64 // connections of the server that has most of them in the end, as a share of the mean
	Connected  []int   // connections, at each second
	Peak       int     // connections that a server has had at once, at most
}

// look is taken once a second.
func (s *storm) look() {
	connected := 0
	cores := float64(s.fleet.Cores)
	for i := range s.replicas {
		r := &s.replicas[i]
		connected += r.serving
		served := r.processors.served(s.now)
		busy := s.busy(r) / cores
		if r.up {
			// What is left of the processors, for as long as they were used.
			busy += (served - r.served).Seconds() * max(1-busy, 0.1)
		}
		r.served = served
		s.result.Processors = max(s.result.Processors, busy)
		s.result.Connects = max(s.result.Connects, r.accepted)
		r.accepted = 0
		memory := s.constants.base(s.fleet.Load) + float64(r.connections())*s.constants.connection(s.fleet.Load)
		s.result.Memory = max(s.result.Memory, memory)
	}
	s.result.Connected = append(s.result.Connected, connected)
}

// conclude says what it came to.
func (s *storm) conclude() {
	r := &s.result
	slices.Sort(s.away)
	if n := len(s.away); n > 0 {
		r.Half, r.Most, r.Longest = s.away[(n-1)/2], s.away[(n-1)*99/100], s.away[n-1]
	}
	r.Lost = s.missing
	total, most := 0, 0
	for i := range s.replicas {
		n := s.replicas[i].connections()
		total, most = total+n, max(most, n)
		r.Peak = max(r.Peak, s.replicas[i].most)
	}
	if total > 0 {
		r.Spread = float64(most) * float64(len(s.replicas)) / float64(total)
	}
}
