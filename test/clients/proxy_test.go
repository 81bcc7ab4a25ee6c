package clients

import (
	"net"
	"sync"
	"testing"
	"time"
)

// proxy leads connections to a server, and does to them what networks do.
type proxy struct {
	address  string
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]bool
	down  bool             // nobody comes through
	delay time.Duration    // of what the server says
	open  [2]chan struct{} // by direction: closed while bytes come through
}

// pair is one connection and its continuation.
type pair struct {
	near, far *net.TCPConn
	over      chan struct{} // closed when both are
	once      sync.Once
}

func (p *pair) close() {
	p.once.Do(func() {
		close(p.over)
		p.near.Close()
		p.far.Close()
	})
}

// The directions of a connection.
const (
	toServer = iota
	toClient
)

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: listener.Addr().String(), target: target, listener: listener, pairs: map[*pair]bool{}}
	for d := range p.open {
		p.open[d] = make(chan struct{})
		close(p.open[d])
	}
	p.running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.connect(near.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		p.running.Wait()
	})
	return p
}

func (p *proxy) connect(near *net.TCPConn) {
	far, err := net.Dial("tcp", p.target)
	if err != nil {
		near.Close()
		return
	}
	c := &pair{near: near, far: far.(*net.TCPConn), over: make(chan struct{})}
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
	both.Go(func() { p.carry(c, c.far, c.near, toServer) })
	both.Go(func() { p.carry(c, c.near, c.far, toClient) })
	both.Wait()
}

// carry carries bytes in one direction until it is over. An end that one side makes
// is made on the other side, too, and leaves the other direction as it is.
func (p *proxy) carry(c *pair, to, from *net.TCPConn, direction int) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.pass(c, direction) {
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

// pass returns when something may pass; false if the pair is over.
func (p *proxy) pass(c *pair, direction int) bool {
	p.mu.Lock()
	open, delay := p.open[direction], p.delay
	p.mu.Unlock()
	select {
	case <-open:
	case <-c.over:
		return false
	}
	if direction == toClient && delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.over:
			return false
		}
	}
	return true
}

// drop breaks the connections there are.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.close()
	}
}

// cut breaks the connections and lets nobody through until heal is called.
func (p *proxy) cut() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.drop()
}

// halfClose ends one direction of the connections there are, and leaves the other.
func (p *proxy) halfClose(direction int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		if direction == toServer {
			c.far.CloseWrite()
		} else {
			c.near.CloseWrite()
		}
	}
}

// freeze lets nothing through in one direction until heal is called.
func (p *proxy) freeze(direction int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open[direction]:
		p.open[direction] = make(chan struct{})
	default:
	}
}

// slow delays whatever the server says, until heal is called.
func (p *proxy) slow(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// heal ends what freeze, cut and slow began.
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
