package capacity

import (
	"slices"
	"time"
)

// Result is the result of an incident.
type Result struct {
	Incident string
	Fleet    Fleet

	Interruptions int // of connections; some have more than one
	Snapshots     int // interruptions that led to a RESET
	Differences   int // interruptions that outlasted the window
	Failures      int // failed attempts to connect
	Refusals      int // refusals of watches
	Lost          int // connections that were not back after half an hour

	Half, Most, Longest time.Duration // median, 99th percentile and maximum of the interruptions
	Back                time.Duration // from the incident to the end of the last interruption

	Connects   int     // maximum per server and second
	Processors float64 // maximum share of a server's processors in use
	Memory     float64 // maximum of a server, in bytes
	Spread     float64 // connections of the fullest server at the end, relative to the mean
	Connected  []int   // connections at each second
	Peak       int     // maximum number of connections of a server
}

// sample records the figures of the last second.
func (s *simulation) sample() {
	connected := 0
	cores := float64(s.fleet.Cores)
	for i := range s.replicas {
		r := &s.replicas[i]
		connected += r.serving
		processed := r.processors.done(s.now)
		busy := s.busy(r) / cores
		if r.up {
			// Other work gets the share that deliveries leave, for the time that it takes.
			busy += (processed - r.processed).Seconds() * max(1-busy, 0.1)
		}
		r.processed = processed
		s.result.Processors = max(s.result.Processors, busy)
		s.result.Connects = max(s.result.Connects, r.accepted)
		r.accepted = 0
		memory := s.constants.baseMemory(s.fleet.Load) + float64(r.connections())*s.constants.connectionMemory(s.fleet.Load)
		s.result.Memory = max(s.result.Memory, memory)
	}
	s.result.Connected = append(s.result.Connected, connected)
}

// conclude calculates the result.
func (s *simulation) summarize() {
	r := &s.result
	slices.Sort(s.interruptions)
	if n := len(s.interruptions); n > 0 {
		r.Half, r.Most, r.Longest = s.interruptions[(n-1)/2], s.interruptions[(n-1)*99/100], s.interruptions[n-1]
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
