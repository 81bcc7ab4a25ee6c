package failures

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/test/loopback"
)

// network is the servers of a cluster, and a proxy in front of both ports of each, at the address that the
// others know. A proxy asks the kernel which server has opened a connection. So the bytes from one server
// to another can be stopped, and those in the other direction not.
type network struct {
	servers []*instance
	etcds   []string // the client addresses of their etcds, without a proxy

	listeners []net.Listener
	pumps     sync.WaitGroup

	mu    sync.Mutex
	lost  map[way]chan struct{} // bytes stop until the channel is closed; guarded by mu
	cut   map[way]bool          // connections are refused; guarded by mu
	conns map[net.Conn]way      // guarded by mu
}

// way is a direction between two servers.
type way struct{ from, to int }

func (w way) back() way { return way{w.to, w.from} }

// newNetwork returns n servers that have not been started, each with these lines at the end of its settings.
func newNetwork(t *testing.T, n int, settings string) *network {
	t.Helper()
	net := &network{lost: map[way]chan struct{}{}, cut: map[way]bool{}, conns: map[net.Conn]way{}}
	t.Cleanup(net.close)
	clientPort := strconv.Itoa(10_000 + rand.IntN(10_000))
	var members strings.Builder
	var own []string
	var ports []netip.AddrPort
	for i := range n {
		known, listen := netip.MustParseAddrPort(loopback.FreeAddress(t)), netip.MustParseAddrPort(loopback.FreeAddress(t))
		fmt.Fprintf(&members, "    node-%d: %s\n", i+1, known)
		own, ports = append(own, listen.Addr().String()), append(ports, known)
		net.etcds = append(net.etcds, listen.Addr().String()+":"+clientPort)
	}
	for i := range n {
		path := filepath.Join(t.TempDir(), "fanoutd.yaml")
		text := fmt.Sprintf("cluster:\n  name: node-%d\n  client-port: %s\n  listen: %s\n  members:\n%sresources:\n  - name: %s\n    prefix: %s\n    codec: raw\n%s",
			i+1, clientPort, own[i], members.String(), resource, etcdPrefix, settings)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		net.servers = append(net.servers, newInstance(t, path, "--data-dir", filepath.Join(t.TempDir(), "data")))
	}
	for i, known := range ports {
		for _, port := range []string{strconv.Itoa(int(known.Port())), clientPort} {
			net.forward(t, i, known.Addr().String()+":"+port, own[i]+":"+port)
		}
	}
	return net
}

// startNetwork returns so many servers that serve, each with these lines at the end of its settings.
func startNetwork(t *testing.T, servers int, settings string) *network {
	t.Helper()
	n := newNetwork(t, servers, settings)
	launchAll(t, n.servers)
	return n
}

// forward starts a proxy to a server.
func (n *network) forward(t *testing.T, to int, known, listen string) {
	t.Helper()
	listener, err := net.Listen("tcp", known)
	if err != nil {
		t.Fatal(err)
	}
	n.listeners = append(n.listeners, listener)
	n.pumps.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			n.pumps.Go(func() { n.connect(near, to, listen) })
		}
	})
}

// connect copies bytes both ways until one side closes.
func (n *network) connect(near net.Conn, to int, listen string) {
	defer near.Close()
	from, ok := n.opener(near)
	if !ok {
		return // it has closed the connection, or ended
	}
	forth := way{from, to}
	// Both must pass for a connection to be established.
	over := make(chan struct{})
	n.await(forth, over)
	n.await(forth.back(), over)
	far, err := net.Dial("tcp", listen)
	if err != nil {
		return
	}
	defer far.Close()
	if !n.enter(forth, near, far) {
		return
	}
	defer n.leave(near, far)
	end := sync.OnceFunc(func() {
		close(over)
		near.Close()
		far.Close()
	})
	var both sync.WaitGroup
	both.Go(func() { defer end(); n.carry(far, near, forth, over) })
	both.Go(func() { defer end(); n.carry(near, far, forth.back(), over) })
	both.Wait()
}

