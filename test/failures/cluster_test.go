package failures

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// startServers starts three servers that run etcd together, with these arguments. It returns them with the
// addresses of their etcds.
func startServers(t *testing.T, args ...string) (servers []*instance, etcds []string) {
	t.Helper()
	clientPort := strconv.Itoa(10_000 + rand.IntN(10_000))
	var members strings.Builder
	for i := range 3 {
		address := loopback.FreeAddress(t)
		fmt.Fprintf(&members, "    node-%d: %s\n", i+1, address)
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		etcds = append(etcds, net.JoinHostPort(host, clientPort))
	}
	for i := range 3 {
		path := filepath.Join(t.TempDir(), "fanoutd.yaml")
		text := fmt.Sprintf("cluster:\n  name: node-%d\n  client-port: %s\n  members:\n%sresources:\n  - name: %s\n    codec: raw\n",
			i+1, clientPort, members.String(), resource)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, newInstance(t, path, append([]string{"--data-dir", filepath.Join(t.TempDir(), "data")}, args...)...))
	}
	launchAll(t, servers)
	return servers, etcds
}

// launchAll starts the servers of a cluster, and returns when all serve and vote. A server serves a moment before it votes,
// and until then, no other one may fail.
func launchAll(t *testing.T, servers []*instance) {
	t.Helper()
	for _, s := range servers {
		s.launch(t)
		s.endWith(t)
	}
	for _, s := range servers {
		s.serves(t)
	}
	poll.Until(t, "all members vote", func() bool { return servers[0].votes(t) == len(servers) })
}

// TestKilledServersOfACluster kills each of three servers in turn, then all at once. What was acknowledged is
// there afterwards, on each of them.
func TestKilledServersOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	servers, _ := startServers(t)
	var acknowledged []string
	write := func(through *instance) {
		key := fmt.Sprintf("key/%d", len(acknowledged))
		poll.Until(t, "a write is acknowledged", func() bool { return through.put(t, key, key) == nil })
		acknowledged = append(acknowledged, key)
	}
	check := func(s *instance) {
		t.Helper()
		resp, err := s.reads.List(contextFor(t), &fanoutv1.ListRequest{Resource: resource})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, o := range resp.GetObjects() {
			found = append(found, o.GetKey())
		}
		if !slices.Equal(found, acknowledged) {
			t.Errorf("got %v, want %v", found, acknowledged)
		}
	}
	for i, killed := range servers {
		other := servers[(i+1)%len(servers)]
		write(killed)
		killed.end(t, syscall.SIGKILL)
		write(other)
		check(other)
		killed.start(t)
		check(killed)
	}
	for _, s := range servers {
		s.end(t, syscall.SIGKILL)
	}
	for _, s := range servers {
		s.launch(t)
	}
	for _, s := range servers {
		s.serves(t)
		check(s)
	}
}

// TestAServerRemovedFromItsCluster removes the leader, with a request to that server itself. Another one
// leads, the removed one ends and says why, and its directory does not start again.
func TestAServerRemovedFromItsCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	servers, _ := startServers(t)
	state := func(s *instance) *fanoutv1.GetClusterResponse {
		c, err := fanoutv1.NewClusterServiceClient(s.conn).GetCluster(contextFor(t), &fanoutv1.GetClusterRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	poll.Until(t, "all members vote", func() bool { return state(servers[0]).GetSafe() })
	leader := state(servers[0]).GetLeader()
	var removed *instance
	var others []*instance
	for _, s := range servers {
		if state(s).GetAnsweredBy() == leader {
			removed = s
		} else {
			others = append(others, s)
		}
	}
	resp, err := fanoutv1.NewClusterServiceClient(removed.conn).RemoveMember(contextFor(t), &fanoutv1.RemoveMemberRequest{Member: leader})
	if err != nil || len(resp.GetCluster().GetMembers()) != 2 {
		t.Fatalf("got %v, %v", resp, err)
	}
	<-removed.exited
	const want = "if this server was removed from the cluster, empty its data directory"
	if !strings.Contains(removed.log.String(), want) {
		t.Errorf("the log does not contain %q", want)
	}
	removed.launch(t)
	<-removed.exited
	for _, s := range others {
		poll.Until(t, "a write is acknowledged", func() bool { return s.put(t, "key", "value") == nil })
		if c := state(s); c.GetSafe() || len(c.GetMembers()) != 2 {
			t.Errorf("got %v", c)
		}
	}
}
