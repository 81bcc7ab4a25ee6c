package etcdproc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/test/loopback"
)

// Member is a member of an etcd cluster: a process that can be stopped and restarted with the
// same data and addresses. Only one goroutine at a time may call its methods.
type Member struct {
	Address string // of its client listener

	name  string
	peer  string // advertised URL for the other members
	dir   string // data directory
	args  []string
	alone bool // in its cluster
	env   []string
	log   bytes.Buffer // of all its processes
	cmd   *exec.Cmd
	ready *readiness

	exited chan struct{} // closed when the process has exited
}

// StartMember does the same as [Start], and returns the member so that the test can control
// it.
func StartMember(t testing.TB, scheme string, args ...string) *Member {
	t.Helper()
	return startCluster(t, 1, scheme, nil, args)[0]
}

// StartCluster starts a cluster of n members with empty data directories, with these
// arguments in addition to those of every test. It returns when all members serve. The
// processes end with the test.
func StartCluster(t testing.TB, n int, args ...string) []*Member {
	t.Helper()
	return startCluster(t, n, "http", nil, args)
}

// StartRoutedCluster does the same as [StartCluster], with members that reach each other
// through the addresses that route returns.
func StartRoutedCluster(t testing.TB, n int, route Route, args ...string) []*Member {
	t.Helper()
	return startCluster(t, n, "http", route, args)
}

// StartMembers starts the members of a cluster with exactly these arguments, and returns when all
// of them serve. The processes end with the test.
func StartMembers(t testing.TB, args ...[]string) (members []*Member) {
	t.Helper()
	for i, a := range args {
		m := &Member{name: fmt.Sprintf("member-%d", i), args: a}
		members = append(members, m)
		m.launchUntilEnd(t)
	}
	for _, m := range members {
		m.Await(t)
	}
	return members
}

// launchUntilEnd starts the member without waiting, and kills it at the end of the test.
func (m *Member) launchUntilEnd(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		m.Kill(t)
		if t.Failed() {
			t.Logf("log of etcd %s:\n%s", m.name, m.log.Bytes())
		}
	})
	m.Launch(t)
}

// startCluster starts a cluster. Without a route its members reach each other directly.
func startCluster(t testing.TB, n int, scheme string, route Route, args []string) []*Member {
	t.Helper()
	var members []*Member
	var peers, listen []string
	for i := range n {
		listen = append(listen, loopback.FreeAddress(t))
		m := &Member{
			Address: loopback.FreeAddress(t),
			name:    fmt.Sprintf("member-%d", i),
			peer:    "http://" + listen[i],
			dir:     filepath.Join(t.TempDir(), "etcd"),
		}
		if route != nil {
			m.peer = "http://" + advertisedPeer(i)
		}
		members = append(members, m)
		peers = append(peers, m.name+"="+m.peer)
	}
	for i, m := range members {
		if route != nil {
			routes := map[string]string{}
			for to := range n {
				if to != i {
					routes[advertisedPeer(to)] = route(i, to, listen[to])
				}
			}
			m.env = []string{"HTTP_PROXY=" + startPeerProxy(t, routes), "NO_PROXY=", "http_proxy=", "no_proxy="}
		}
		url := scheme + "://" + m.Address
		m.args = append([]string{
			"--listen-client-urls", url, "--advertise-client-urls", url,
			"--listen-peer-urls", "http://" + listen[i],
			"--unsafe-no-fsync", "--log-level", "warn",
		}, args...)
		m.alone = n == 1
		m.args = append(m.args, m.identity(strings.Join(peers, ","))...)
		m.launchUntilEnd(t)
	}
	for _, m := range members {
		m.Await(t)
	}
	return members
}

// identity returns the arguments that determine the ids of the member and of the cluster.
func (m *Member) identity(cluster string) []string {
	return []string{"--name", m.name, "--data-dir", m.dir, "--initial-advertise-peer-urls", m.peer, "--initial-cluster", cluster}
}

// Start starts a stopped member, and returns when it serves.
func (m *Member) Start(t testing.TB) {
	t.Helper()
	m.Launch(t)
	m.Await(t)
}

// Launch starts a stopped member without waiting. It serves once a majority runs.
func (m *Member) Launch(t testing.TB) {
	t.Helper()
	ready := newReadiness(t)
	args := m.args
	if _, err := os.Stat(m.dir); m.alone && errors.Is(err, fs.ErrNotExist) {
		// A single member waits for an election timeout before it elects itself. With an old log,
		// etcd panics if a short timeout ends while it applies the log.
		args = slices.Concat(args, []string{"--heartbeat-interval", "10", "--election-timeout", "50"})
	}
	m.cmd = exec.Command(etcd.Path(t), args...)
	m.cmd.Env = append(append(os.Environ(), ready.variable()), m.env...)
	m.cmd.Stdout, m.cmd.Stderr = &m.log, &m.log
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, exited := m.cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
		ready.Close()
	}()
	m.exited, m.ready = exited, ready
}

// Await waits until the member serves.
func (m *Member) Await(t testing.TB) {
	t.Helper()
	if err := m.ready.wait(); err != nil {
		t.Fatalf("etcd %s is not ready: %v", m.name, err)
	}
}

// Kill kills the member with SIGKILL.
func (m *Member) Kill(t testing.TB) {
	t.Helper()
	m.end(t, syscall.SIGKILL)
}

// Stop stops the member gracefully.
func (m *Member) Stop(t testing.TB) {
	t.Helper()
	m.end(t, syscall.SIGTERM)
}

// Signal sends the member a signal that does not stop it.
func (m *Member) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := m.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("signal etcd %s: %v", m.name, err)
	}
}

// end sends the signal and waits for the process to exit. If it has already exited, end has
// no effect.
func (m *Member) end(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if m.exited == nil {
		return // never started
	}
	select {
	case <-m.exited:
		return
	default:
	}
	if err := m.cmd.Process.Signal(signal); err != nil {
		t.Logf("end etcd %s: %v", m.name, err) // it has exited meanwhile
	}
	<-m.exited
}
