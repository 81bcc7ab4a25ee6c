package failures

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// buildCommit builds the program of a commit.
func buildCommit(t *testing.T, commit string) (path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "fanoutd")
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", `git -C ../.. archive "$1" | tar -x -C "$2"; cd "$2"; go build -buildvcs=false -o "$3" ./cmd/fanoutd`,
		"build", commit, dir, path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build fanoutd of %s: %v\n%s", commit, err, out)
	}
	return path
}

// TestUpgradeOfACluster starts three servers of another commit, and upgrades one after the other, under writes. No
// acknowledged write is lost, and watchers get each event once. It runs if FANOUTD_TEST_UPGRADE_FROM is that commit.
func TestUpgradeOfACluster(t *testing.T) {
	commit := os.Getenv("FANOUTD_TEST_UPGRADE_FROM")
	if commit == "" {
		t.Skip("needs the history of the repository: see make test-faults")
	}
	t.Parallel()
	old := buildCommit(t, commit)
	n := newNetwork(t, 3, "")
	var addresses []string
	for _, s := range n.servers {
		s.program = old
		addresses = append(addresses, s.address)
	}
	launchAll(t, n.servers)
	balancer := loopback.NewBalancer(t, addresses...)
	var fleet []*fleetWatcher
	for range 10 {
		fleet = append(fleet, newFleetWatcher(t, balancer.Address))
	}
	poll.Until(t, "a write is acknowledged", func() bool { return n.servers[0].put(t, "before", "1") == nil })
	for _, w := range fleet {
		poll.Until(t, "a watcher has begun", func() bool { return len(w.got()) > 0 })
	}
	w := startWriters(t, n.servers)
	w.goOn(t)
	for _, s := range n.servers {
		poll.Until(t, "any server may fail", func() bool { return s.safe(t) })
		s.end(t, syscall.SIGTERM)
		w.goOn(t)
		s.program = ""
		s.start(t)
		w.goOn(t)
	}
	w.end(t)

	want := dialEtcd(t, n.etcds...).revisions(t)
	for _, w := range fleet {
		poll.Until(t, "a watcher has all events", func() bool { return len(w.got()) >= len(want) })
		w.check(t, want)
	}
}
