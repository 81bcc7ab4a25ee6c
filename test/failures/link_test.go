package failures

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestOneEtcdLinkFrozen freezes the link to each of three members of etcd in turn: reads are
// answered by the other members, watches continue there, and a write that was sent over the
// frozen link fails in time.
func TestOneEtcdLinkFrozen(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	c := startCluster(t)
	var links []*loopback.Link
	var addresses []string
	for _, address := range c.addresses() {
		link := loopback.NewLink(t, address)
		links, addresses = append(links, link), append(addresses, link.Address)
	}
	f := startFanoutd(t, over(addresses...)...)
	c.client.put(t, "k", "before")
	s := newSubscribers("subscriber")
	s.subscribe(t, f.reads)
	s.until(t, object.Synced)

	// docs/tasks/operate.md: a linearizable read waits at most 3 s, and a write that was sent to
	// the member 5 s. A busy machine may need more, but a write that waits for its time limit
	// of 8 s has not noticed that the member is lost.
	const maxRead, maxWrite = 6 * time.Second, 7 * time.Second
	for i, link := range links {
		link.Freeze()
		frozen := time.Now()
		written := c.client.put(t, "k", fmt.Sprintf("without link %d", i))
		// This read needs the watch to have moved.
		for answered := false; !answered; {
			resp, err := f.reads.Get(contextFor(t), &fanoutv1.GetRequest{Resource: resource, Key: "k"})
			answered = err == nil
			switch {
			case answered && resp.GetObject().GetModRevision() < int64(written):
				t.Errorf("got revision %d, want %d: the read is stale", resp.GetObject().GetModRevision(), written)
			case !answered && status.Code(err) != codes.Unavailable:
				t.Fatalf("a read: %v", err)
			}
			if since := time.Since(frozen); since > maxRead {
				t.Fatalf("link %d has been frozen for %v, and reads fail: %v", i, since, err)
			}
		}
		s.reach(t, written)
		failed := 0
		for n := range 12 {
			begun := time.Now()
			ctx, cancel := context.WithCancel(contextFor(t))
			_, err := f.writes.Put(ctx, &fanoutv1.PutRequest{Resource: resource, Put: &fanoutv1.PutOperation{
				Key: "k", Value: &fanoutv1.PutOperation_Data{Data: fmt.Appendf(nil, "%d/%d", i, n)},
			}})
			cancel()
			if err != nil {
				failed++
			}
			if took := time.Since(begun); took > maxWrite || err != nil && status.Code(err) != codes.Unavailable {
				t.Errorf("a write took %v, and returned %v", took, err)
			}
		}
		if failed > 1 {
			t.Errorf("%d writes in a row failed without link %d, want at most one", failed, i)
		}
		link.Thaw()
	}
	s.reach(t, c.client.put(t, "k", "after"))
	s.caughtUp(t, object.Reset)
	s.validate(t, c.client.truth(t))
}
