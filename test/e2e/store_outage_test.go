package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/poll"
)

// observed is how long the test watches for wrong messages after every server has
// noticed the outage: three of the longest intervals that a watcher asks for.
const observed = 3 * time.Second

// storeOutage is an outage of the store for all servers, and how to end it.
type storeOutage struct {
	name       string
	away, back func()
}

// storeOutages are the kinds of outage of the store for all servers.
func (w *scenario) storeOutages(t *testing.T, etcd *cluster) []storeOutage {
	t.Helper()
	var ended []*etcdproc.Member
	return []storeOutage{
		{
			"most of etcd is killed",
			func() { ended = etcd.majority(t); kill(t, ended) },
			func() { launch(t, ended) },
		},
		{
			"all of etcd is killed",
			func() { kill(t, etcd.members) },
			func() { launch(t, etcd.members) },
		},
		{
			"etcd does not answer",
			func() { etcd.near.freeze(); etcd.far.freeze() },
			func() { etcd.near.heal(); etcd.far.heal() },
		},
	}
}

// longOutage is an outage of the store that lasts until every server has reported it, and
// then a while longer. In that time a watcher must not receive a bookmark.
func (w *scenario) longOutage(t *testing.T, s storeOutage) fault {
	t.Helper()
	return fault{s.name + " for long", func() {
		w.disturb(t, func() {
			s.away()
			for _, server := range append(w.others, w.server) {
				if err := w.noticed(server); err != nil {
					t.Errorf("%s: %v", s.name, err)
					break // validate reports more
				}
			}
			from := time.Now()
			select {
			// the duration of the outage
			case <-time.After(observed):
			case <-w.ctx.Done():
			}
			w.mu.Lock()
			w.longOutages = append(w.longOutages, check.Span{From: from, To: time.Now()})
			w.mu.Unlock()
			s.back()
		})
	}}
}

// noticed waits until a server reports that it has lost the store.
func (w *scenario) noticed(s *server) error {
	ctx, cancel := context.WithTimeout(w.ctx, poll.Patience)
	defer cancel()
	health, err := healthv1.NewHealthClient(s.conn).Watch(ctx, &healthv1.HealthCheckRequest{Service: "resource/" + resource})
	if err == nil {
		err = awaitStatus(health, healthv1.HealthCheckResponse_NOT_SERVING)
	}
	if err != nil {
		return fmt.Errorf("the health of the resource does not report the outage: %w", err)
	}
	return nil
}
