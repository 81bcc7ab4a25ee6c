package e2e

import (
	"net"
	"sync"
	"testing"
)

// link is a TCP proxy that tests can disturb, between fanoutd and etcd or between
// subscribers and fanoutd.
type link struct {
	address  string // where it listens
	target   string // where it connects to
	listener net.Listener
	pumps    sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	down   bool          // refuses connections
	flows  chan struct{} // closed while bytes pass
	frozen bool
}

// newLink returns a link to an address where a server listens now or later.
func newLink(t *testing.T, target string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{address: listener.Addr().String(), target: target, listener: listener, conns: map[net.Conn]bool{}, flows: make(chan struct{})}
	close(l.flows)
	l.pumps.Go(l.accept)
	t.Cleanup(func() {
		listener.Close()
		l.cut()
		l.pumps.Wait()
	})
	return l
}

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.pumps.Go(func() { l.connect(near) })
	}
}

func (l *link) connect(near net.Conn) {
	defer near.Close()
	if !l.enter(near) {
		return
	}
	defer l.leave(near)
	far, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer far.Close()
	if !l.enter(far) {
		return
	}
	defer l.leave(far)
	// When one direction ends, so does the other.
	var both sync.WaitGroup
	over := make(chan struct{})
	end := sync.OnceFunc(func() {
		close(over)
		near.Close()
		far.Close()
	})
	both.Go(func() { defer end(); l.carry(far, near, over) })
	both.Go(func() { defer end(); l.carry(near, far, over) })
	both.Wait()
}

// enter adds a connection, and returns false if the link is down.
func (l *link) enter(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return false
	}
	l.conns[c] = true
	return true
}

func (l *link) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// carry copies bytes in one direction until either side is closed, and then closes the
// other. Bytes that arrive while the link is frozen wait.
func (l *link) carry(to, from net.Conn, over chan struct{}) {
	pieces := make(chan []byte)
	l.pumps.Go(func() { pump(pieces, from, over) })
	var waiting []byte
	for {
		var heals <-chan struct{}
		if len(waiting) > 0 {
			heals = l.flow()
		}
		select {
		case piece, more := <-pieces:
			if !more {
				return
			}
			waiting = append(waiting, piece...)
		case <-heals:
		case <-over:
			return
		}
		select {
		case <-l.flow(): // the link may have been frozen meanwhile
			if _, err := to.Write(waiting); err != nil {
				return
			}
			waiting = nil
		default:
		}
	}
}

// flow returns a channel that is closed while bytes pass.
func (l *link) flow() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flows
}

// pump sends the bytes from one side to a channel, until that side is closed.
func pump(pieces chan<- []byte, from net.Conn, over chan struct{}) {
	defer close(pieces)
	for {
		buffer := make([]byte, 32<<10)
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		select {
		case pieces <- buffer[:n]:
		case <-over:
			return
		}
	}
}

// drop breaks the existing connections. New ones are accepted.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
}

// cut breaks the existing connections, and refuses new ones until heal is called.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	l.close()
}

// close closes all connections. The caller holds the mutex.
func (l *link) close() {
	for c := range l.conns {
		c.Close()
	}
	l.thaw()
}

// freeze stops all bytes until heal is called, and keeps the connections open, as if
// the other side had disappeared.
func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.frozen {
		l.frozen, l.flows = true, make(chan struct{})
	}
}

// heal undoes cut and freeze.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
	l.thaw()
}

func (l *link) thaw() {
	if l.frozen {
		l.frozen = false
		close(l.flows)
	}
}
