package capacity

import "time"

// kind is the kind of an event.
type kind uint8

const (
	attempt  kind = iota // a client opens a connection
	admitted             // the server admits it
	failed               // it failed
	begun                // it is open
	asked                // its watches retry after a refusal
	live                 // its watches have caught up
	renewed              // the time limit of its watches has come, and they reconnect
	ended                // a server has ended its watches
	step                 // a step of the incident
)

// event is a future event. An event of a connection is void if the turn of the connection
// has changed meanwhile.
type event struct {
	at   time.Duration
	nth  uint64 // orders events of the same time
	kind kind
	who  int32
	turn uint32
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.nth < o.nth }

// agenda is a heap of future events. container/heap takes twice as long, because it is not
// generic.
type agenda struct {
	events []event
	nth    uint64
}

func (a *agenda) add(at time.Duration, k kind, who int32, turn uint32) {
	a.nth++
	a.events = append(a.events, event{at, a.nth, k, who, turn})
	i := len(a.events) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !a.events[i].before(&a.events[parent]) {
			return
		}
		a.events[i], a.events[parent] = a.events[parent], a.events[i]
		i = parent
	}
}

// next removes the first event.
func (a *agenda) next() event {
	first := a.events[0]
	last := len(a.events) - 1
	a.events[0] = a.events[last]
	a.events = a.events[:last]
	for i := 0; ; {
		least, child := i, 2*i+1
		for c := child; c < min(child+2, last); c++ {
			if a.events[c].before(&a.events[least]) {
				least = c
			}
		}
		if least == i {
			return first
		}
		a.events[i], a.events[least] = a.events[least], a.events[i]
		i = least
	}
}
