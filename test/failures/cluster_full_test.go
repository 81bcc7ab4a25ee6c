package failures

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	ctl "github.com/fanoutd/fanoutd/internal/ctl/cluster"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestQuotaOfACluster fills the databases of three servers. All refuse writes, and serve reads, deletions and watches.
// They accept writes again once the space of all of them has been reclaimed, and not before: a server without room
// would raise the alarm again.
func TestQuotaOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	servers, etcds := startServers(t, "--embedded-etcd-quota", "16MiB")
	subscribed := newSubscribers("subscriber")
	subscribed.subscribe(t, servers[2].reads)
	subscribed.until(t, object.Synced)

	large := strings.Repeat("x", 1_000_000)
	written := 0
	for ; ; written++ {
		if err := servers[written%3].put(t, fmt.Sprint("large/", written), large); err != nil {
			if reasonOf(err) != "STORE_FULL" {
				t.Fatalf("a write to full databases: %v", err)
			}
			break
		}
	}
	refuse := func(when string) {
		t.Helper()
		for i, s := range servers {
			if err := s.put(t, "small", "1"); reasonOf(err) != "STORE_FULL" {
				t.Errorf("a write at server %d %s: %v", i, when, err)
			}
		}
	}
	refuse("when they are full")
	var last object.Revision
	for i := range written {
		at := servers[i%3]
		resp, err := at.writes.Delete(contextFor(t), &fanoutv1.DeleteRequest{Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: fmt.Sprint("large/", i)}})
		if err != nil {
			t.Fatalf("a deletion: %v", err)
		}
		last = object.Revision(resp.GetRevision())
	}
	for i, s := range servers {
		if s.has(t, "large/0") {
			t.Errorf("server %d has a deleted object", i)
		}
	}
	subscribed.reach(t, last)

	// The follower compacts its own history before it defragments.
	follower := servers[(leadingServer(t, etcds)+1)%len(servers)]
	reclaimed, err := fanoutv1.NewAdminServiceClient(follower.conn).ReclaimSpace(contextFor(t), &fanoutv1.ReclaimSpaceRequest{})
	if err != nil || reclaimed.GetAcceptsWritesAgain() || reclaimed.GetBytes() > reclaimed.GetBytesBefore()/4 {
		t.Errorf("got %v, %v, want others to be full", reclaimed, err)
	}
	refuse("when one of them has room")
	c, err := client.New(servers[0].address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Another server may not have compacted its history yet, and a busy one may not answer in time.
	poll.Until(t, "the cluster accepts writes", func() bool {
		err := ctl.New(c).Defragment(contextFor(t), ctl.CatchUpLimit, ctl.Steps{Done: func(ctl.Defragmented) {}, Skipped: func(string, string) {}, Waiting: func(string) {}})
		if err != nil && !errors.Is(err, client.ErrClusterUnsafe) {
			t.Fatal(err)
		}
		return servers[0].put(t, "small", "1") == nil
	})
	for i, s := range servers {
		if err := s.put(t, fmt.Sprint("small/", i), "1"); err != nil {
			t.Errorf("a write at server %d when there is space again: %v", i, err)
		}
	}
	resp, err := servers[0].writes.Put(contextFor(t), &fanoutv1.PutRequest{Resource: resource, Put: &fanoutv1.PutOperation{
		Key: "last", Value: &fanoutv1.PutOperation_Text{Text: "1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	subscribed.reach(t, object.Revision(resp.GetRevision()))
	subscribed.caughtUp(t, object.Reset)
}
