package behaviour

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// listener accepts connections, and counts them.
type listener struct {
	address string
	done    sync.WaitGroup

	mu    sync.Mutex
	at    []time.Time // when each connection began; guarded by mu
	conns []net.Conn  // guarded by mu
}

// listen starts a listener. A function serves each connection, which is closed after it.
func (s *scene) listen(serve func(net.Conn)) *listener {
	s.Helper()
	accepting, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	l := &listener{address: accepting.Addr().String()}
	l.done.Go(func() {
		for {
			conn, err := accepting.Accept()
			if err != nil {
				return
			}
			l.mu.Lock()
			l.at, l.conns = append(l.at, time.Now()), append(l.conns, conn)
			l.mu.Unlock()
			l.done.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	s.Cleanup(func() {
		accepting.Close()
		l.mu.Lock()
		for _, c := range l.conns {
			c.Close()
		}
		l.mu.Unlock()
		l.done.Wait()
	})
	return l
}

// connections returns when each connection began.
func (l *listener) connections() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]time.Time(nil), l.at...)
}

// silent reads from a connection until the client closes it, and answers nothing.
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// closedAddress returns an address at which nothing listens.
func (s *scene) closedAddress() string {
	s.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// httpProxy is a proxy of HTTP. It connects clients that ask for any server with one target, so a test has servers
// on other machines.
type httpProxy struct {
	*listener
	mu     sync.Mutex
	firsts [][]byte // the first bytes of each connection after CONNECT; guarded by mu
}

func (s *scene) httpProxy(target string) *httpProxy {
	p := &httpProxy{}
	p.listener = s.listen(func(near net.Conn) {
		in := bufio.NewReader(near)
		if req, err := http.ReadRequest(in); err != nil || req.Method != http.MethodConnect {
			return
		}
		if _, err := io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			return
		}
		first, err := in.Peek(3)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.firsts = append(p.firsts, bytes.Clone(first))
		p.mu.Unlock()
		far, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		carry(near, in, far, io.Discard)
	})
	return p
}

// carry copies bytes both ways until one side closes. It also writes those of the client to a copy.
func carry(near net.Conn, in io.Reader, far net.Conn, tap io.Writer) {
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(io.MultiWriter(far, tap), in) // it ends with the connection
		far.Close()
	})
	_, _ = io.Copy(near, far)
	near.Close()
	far.Close()
	both.Wait()
}

// encrypted says for each tunnel whether the client has begun it with TLS.
func (p *httpProxy) encrypted() (all []bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, first := range p.firsts {
		all = append(all, first[0] == 0x16)
	}
	return all
}

// frames calls a function for each frame of HTTP/2 that a client sends, which it reads from a copy of the bytes.
func frames(r io.Reader, saw func(http2.Frame)) {
	if _, err := io.CopyN(io.Discard, r, int64(len(http2.ClientPreface))); err != nil {
		return
	}
	for framer := http2.NewFramer(io.Discard, r); ; {
		f, err := framer.ReadFrame()
		if err != nil {
			return
		}
		saw(f)
	}
}
