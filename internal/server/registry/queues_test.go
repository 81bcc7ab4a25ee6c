package registry

import (
	"context"
	"testing"

	"google.golang.org/grpc/peer"

	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// The watches of HTTP requests share one in-process connection, but they are spread over the
// workers. The watches of any other connection share a queue.
func TestWatchesOverHTTPAreSpreadOverWorkers(t *testing.T) {
	queues := newQueues()
	defer queues.workers.Stop()
	workers := queues.workers.Len()
	count := func(p *peer.Peer) map[int]int {
		ctx, n := peer.NewContext(context.Background(), p), map[int]int{}
		for range 10 * workers {
			q := queues.Acquire(ctx)
			defer queues.Release(q)
			n[q.Worker()]++
		}
		return n
	}
	local := count(&peer.Peer{AuthInfo: transport.LocalInfo{}})
	for worker := range workers {
		if local[worker] != 10 {
			t.Errorf("got %d watches over HTTP for worker %d, want 10", local[worker], worker)
		}
	}
	if remote := count(&peer.Peer{}); len(remote) != 1 {
		t.Errorf("got the watches of one connection on %d workers, want one", len(remote))
	}
	if n := queues.Len(); n != 0 {
		t.Errorf("got %d queues without watches, want none", n)
	}
}
