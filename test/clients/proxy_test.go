package clients

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy forwards connections to a server and simulates network faults.
type proxy struct {
	address  string
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]bool   // guarded by mu
	down  bool             // new connections are refused; guarded by mu
	delay time.Duration    // of data from the server; guarded by mu
	open  [2]chan struct{} // by direction: closed unless frozen; guarded by mu

	idleLimit time.Duration // connections without data for this time are cut; 0: none
	silently  bool          // data of a cut connection vanishes, and neither side notices
	cuts      atomic.Int64  // connections that were cut because they were idle
	left      atomic.Int64  // those that the client has closed after a silent cut
}

// pair is a connection from the client and its continuation to the server.
type pair struct {
	client, server *net.TCPConn
	closed         chan struct{}
	once           sync.Once
	used           atomic.Int64 // when data last arrived, in nanoseconds since 1970
	vanishes       atomic.Bool  // data is read and discarded
}

func (p *pair) close() {
	p.once.Do(func() {
		close(p.closed)
		p.client.Close()
		p.server.Close()
	})
}

type direction int

// The directions of a connection.
const (
	toServer direction = iota
	toClient
)

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	return newIdleProxy(t, target, 0, false)
}

// newIdleProxy returns a proxy that cuts connections that were idle for a time: it closes
// them, or drops their data silently, like a router that has forgotten them.
func newIdleProxy(t *testing.T, target string, limit time.Duration, silently bool) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{
		address: listener.Addr().String(), target: target, listener: listener, pairs: map[*pair]bool{},
		idleLimit: limit, silently: silently,
	}
	for d := range p.open {
		p.open[d] = make(chan struct{})
		close(p.open[d])
	}
	p.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.connect(conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		p.running.Wait()
	})
	return p
}

// connect forwards one connection until it ends.
func (p *proxy) connect(client *net.TCPConn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	c := &pair{client: client, server: server.(*net.TCPConn), closed: make(chan struct{})}
	defer c.close()
	p.mu.Lock()
	p.pairs[c] = !p.down
	down := p.down
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pairs, c)
	}()
	if down {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.forward(c, c.server, c.client, toServer) })
	both.Go(func() { p.forward(c, c.client, c.server, toClient) })
	if p.idleLimit > 0 {
		c.used.Store(time.Now().UnixNano())
		p.running.Go(func() { p.cutWhenIdle(c) })
	}
	both.Wait()
}

// cutWhenIdle cuts a connection as soon as no data has arrived for the limit.
func (p *proxy) cutWhenIdle(c *pair) {
	timer := time.NewTimer(p.idleLimit)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.closed:
			return
		}
		left := p.idleLimit - time.Since(time.Unix(0, c.used.Load()))
		if left <= 0 {
			break
		}
		timer.Reset(left)
	}
	switch n := p.cuts.Add(1); {
	case p.silently:
		c.vanishes.Store(true)
	case n%2 == 0: // the client gets a reset
		c.client.SetLinger(0)
		fallthrough
	default:
		c.close()
	}
}

// forward forwards data in one direction. When one side closes its half of the
// connection, forward does the same on the other side and leaves the other direction open.
func (p *proxy) forward(c *pair, to, from *net.TCPConn, d direction) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		c.used.Store(time.Now().UnixNano())
		if c.vanishes.Load() {
			if err == nil {
				continue
			}
			if d == toServer {
				p.left.Add(1)
			}
			return
		}
		if n > 0 && !p.wait(c, d) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				c.close()
				return
			}
		}
		if err != nil {
			if to.CloseWrite() != nil {
				c.close()
			}
			return
		}
	}
}

// wait waits while the direction is frozen, and for the delay. It returns false if the
// pair is closed meanwhile.
func (p *proxy) wait(c *pair, d direction) bool {
	p.mu.Lock()
	open, delay := p.open[d], p.delay
	p.mu.Unlock()
	select {
	case <-open:
	case <-c.closed:
		return false
	}
	if d == toClient && delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.closed:
			return false
		}
	}
	return true
}

// drop closes all connections.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.close()
	}
}

// cut closes all connections and refuses new ones until heal is called.
func (p *proxy) cut() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.drop()
}

// halfClose closes one direction of all connections and leaves the other open.
func (p *proxy) halfClose(d direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		if d == toServer {
			c.server.CloseWrite()
		} else {
			c.client.CloseWrite()
		}
	}
}

// freeze holds back all data in one direction until heal is called.
func (p *proxy) freeze(d direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open[d]:
		p.open[d] = make(chan struct{})
	default:
	}
}

// slow delays data from the server until heal is called.
func (p *proxy) slow(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// heal ends the effects of freeze, cut and slow.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down, p.delay = false, 0
	for d := range p.open {
		select {
		case <-p.open[d]:
		default:
			close(p.open[d])
		}
	}
}
