package robustness

import (
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/subscription"
)

// carrier is the method that carries the watches of a recording. Empty: half of the watchers use
// each.
type carrier string

const (
	byWatch     carrier = "watch"
	bySubscribe carrier = "subscribe"
)

func (c carrier) isValid() bool { return c == "" || c == byWatch || c == bySubscribe }

// isSubscribe reports whether the watcher with a number uses Subscribe.
func (c carrier) isSubscribe(watcher int) bool {
	return c == bySubscribe || c == "" && watcher%2 == 1
}

// clients returns clients of all servers. The watches of the others share a Subscribe stream for each
// server.
func (c *cluster) clients(t *testing.T) (overWatch, overSubscribe []fanoutv1.FanoutServiceClient) {
	t.Helper()
	for _, r := range c.replicas {
		s := subscription.NewClient(r.fanout)
		t.Cleanup(s.Close)
		overWatch, overSubscribe = append(overWatch, r.fanout), append(overSubscribe, s)
	}
	return overWatch, overSubscribe
}
