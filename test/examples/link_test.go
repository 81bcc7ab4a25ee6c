package examples

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// link is the way of subscribers to a server. It can be cut, and its connections can
// die without a word, also in the middle of something.
type link struct {
	entrance string // its address
	exit     string // that of the server

	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]bool // guarded by mu
	down  bool           // guarded by mu: nobody comes through
	left  int            // guarded by mu: bytes to subscribers before it is down; 0: any number
}

// pair is the two halves of a connection through the link.
type pair struct {
	near, far net.Conn
	dead      atomic.Bool // what is sent is lost
}

func (p *pair) close() {
	p.near.Close()
	p.far.Close()
}

func newLink(t *testing.T, exit string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{entrance: listener.Addr().String(), exit: exit, listener: listener, pairs: map[*pair]bool{}}
	l.running.Go(l.accept)
	t.Cleanup(func() {
		listener.Close()
		l.cut()
		l.running.Wait()
	})
	return l
}

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.exit)
		if err != nil {
			near.Close()
			continue
		}
		p := &pair{near: near, far: far}
		if !l.enter(p) {
			p.close()
			continue
		}
		l.running.Go(func() {
			defer l.leave(p)
			carry(p, p.far, p.near, func(int) {})
		})
		l.running.Go(func() {
			defer l.leave(p)
			carry(p, p.near, p.far, l.passed)
		})
	}
}

func (l *link) enter(p *pair) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.down {
		l.pairs[p] = true
	}
	return !l.down
}

func (l *link) leave(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.close()
	delete(l.pairs, p)
}

// carry carries bytes in one direction until one end is closed, and says how many
// have passed.
func carry(p *pair, to, from net.Conn, passed func(n int)) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if p.dead.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
		passed(n)
	}
}

// passed counts bytes on their way to a subscriber. When there were enough of them,
// the connections are dead and there are no new ones.
func (l *link) passed(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return
	}
	if l.left = max(l.left-n, 0); l.left == 0 {
		l.down = true
		l.die()
	}
}

// cut breaks all connections and lets nobody through until heal is called.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for p := range l.pairs {
		p.close()
	}
}

// heal lets everybody through again.
func (l *link) heal() { l.healFor(0) }

// healFor lets everybody through again until so many bytes have come to subscribers.
// Then their connections die in silence, so that what has come is read, and nobody
// comes through until heal is called. 0 is any number.
func (l *link) healFor(bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down, l.left = false, bytes
}

// deaden loses whatever is sent on the connections that there are, which stay open:
// as if the other side were gone without a word. New connections are good.
func (l *link) deaden() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.die()
}

// die is deaden with the mutex held.
func (l *link) die() {
	for p := range l.pairs {
		p.dead.Store(true)
	}
}
