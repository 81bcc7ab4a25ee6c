package capacity

import "time"

// kind is what is going to happen.
type kind uint8

const (
	attempt  kind = iota // a connection is begun
	admitted             // it is its turn
	failed               // it has not come about
	begun                // it has
	asked                // its watches ask again for what they have been refused
	live                 // its watches have been brought to the present
	renewed              // their time is over, and they go elsewhere
	ended                // a server has ended them
	step                 // of an incident
)

// event is something that is going to happen. That of a connection is void if it is of
// another turn than the connection is.
type event struct {
	at   time.Duration
	nth  uint64 // decides between those of one moment
	kind kind
	who  int32
	turn uint32
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.nth < o.nth }

// agenda is what is going to happen, as a heap. The one of the standard library takes
// twice as long, because it does not know the type.
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

// next removes the first one.
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
