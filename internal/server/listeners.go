package server

import (
	"net"
	"sync"
)

// listeners are the listeners of Serve.
type listeners struct {
	mu     sync.Mutex
	open   []net.Listener // guarded by mu
	closed bool           // guarded by mu
}

// add adds a listener. If the listeners are closed, add closes this one, too.
func (s *listeners) add(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = l.Close()
		return
	}
	s.open = append(s.open, l)
}

// close closes all listeners. Their connections stay open.
func (s *listeners) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.open {
		_ = l.Close() // an error means that it is closed already
	}
}
