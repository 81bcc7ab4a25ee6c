package examples

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// link forwards connections of subscribers to a server. It can be cut, and its connections
// can die silently, also in the middle of a message.
type link struct {
	address string // for subscribers
	target  string // of the server

	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]bool // guarded by mu
	down  bool           // refuses new connections; guarded by mu
	left  int            // bytes to subscribers before the link goes down; 0: no limit; guarded by mu
}

// pair is a connection of a subscriber and its continuation to the server.
type pair struct {
	subscriber, server net.Conn
	dead               atomic.Bool // all data is lost
}

func (p *pair) close() {
	p.subscriber.Close()
	p.server.Close()
}

func newLink(t *testing.T, target string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{address: listener.Addr().String(), target: target, listener: listener, pairs: map[*pair]bool{}}
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
		subscriber, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.target)
		if err != nil {
			subscriber.Close()
			continue
		}
		p := &pair{subscriber: subscriber, server: server}
		if !l.add(p) {
			p.close()
			continue
		}
		l.running.Go(func() {
			defer l.remove(p)
			forward(p, p.server, p.subscriber, func(int) {})
		})
		l.running.Go(func() {
			defer l.remove(p)
			forward(p, p.subscriber, p.server, l.forwarded)
		})
	}
}

// add adds a connection, and returns false if the link is down.
func (l *link) add(p *pair) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.down {
		l.pairs[p] = true
	}
	return !l.down
}

// remove closes a connection.
func (l *link) remove(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.close()
	delete(l.pairs, p)
}

// forward forwards data in one direction until one side closes. It calls count with the
// number of bytes that it forwards.
func forward(p *pair, to, from net.Conn, count func(n int)) {
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
		count(n)
	}
}

// forwarded counts bytes to subscribers. When the limit is reached, all connections die
// and the link goes down.
func (l *link) forwarded(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return
	}
	if l.left = max(l.left-n, 0); l.left == 0 {
		l.down = true
		l.silenceLocked()
	}
}

// cut closes all connections and refuses new ones until heal is called.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for p := range l.pairs {
		p.close()
	}
}

// heal accepts connections again.
func (l *link) heal() { l.healFor(0) }

// healFor accepts connections again until subscribers have received this number of bytes;
// 0 is no limit. Then the connections die silently, so that subscribers can still read what
// they received, and the link stays down until heal is called.
func (l *link) healFor(bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down, l.left = false, bytes
}

// silence makes all connections lose their data while they stay open. New
// connections work.
func (l *link) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silenceLocked()
}

// silenceLocked is silence for callers that hold mu.
func (l *link) silenceLocked() {
	for p := range l.pairs {
		p.dead.Store(true)
	}
}
