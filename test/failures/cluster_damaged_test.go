package failures

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestDamagedServerOfACluster damages the log of one of three servers. That server stops, and says which commands
// help; the others go on. After these commands it is back, with all the data.
func TestDamagedServerOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	servers, _ := startServers(t)
	broken, other := servers[2], servers[0]
	poll.Until(t, "all members vote", func() bool { return other.safe(t) })
	for i := range 40 {
		if err := other.put(t, fmt.Sprintf("before/%d", i), strings.Repeat("x", 20_000)); err != nil {
			t.Fatal(err)
		}
	}
	poll.Until(t, "the server has the last object", func() bool { return broken.has(t, "before/39") })
	broken.end(t, syscall.SIGTERM)
	etcd := filepath.Join(broken.dataDir(), "etcd")
	files, err := filepath.Glob(filepath.Join(etcd, "member/wal/*.wal"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v", files, err)
	}
	overwriteFrom(t, files[0], 200_000, 4096)
	broken.launch(t)
	<-broken.exited
	for _, want := range []string{"is damaged", "run fanoutctl cluster replace node-3", "mv " + etcd + " " + etcd + ".old"} {
		if !strings.Contains(broken.log.String(), want) {
			t.Errorf("the server does not say %q", want)
		}
	}
	if err := other.put(t, "meanwhile", "1"); err != nil {
		t.Errorf("a write at another server: %v", err)
	}
	broken.isReplaced(t, "node-3", other)
	for _, key := range []string{"before/0", "before/39", "meanwhile"} {
		if !broken.has(t, key) {
			t.Errorf("the server has no %s", key)
		}
	}
}

// isReplaced replaces the member of a server that has ended, as the server says, and starts the server. It returns
// when all members vote.
func (s *instance) isReplaced(t *testing.T, name string, via *instance) {
	t.Helper()
	replace := &fanoutv1.RemoveMemberRequest{Member: name, OnlyIfDead: true}
	poll.Until(t, "the member is removed", func() bool {
		_, err := fanoutv1.NewClusterServiceClient(via.conn).RemoveMember(contextFor(t), replace)
		return err == nil
	})
	etcd := filepath.Join(s.dataDir(), "etcd")
	if err := os.Rename(etcd, etcd+".old"); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	poll.Until(t, "all members vote", func() bool { return via.safe(t) })
}

// has reports whether a server has an object.
func (s *instance) has(t *testing.T, key string) bool {
	t.Helper()
	_, err := s.reads.Get(contextFor(t), &fanoutv1.GetRequest{Resource: resource, Key: key})
	return err == nil
}

// cluster returns what a server says of its cluster, or nil.
func (s *instance) cluster(t *testing.T) *fanoutv1.GetClusterResponse {
	t.Helper()
	c, err := fanoutv1.NewClusterServiceClient(s.conn).GetCluster(contextFor(t), &fanoutv1.GetClusterRequest{})
	if err != nil {
		return nil
	}
	return c
}

// safe reports whether any server of a cluster may fail.
func (s *instance) safe(t *testing.T) bool {
	t.Helper()
	return s.cluster(t).GetSafe()
}

// votes returns how many members of a cluster vote.
func (s *instance) votes(t *testing.T) (n int) {
	t.Helper()
	for _, m := range s.cluster(t).GetMembers() {
		if m.GetRole() != fanoutv1.ClusterMember_ROLE_LEARNER {
			n++
		}
	}
	return n
}