// carry copies bytes until either side is closed, or over is. While they are lost on their way, it does not read on,
// so the sender sees a connection without acknowledgements.
func (n *network) carry(to, from net.Conn, w way, over <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		size, err := from.Read(buffer)
		n.await(w, over)
		if size > 0 {
			if _, err := to.Write(buffer[:size]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// await waits until bytes pass, or over is closed.
func (n *network) await(w way, over <-chan struct{}) {
	n.mu.Lock()
	lost := n.lost[w]
	n.mu.Unlock()
	if lost != nil {
		select {
		case <-lost:
		case <-over:
		}
	}
}

func (n *network) enter(w way, conns ...net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut[w] {
		return false
	}
	for _, c := range conns {
		n.conns[c] = w
	}
	return true
}

func (n *network) leave(conns ...net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range conns {
		delete(n.conns, c)
	}
}

// lose stops the bytes on these ways, without a word to either side.
func (n *network) lose(ways ...way) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range ways {
		if n.lost[w] == nil {
			n.lost[w] = make(chan struct{})
		}
	}
}

// refuse breaks the connections on these ways, and refuses new ones.
func (n *network) refuse(ways ...way) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range ways {
		n.cut[w] = true
	}
	for c, w := range n.conns {
		if n.cut[w] {
			c.Close()
		}
	}
}

// heal undoes lose and refuse.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, lost := range n.lost {
		close(lost)
	}
	clear(n.lost)
	clear(n.cut)
}

// close ends the proxies. The servers have been killed.
func (n *network) close() {
	for _, l := range n.listeners {
		l.Close()
	}
	n.heal()
	n.mu.Lock()
	for c := range n.conns {
		c.Close()
	}
	n.mu.Unlock()
	n.pumps.Wait()
}

// to returns the ways to a server from all others.
func (n *network) to(server int) (ways []way) {
	for i := range n.servers {
		if i != server {
			ways = append(ways, way{i, server})
		}
	}
	return ways
}

// from returns the ways from a server to all others.
func (n *network) from(server int) (ways []way) {
	for _, w := range n.to(server) {
		ways = append(ways, w.back())
	}
	return ways
}

// around returns the ways from and to a server.
func (n *network) around(server int) []way { return append(n.to(server), n.from(server)...) }

// ways returns the ways from some servers to others.
func ways(from, to []int) (all []way) {
	for _, a := range from {
		for _, b := range to {
			all = append(all, way{a, b})
		}
	}
	return all
}

// between returns the ways from some servers to others, and back.
func between(some, others []int) []way { return append(ways(some, others), ways(others, some)...) }

// opener returns the server that has opened a connection to a proxy.
func (n *network) opener(near net.Conn) (server int, ok bool) {
	inode := inodeOf(near.RemoteAddr(), near.LocalAddr())
	if inode == "" {
		return 0, false
	}
	for i, s := range n.servers {
		folder := fmt.Sprintf("/proc/%d/fd", s.pid.Load())
		files, _ := os.ReadDir(folder) // the process may have ended
		for _, f := range files {
			if target, err := os.Readlink(filepath.Join(folder, f.Name())); err == nil && target == "socket:["+inode+"]" {
				return i, true
			}
		}
	}
	return 0, false
}

// inodeOf returns the inode of a socket with these addresses; empty: there is none any more.
func inodeOf(local, remote net.Addr) string {
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer table.Close()
	localAddress, remoteAddress := inTable(local), inTable(remote)
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) > 9 && f[1] == localAddress && f[2] == remoteAddress {
			return f[9]
		}
	}
	return ""
}

// inTable returns an IPv4 address in the form of the kernel's table.
func inTable(a net.Addr) string {
	at := netip.MustParseAddrPort(a.String())
	four := at.Addr().Unmap().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(four[:]), at.Port())
}
