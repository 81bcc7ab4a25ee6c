package frames

import "time"

// violationPatience is how long a connection waits for the end of a stream that violates a rule.
// Only a handler that is blocked in gRPC takes so long.
const violationPatience = time.Second

// endViolator ends the stream of a request that violates a rule. The handler of the stream ends it
// with a status that names the rule. gRPC gets the bytes that violate the rule after that, and
// discards them. Otherwise it would make room for the whole message. If gRPC does not
// read yet, it makes no room, so nothing waits for the handler.
//
// If the handler is blocked, CutOff ends the stream without that status. gRPC then discards the frames
// that still come once the handler has returned. Until then the window of the stream bounds them.
func (c *Conn) endViolator(r *Request) {
	violation := r.Violation()
	if violation == nil || r.violated {
		return
	}
	r.violated = true
	var served Stream
	ended := make(chan struct{})
	c.with(r.id, func(s *clientStream) { served, s.ended = s.served, ended })
	if served == nil || !served.Violated(violation) {
		return
	}
	timer := time.NewTimer(violationPatience)
	defer timer.Stop()
	select {
	case <-ended:
		return
	case <-timer.C:
	case <-c.closed:
	}
	served.CutOff()
}
