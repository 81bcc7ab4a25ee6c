package failures

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestFullDiskOfOneServerOfACluster fills the disk of the leader. Another server leads then, and writes go on through all
// servers. The one with the full disk ends when it cannot store what the others write, and catches up once there is space.
func TestFullDiskOfOneServerOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	disk := smallDisk(t, 400)
	n := newNetwork(t, 3, "")
	full := n.servers[0]
	full.args[slices.Index(full.args, "--data-dir")+1] = filepath.Join(disk, "data")
	launchAll(t, n.servers)
	poll.Until(t, "all members vote", func() bool { return full.safe(t) })
	poll.Until(t, "the server with the small disk leads", func() bool {
		_, err := fanoutv1.NewClusterServiceClient(full.conn).MoveLeader(contextFor(t), &fanoutv1.MoveLeaderRequest{Member: "node-1"})
		return err == nil && leadingServer(t, n.etcds) == 0
	})

	remove := fill(t, disk, "all")
	poll.Until(t, "another server leads", func() bool { return leadingServer(t, n.etcds) != 0 })
	value := strings.Repeat("x", 500_000)
	ended := func() bool {
		select {
		case <-full.exited:
			return true
		default:
			return false
		}
	}
	writes := 0
	for ; writes < 400 && !ended(); writes++ {
		through := n.servers[1+writes%2]
		if writes < 3 {
			through = full // it still has room for a few
		}
		if err := through.put(t, fmt.Sprint("key/", writes%10), value); err != nil && (through == full || reasonOf(err) == "STORE_FULL") {
			t.Errorf("write %d: %v", writes, err)
		}
	}
	if !ended() {
		t.Fatalf("the server has stored %d writes of %d bytes on a full disk", writes, len(value))
	}
	t.Logf("the server with the full disk ended after %d writes", writes)
	for i, s := range n.servers[1:] {
		poll.Until(t, "a write is acknowledged", func() bool { return s.put(t, fmt.Sprint("other/", i), "1") == nil })
	}

	remove()
	full.start(t)
	for i := range n.servers[1:] {
		if key := fmt.Sprint("other/", i); !full.has(t, key) {
			t.Errorf("the server has no %s", key)
		}
	}
}
