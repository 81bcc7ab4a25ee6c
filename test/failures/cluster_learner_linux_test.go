package failures

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/test/poll"
)

// TestLearnerIsKilled forms a cluster of five servers, of which two are killed while they join: one before its etcd has a
// log, and one that has the log of a learner. Both join after their next start, and any two of the five servers may fail then.
func TestLearnerIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	n := newNetwork(t, 5, "")
	for _, s := range n.servers {
		s.launch(t)
		s.endWith(t)
	}
	const joins, votes = "joining the cluster", "this server votes"
	killed := map[int]bool{}
	// next returns a server that joins now. etcd has one learner at a time.
	next := func() (server int) {
		t.Helper()
		poll.Until(t, "a server joins", func() bool {
			for i, s := range n.servers {
				if said := s.log.String(); !killed[i] && strings.Contains(said, joins) && !strings.Contains(said, votes) {
					server, killed[i] = i, true
					return true
				}
			}
			return false
		})
		return server
	}
	kill := func(server int) {
		t.Helper()
		s := n.servers[server]
		s.end(t, syscall.SIGKILL)
		if strings.Contains(s.log.String(), votes) {
			t.Log("the server votes already") // the machine is busy
		}
		s.launch(t)
	}
	kill(next())
	late := next()
	poll.Until(t, "the learner has a log", func() bool {
		files, err := filepath.Glob(filepath.Join(n.servers[late].dataDir(), "etcd/member/wal/*.wal"))
		return err == nil && len(files) > 0
	})
	kill(late)
	said := func(s *instance, text string) {
		t.Helper()
		poll.Until(t, "the log contains "+text, func() bool { return strings.Contains(s.log.String(), text) })
	}
	for _, s := range n.servers {
		said(s, votes)
		s.serves(t)
	}
	if err := n.servers[0].put(t, "before", "1"); err != nil {
		t.Fatal(err)
	}
	for _, s := range n.servers[:2] {
		s.end(t, syscall.SIGKILL)
	}
	for i, s := range n.servers[2:] {
		poll.Until(t, "a write is acknowledged", func() bool { return s.put(t, fmt.Sprint("after/", i), "1") == nil })
		if !s.has(t, "before") {
			t.Errorf("server %d has lost a write", i+2)
		}
	}
}
