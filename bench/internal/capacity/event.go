package capacity

import "time"

// eventKind is the kind of an event. All kinds except eventStep concern one connection.
type eventKind uint8

const (
	eventConnect       eventKind = iota // the client opens the connection
	eventAdmitted                       // the rate limit lets the connection pass
	eventConnectFailed                  // the attempt to connect timed out
	eventConnected                      // the connection is open
	eventWatch                          // the client retries its watches after a refusal
	eventCaughtUp                       // the watches have caught up
	eventExpired                        // the time limit of the watches is over, and the client reconnects
	eventDrained                        // a draining server has ended the watches
	eventStep                           // a step of the incident
)

// event is a future event. An event of a connection is void if the connection has another
// generation by then.
type event struct {
	at         time.Duration
	nth        uint64 // orders events of the same time
	kind       eventKind
	target     int32 // index of the connection, or of the step
	generation uint32
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.nth < o.nth }

// eventQueue is a heap of future events. container/heap takes twice as long, because it is
// not generic.
type eventQueue struct {
	events []event
	nth    uint64
}

func (q *eventQueue) add(at time.Duration, k eventKind, target int32, generation uint32) {
	q.nth++
	q.events = append(q.events, event{at, q.nth, k, target, generation})
	i := len(q.events) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !q.events[i].before(&q.events[parent]) {
			return
		}
		q.events[i], q.events[parent] = q.events[parent], q.events[i]
		i = parent
	}
}

// next removes the first event and returns it.
func (q *eventQueue) next() event {
	first := q.events[0]
	last := len(q.events) - 1
	q.events[0] = q.events[last]
	q.events = q.events[:last]
	for i := 0; ; {
		least, child := i, 2*i+1
		for c := child; c < min(child+2, last); c++ {
			if q.events[c].before(&q.events[least]) {
				least = c
			}
		}
		if least == i {
			return first
		}
		q.events[i], q.events[least] = q.events[least], q.events[i]
		i = least
	}
}
