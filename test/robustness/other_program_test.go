package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"golang.org/x/time/rate"
)

// otherProgram is another program with its own keys in the same etcd. Its writes move etcd's
// revision, and with it fanoutd's positions, without a change of the resource.
type otherProgram struct {
	base    time.Time
	rng     *rand.Rand
	client  *clientv3.Client
	ids     identity.Provider
	pace    *rate.Limiter
	history *model.AppendableHistory
}

// readEmpty reads before the first write. The validator requires a proof that etcd was
// empty.
func (s *otherProgram) readEmpty(ctx context.Context) error {
	start := time.Since(s.base)
	resp, err := s.client.Get(ctx, otherPrefix)
	s.history.AppendRange(otherPrefix, "", 0, 0, false, start, time.Since(s.base), resp, err)
	if err == nil && resp.Header.GetRevision() != 1 {
		err = fmt.Errorf("got revision %d from a new etcd, want 1", resp.Header.GetRevision())
	}
	return err
}

// assumeEmpty is readEmpty for an etcd that runs in servers: nobody can read it before they write.
func (s *otherProgram) assumeEmpty() {
	start := time.Since(s.base)
	empty := &clientv3.GetResponse{Header: &pb.ResponseHeader{Revision: 1}}
	s.history.AppendRange(otherPrefix, "", 0, 0, false, start, time.Since(s.base), empty, nil)
}

// run writes until enough is done.
func (s *otherProgram) run(ctx, enough context.Context) error {
	for s.pace.Wait(enough) == nil {
		key, value := fmt.Sprintf("%s%d", otherPrefix, s.rng.IntN(2)), fmt.Sprint(s.ids.NewRequestID())
		// A call that is given up may still have an effect.
		call, cancel := context.WithTimeout(ctx, callTimeout)
		start := time.Since(s.base)
		resp, err := s.client.Put(call, key, value)
		cancel()
		s.history.AppendPut(key, value, start, time.Since(s.base), resp, err)
	}
	return nil
}
