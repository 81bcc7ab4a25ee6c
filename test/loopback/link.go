package loopback

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Link is a TCP proxy in front of a server. Tests can cut, hold or freeze it.
type Link struct {
	Address  string
	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu        sync.Mutex
	conns     map[net.Conn]bool // guarded by mu
	down      bool              // guarded by mu
	allowance int64             // bytes that may still pass while the link is held; guarded by mu
	released  chan struct{}     // closed by Release; nil if the link is not held; guarded by mu
	thawed    chan struct{}     // closed by Thaw; nil if the link is not frozen; guarded by mu
}

// NewLink starts a proxy to a server. The end of the test stops it.
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
		l.Release()
		l.Thaw()
		l.Cut()
		l.pumps.Wait()
	})
	return l
}

// connect copies bytes both ways until one side closes.
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
	carry := func(to net.Conn, from io.ReadCloser) {
		_, _ = io.Copy(to, from)
		to.Close()
		from.Close()
	}
	both.Go(func() { carry(far, held{near, l}) })
	both.Go(func() { carry(near, frozen{far, l}) })
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

// Cut breaks all connections and accepts no new ones until Heal is called.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

// Heal accepts connections again.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// HoldAfter stops copying bytes to the server after this number of bytes, until Release is
// called. Clients see a server that has stopped reading.
func (l *Link) HoldAfter(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowance, l.released = bytes, make(chan struct{})
}

// Release undoes HoldAfter.
func (l *Link) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released != nil {
		close(l.released)
		l.released = nil
	}
}

// Freeze stops copying bytes in both directions, until Thaw is called. Open connections stay
// open, and new ones are accepted, as if the other side had disappeared.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.thawed == nil {
		l.thawed = make(chan struct{})
	}
}

// Thaw undoes Freeze.
func (l *Link) Thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.thawed != nil {
		close(l.thawed)
		l.thawed = nil
	}
}

// frozen is a connection whose reads block while the link is frozen.
type frozen struct {
	net.Conn
	link *Link
}

func (f frozen) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	f.link.mu.Lock()
	thawed := f.link.thawed
	f.link.mu.Unlock()
	if thawed != nil {
		<-thawed
	}
	return n, err
}

// held is a client's connection. Reads also block while the link is held.
type held struct {
	net.Conn
	link *Link
}

func (h held) Read(p []byte) (int, error) {
	n, err := frozen(h).Read(p)
	h.link.pass(n)
	return n, err
}

// pass waits until the bytes may pass.
func (l *Link) pass(bytes int) {
	l.mu.Lock()
	l.allowance -= int64(bytes)
	released, exhausted := l.released, l.allowance < 0
	l.mu.Unlock()
	if released != nil && exhausted {
		<-released
	}
}
