package e2e

import (
	"net"
	"sync"
	"testing"
)

// link is a way through which connections lead to a server, and which can be
// disturbed: that of fanoutd to etcd, or that of subscribers to fanoutd.
type link struct {
	address  string // of its beginning
	target   string // of its end
	listener net.Listener
	pumps    sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	down   bool          // nobody comes through
	flows  chan struct{} // closed while bytes get through
	frozen bool
}

// newLink returns a link to an address at which somebody listens, or will.
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
	// When one direction is over, so is the other.
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

// enter notes a connection, unless nobody comes through.
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

// carry carries bytes in one direction until one of the two ends is closed, which
// closes the other. What arrives while the link is frozen waits.
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
		case <-l.flow(): // it may have been frozen since
			if _, err := to.Write(waiting); err != nil {
				return
			}
			waiting = nil
		default:
		}
	}
}

// flow returns a channel that is closed while bytes get through.
func (l *link) flow() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flows
}

// pump hands on what comes from one side until that is closed.
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

// drop breaks the connections there are. New ones come through.
func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
}

// cut breaks the connections there are and lets nobody through until heal is
// called.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	l.close()
}

// close closes all connections. The mutex is held.
func (l *link) close() {
	for c := range l.conns {
		c.Close()
	}
	l.thaw()
}

// freeze lets no byte through until heal is called, and keeps the connections: as
// if the other side were gone without a word.
func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.frozen {
		l.frozen, l.flows = true, make(chan struct{})
	}
}

// heal ends what cut or freeze began.
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
