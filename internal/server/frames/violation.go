package frames

import "time"

// Ender is who ends a stream that violates a rule.
type Ender int

const (
	// ConnEnds: the request is being read for a handler that does not listen, so the connection
	// ends the stream. The client may get no reason.
	ConnEnds Ender = iota

	// HandlerEnds: the handler returns now.
	HandlerEnds

	// HandlerEndsLater: the handler has just begun, and returns before it lets gRPC read. Until
	// then the window of the stream bounds what comes.
	HandlerEndsLater
)

// violationPatience is how long a connection waits for the end of a stream that violates a rule.
// Only a handler that is blocked in gRPC takes so long.
const violationPatience = time.Second

// endViolator ends the stream of a request that violates a rule. The handler of the stream ends it
// with a status that names the rule. gRPC gets the bytes that violate the rule after that, and
// discards them. Otherwise it would make room for the whole message. If gRPC does not
// read yet, it makes no room, so nothing waits for the handler.
//
// If the handler does not listen, or is blocked, endStream ends the stream without that status. gRPC
// then discards the frames that still come once the handler has returned. Until then the window of
// the stream bounds them.
func (c *Conn) endViolator(r *Request) {
	violation := r.Violation()
	if violation == nil || r.violated {
		return
	}
	r.violated = true
	ended := make(chan struct{})
	c.mu.Lock()
	s, open := c.open[r.id]
	if open {
		s.ended = ended
		c.open[r.id] = s
	}
	c.mu.Unlock()
	if open {
		switch s.stream.Violated(violation) {
		case HandlerEndsLater:
			return
		case HandlerEnds:
			timer := time.NewTimer(violationPatience)
			defer timer.Stop()
			select {
			case <-ended:
				return
			case <-timer.C:
			case <-c.closed:
			}
		case ConnEnds:
		}
	}
	r.endStream()
}
