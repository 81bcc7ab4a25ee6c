package failures

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
)

// TestEmbeddedEtcdFails takes away the folder of the raft snapshots, which etcd cannot go on
// without. fanoutd logs the reason and exits with status 1. Before, it ends its watches with their
// last positions, so that clients go to another server.
func TestEmbeddedEtcdFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	f := startFanoutd(t, "--data-dir", dir)
	s := newSubscribers("subscriber")
	s.subscribe(t, f.reads)
	s.until(t, object.Synced)
	snapshots := filepath.Join(dir, "etcd/member/snap")
	if err := os.Rename(snapshots, snapshots+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc", snapshots); err != nil { // no file can be created there
		t.Fatal(err)
	}
	ended := make(chan error, len(s))
	for _, s := range s {
		go func() {
			for {
				if _, err := s.receive(t); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	// etcd makes a snapshot when its log has become large.
	value := strings.Repeat("x", 1<<20)
	var err error
	for i := 0; err == nil; i++ {
		err = f.put(t, strconv.Itoa(i%10), value)
	}
	for range s {
		if err := <-ended; status.Code(err) != codes.Unavailable || reasonOf(err) != "DRAINING" {
			t.Errorf("a watch ended with %v", err)
		}
	}
	for _, s := range s {
		messages := s.now().Messages
		if last := messages[len(messages)-1]; last.Kind != object.Draining || last.Position.Revision == 0 {
			t.Errorf("%s: got %+v as the last message", s.history.Watcher, last)
		}
	}
	<-f.exited
	if code := f.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	if !strings.Contains(f.log.String(), "failed to save snapshot: open "+snapshots) {
		t.Error("the log does not say why")
	}
}
