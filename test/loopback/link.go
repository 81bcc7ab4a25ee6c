package loopback

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Link is a way to a server that can be cut. Connections to its address are ones to the
// server.
type Link struct {
	Address  string
	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // guarded by mu
	down  bool              // guarded by mu
}

// NewLink returns a way to the address of a server. It ends with the test.
func NewLink(t testing.TB, target string) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{Address: listener.Addr().String(), target: target, listener: listener, conns: map[net.Conn]bool{}}
	l.pumps.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			l.pumps.Go(func() { l.connect(near) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		l.Cut()
		l.pumps.Wait()
	})
	return l
}

// connect carries bytes both ways until one side closes.
func (l *Link) connect(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer far.Close()
	if !l.enter(near, far) {
		return
	}
	var both sync.WaitGroup
	carry := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		to.Close()
		from.Close()
	}
	both.Go(func() { carry(far, near) })
	both.Go(func() { carry(near, far) })
	both.Wait()
}

func (l *Link) enter(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return false
	}
	for _, c := range conns {
		l.conns[c] = true
	}
	return true
}

// Cut breaks all connections and lets nobody through until Heal is called.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

// Heal lets everybody through again.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}
