package registry

import (
	"testing"

	"github.com/fanoutd/fanoutd/internal/server/frames"
)

// The watches of HTTP requests share one in-process connection, but they are spread over the
// workers. The watches of any other connection share a queue.
func TestWatchesOverHTTPAreSpreadOverWorkers(t *testing.T) {
	queues := newQueues()
	defer queues.workers.Stop()
	workers := queues.workers.Len()
	count := func(conn *frames.Conn) map[int]int {
		n := map[int]int{}
		for range 10 * workers {
			n[queues.Of(conn).Worker()]++
		}
		return n
	}
	local := count(nil)
	for worker := range workers {
		if local[worker] != 10 {
			t.Errorf("got %d watches over HTTP for worker %d, want 10", local[worker], worker)
		}
	}
	if remote := count(frames.NewConn(nil, nil)); len(remote) != 1 {
		t.Errorf("got the watches of one connection on %d workers, want one", len(remote))
	}
}
