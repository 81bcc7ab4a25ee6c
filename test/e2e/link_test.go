package e2e

import (
	"net"
	"sync"
	"testing"
	"time"
)

// link is a TCP proxy that tests can disturb, between fanoutd and etcd or between
// subscribers and fanoutd.
type link struct {
	address  string // where it listens
	target   string // where it connects to
	listener net.Listener
	pumps    sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu
	down  bool              // refuses connections; guarded by mu
	flows [2]chan struct{}  // by direction: closed while bytes pass; guarded by mu
	delay time.Duration     // of all bytes; guarded by mu
}

// direction is a direction of a link.
type direction int

// The directions of a link.
const (
	toTarget direction = iota
	fromTarget
)

// newLink returns a link to an address where a server listens now or later.
func newLink(t *testing.T, target string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{address: listener.Addr().String(), target: target, listener: listener, conns: map[net.Conn]bool{}}
	for d := range l.flows {
		l.flows[d] = make(chan struct{})
		close(l.flows[d])
	}
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
	both.Go(func() { defer end(); l.carry(far, near, toTarget, over) })
	both.Go(func() { defer end(); l.carry(near, far, fromTarget, over) })
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
// other. Bytes that arrive while the direction is frozen wait.
func (l *link) carry(to, from net.Conn, d direction, over chan struct{}) {
	pieces := make(chan []byte)
	l.pumps.Go(func() { pump(pieces, from, over) })
	var waiting []byte
	var delayed <-chan time.Time // until it fires, the waiting bytes are delayed
	for {
		var heals <-chan struct{}
		if len(waiting) > 0 && delayed == nil {
			heals, _ = l.flow(d)
		}
		select {
		case piece, more := <-pieces:
			if !more {
				return
			}
			_, delay := l.flow(d)
			if len(waiting) == 0 && delay > 0 {
				// the delay of the link
				delayed = time.After(delay)
			}
			waiting = append(waiting, piece...)
		case <-delayed:
			delayed = nil
		case <-heals:
		case <-over:
			return
		}
		if delayed != nil {
			continue
		}
		flows, _ := l.flow(d)
		select {
		case <-flows: // the link may have been frozen meanwhile
			if _, err := to.Write(waiting); err != nil {
				return
			}
			waiting = nil
		default:
		}
	}
}

// flow returns a channel that is closed while bytes pass, and their delay.
func (l *link) flow(d direction) (<-chan struct{}, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flows[d], l.delay
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
	l.halve(toTarget)
	l.halve(fromTarget)
}

// halve stops the bytes in one direction until heal is called.
func (l *link) halve(d direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.flows[d]:
		l.flows[d] = make(chan struct{})
	default: // already frozen
	}
}

// slow delays all bytes until heal is called.
func (l *link) slow(delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
}

// heal undoes cut, freeze, halve and slow.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down, l.delay = false, 0
	l.thaw()
}

// thaw lets bytes pass. The caller holds the mutex.
func (l *link) thaw() {
	for _, flows := range l.flows {
		select {
		case <-flows:
		default:
			close(flows)
		}
	}
}
