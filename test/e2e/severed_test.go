package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// observed is for how long nobody may speak while the store is away, after every
// server has noticed: three of the longest intervals that anybody asked for.
const observed = 3 * time.Second

// severed is something that keeps all servers away from the store, and the way back.
type severed struct {
	name       string
	away, back func()
}

// severings are the ways for the store to be away from every server for long.
func (w *world) severings(t *testing.T, etcd *cluster) []severed {
	t.Helper()
	var ended []*etcdproc.Member
	return []severed{
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
			"etcd does not answer anybody",
			func() { etcd.near.freeze(); etcd.far.freeze() },
			func() { etcd.near.heal(); etcd.far.heal() },
		},
	}
}

// forLong is the fault that the store is away until every server has noticed and said
// so, and then a while longer, in which nobody may claim that nothing happens.
func (w *world) forLong(t *testing.T, s severed) fault {
	t.Helper()
	return fault{s.name + " for long", func() {
		w.disturb(t, func() {
			s.away()
			for _, server := range append(w.others, w.server) {
				if err := w.noticed(server); err != nil {
					t.Errorf("%s: %v", s.name, err)
					break // the judge will have more to say
				}
			}
			from := time.Now()
			select {
			case <-time.After(observed):
			case <-w.ctx.Done():
			}
			w.mu.Lock()
			w.severed = append(w.severed, check.Span{From: from, To: time.Now()})
			w.mu.Unlock()
			s.back()
		})
	}}
}

// noticed waits until a server says that it does not hear of the store.
func (w *world) noticed(s *server) error {
	ctx, cancel := context.WithTimeout(w.ctx, startTimeout)
	defer cancel()
	health, err := healthv1.NewHealthClient(s.conn).Watch(ctx, &healthv1.HealthCheckRequest{Service: "resource/" + resource})
	if err == nil {
		err = awaitStatus(health, healthv1.HealthCheckResponse_NOT_SERVING)
	}
	if err != nil {
		return fmt.Errorf("the health of the resource does not say that the store is away: %w", err)
	}
	return nil
}
