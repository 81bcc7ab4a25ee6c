package loopback

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Balancer is a TCP load balancer. It gives connections to its servers in turn. If a server
// refuses a connection, the next one gets it. The balancer does not know the health of servers.
type Balancer struct {
	Address  string
	listener net.Listener
	carriers sync.WaitGroup

	mu      sync.Mutex
	servers []string          // guarded by mu: the next server is first
	conns   map[net.Conn]bool // guarded by mu
}

// NewBalancer starts a load balancer. The end of the test stops it.
func NewBalancer(t testing.TB, servers ...string) *Balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &Balancer{Address: listener.Addr().String(), listener: listener, servers: append([]string(nil), servers...), conns: map[net.Conn]bool{}}
	b.carriers.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			b.carriers.Go(func() { b.connect(near) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		b.closeAll()
		b.carriers.Wait()
	})
	return b
}

// connect connects a client to a server, and copies bytes both ways until one side closes.
func (b *Balancer) connect(near net.Conn) {
	defer near.Close()
	for _, server := range b.inTurn() {
		far, err := net.Dial("tcp", server)
		if err != nil {
			continue
		}
		b.carry(near, far)
		return
	}
}

// inTurn returns each server once. The server whose turn it is comes first.
func (b *Balancer) inTurn() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.servers[0]
	copy(b.servers, b.servers[1:])
	b.servers[len(b.servers)-1] = first
	return append([]string{first}, b.servers[:len(b.servers)-1]...)
}

func (b *Balancer) carry(near, far net.Conn) {
	b.mu.Lock()
	b.conns[near], b.conns[far] = true, true
	b.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			way[0].Close()
			way[1].Close()
		})
	}
	both.Wait()
	b.mu.Lock()
	delete(b.conns, near)
	delete(b.conns, far)
	b.mu.Unlock()
}

func (b *Balancer) closeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		c.Close()
	}
}
