package e2e

import (
	"bytes"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestRevisionTooLargeForOneMessage deletes a large prefix, which is one revision. The
// watcher receives it in parts that are marked as partial, and applies them together.
func TestRevisionTooLargeForOneMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	etcdAddress := loopback.FreeAddress(t)
	s := startServer(t, embedded(t, etcdAddress)...)
	etcd := dialEtcd(t, etcdAddress)
	var last int64
	for i := range 12 {
		last = put(t, s.conn, fmt.Sprintf("large/%02d", i), bytes.Repeat([]byte{byte(i)}, 900<<10))
	}
	live := newRecorder(t, s.conn, wholeResource())
	live.open(t, check.FromNothing)
	live.reach(t, last)
	resumed := newRecorder(t, s.conn, wholeResource())
	resumed.open(t, check.FromNothing)
	resumed.reach(t, last)
	resumed.leave()

	deletion, err := etcd.Delete(t.Context(), etcdPrefix+"large/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	live.reach(t, deletion.Header.GetRevision())
	resumed.open(t, check.After)
	resumed.until(t, object.Synced)

	truth := readTruth(t, etcd)
	for name, r := range map[string]*recorder{"live": live, "resumed": resumed} {
		r.validate(t, truth)
		parts := 0
		for _, m := range r.history.Streams[len(r.history.Streams)-1].Messages {
			if m.Partial {
				parts++
			}
		}
		if parts == 0 {
			t.Errorf("%s: got 10 MiB of one revision in one message, want parts", name)
		}
	}
}
