package frames

import (
	"maps"
	"time"
)

// Stream is a stream of the client that the server has begun to serve. Its methods must not block.
type Stream interface {
	// Lost ends the stream because the connection is lost.
	Lost()

	// Violated notes that the request of the stream violates a rule. It makes the handler return the
	// reason, or ends the stream if that cannot be. It reports whether the handler returns now.
	Violated(reason error) (returns bool)

	// CutOff ends the stream without a reason.
	CutOff()
}

// clientStream is a stream that the client has opened. It is followed until it has ended for the
// client and for its handler.
type clientStream struct {
	opened  time.Time
	client  string        // the name of the client that has authenticated; empty: none
	served  Stream        // nil: no handler has begun, or it has ended
	request *Request      // nil: it has come to its end
	ended   chan struct{} // closed by Ended; nil: nobody waits
	closed  bool          // the server has answered or reset it, or the client has reset it
}

// openStream applies the budget to a stream whose header has come.
func (c *Conn) openStream(id uint32) {
	c.lastStream = id
	c.waited = c.burst.await(c.budget, c.closed)
	now := time.Now() // after the wait: the server begins the stream now
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[id] = &clientStream{opened: now}
	if len(c.streams) < c.manyStreams {
		return
	}
	// After a GOAWAY, the server ignores new streams, so nothing else ends these.
	maps.DeleteFunc(c.streams, func(_ uint32, s *clientStream) bool { return s.served == nil && now.Sub(s.opened) >= youngFor })
	c.manyStreams = max(fewStreams, 2*len(c.streams))
}

// fewStreams is the number of streams from which openStream forgets those that are not served and no
// longer young.
const fewStreams = 64

// Open begins to follow the request whose headers the server has just read. It returns how long the
// request has waited for its turn, see [Budget]. The goroutine that reads the connection calls Open.
// The caller calls Ended with the id of the stream.
func (c *Conn) Open(served Stream) (request *Request, id uint32, waited time.Duration) {
	id = c.header.stream()
	request = &Request{conn: c, id: id, ended: c.endsStream}
	c.with(id, func(s *clientStream) { s.served, s.request = served, request })
	return request, id, c.waited
}

// with calls a function for a stream, with mu held, if the stream is followed.
func (c *Conn) with(id uint32, do func(s *clientStream)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[id]; s != nil {
		do(s)
	}
}

// closeStream notes that the server has answered or reset a stream, or that the client has reset it. It
// returns false if that has happened before.
func (c *Conn) closeStream(id uint32) (client string, opened time.Time, ok bool) {
	c.with(id, func(s *clientStream) {
		client, opened, ok = s.client, s.opened, !s.closed
		s.closed, s.request = true, nil
		if s.served == nil {
			delete(c.streams, id)
		}
	})
	return client, opened, ok
}

// Ended notes that the handler of a stream has ended. Any goroutine may call it.
func (c *Conn) Ended(id uint32) {
	c.with(id, func(s *clientStream) {
		if s.ended != nil {
			close(s.ended)
		}
		s.served, s.request = nil, nil
		if s.closed {
			delete(c.streams, id)
		}
	})
}
