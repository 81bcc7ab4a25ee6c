package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"golang.org/x/time/rate"
)

// stranger is a program that has keys of its own in the same etcd. Its writes
// move etcd's revision, and with it the positions of fanoutd, without a change of
// the resource.
type stranger struct {
	base    time.Time
	rng     *rand.Rand
	client  *clientv3.Client
	ids     identity.Provider
	pace    *rate.Limiter
	history *model.AppendableHistory
}

// arrive reads before anybody has written. The validator wants to see that etcd
// was empty.
func (s *stranger) arrive(ctx context.Context) error {
	start := time.Since(s.base)
	resp, err := s.client.Get(ctx, strangers)
	s.history.AppendRange(strangers, "", 0, 0, false, start, time.Since(s.base), resp, err)
	if err == nil && resp.Header.GetRevision() != 1 {
		err = fmt.Errorf("etcd begins at revision %d", resp.Header.GetRevision())
	}
	return err
}

// run writes until enough is done.
func (s *stranger) run(ctx, enough context.Context) error {
	for s.pace.Wait(enough) == nil {
		key, value := fmt.Sprintf("%s%d", strangers, s.rng.IntN(2)), fmt.Sprint(s.ids.NewRequestID())
		call, cancel := context.WithTimeout(ctx, callTimeout)
		start := time.Since(s.base)
		resp, err := s.client.Put(call, key, value)
		cancel()
		s.history.AppendPut(key, value, start, time.Since(s.base), resp, err)
	}
	return nil
}
