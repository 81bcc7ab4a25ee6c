package e2e

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fanoutd/fanoutd/test/check"
)

// How long something may take is a matter of the machine, too. So while everybody
// else does what is judged, one does nothing but ask the server and etcd something that
// they answer without a look at anything. What that takes, anything may take longer.
type stopwatch struct {
	server *server
	etcd   *clientv3.Client
	calls  []check.Span
}

// run asks until it has been long enough.
func (s *stopwatch) run(ctx, until context.Context) error {
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

func (s *stopwatch) time(call func() error) {
	from := time.Now()
	if call() == nil {
		s.calls = append(s.calls, check.Span{From: from, To: time.Now()})
	}
}

// slowest returns the longest that an answer took while nothing was wrong.
func (s *stopwatch) slowest(outages []check.Span) time.Duration {
	longest := time.Duration(0)
	for _, c := range s.calls {
		if !disturbed(c.From, c.To, outages) {
			longest = max(longest, c.To.Sub(c.From))
		}
	}
	return longest
}
