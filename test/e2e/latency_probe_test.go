package e2e

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fanoutd/fanoutd/test/check"
)

// latencyProbe measures how slow the machine is: it calls methods of the server and of
// etcd that need no work. The allowed durations of the test grow with its result.
type latencyProbe struct {
	server *server
	etcd   *clientv3.Client
	calls  []check.Span
}

// run makes calls until the context until ends.
func (s *latencyProbe) run(ctx, until context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-until.Done():
			return nil
		case <-ticker.C:
		}
		s.time(func() error {
			_, err := healthv1.NewHealthClient(s.server.conn).Check(ctx, &healthv1.HealthCheckRequest{})
			return err
		})
		s.time(func() error {
			_, err := s.etcd.Get(ctx, "x", clientv3.WithCountOnly())
			return err
		})
	}
}

func (s *latencyProbe) time(call func() error) {
	from := time.Now()
	if call() == nil {
		s.calls = append(s.calls, check.Span{From: from, To: time.Now()})
	}
}

// slowest returns the longest duration of a call outside of outages.
func (s *latencyProbe) slowest(outages []check.Span) time.Duration {
	longest := time.Duration(0)
	for _, c := range s.calls {
		if !disturbed(c.From, c.To, outages) {
			longest = max(longest, c.To.Sub(c.From))
		}
	}
	return longest
}

// slowestWithin returns the longest duration of a call that was under way between from and to.
func (s *latencyProbe) slowestWithin(from, to time.Time) time.Duration {
	longest := time.Duration(0)
	for _, c := range s.calls {
		if c.From.Before(to) && c.To.After(from) {
			longest = max(longest, c.To.Sub(c.From))
		}
	}
	return longest
}
