package failures

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// cluster is an etcd of three members.
type cluster struct {
	members []*etcdproc.Member
	client  *etcd
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{members: etcdproc.StartCluster(t, 3)}
	c.client = dialEtcd(t, c.addresses()...)
	return c
}

func (c *cluster) addresses() []string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.Address)
	}
	return all
}

// leader returns the current leader.
func (c *cluster) leader(t *testing.T) *etcdproc.Member {
	t.Helper()
	return try(t, func(ctx context.Context) (*etcdproc.Member, error) {
		for _, m := range c.members {
			if s, err := c.client.Status(ctx, m.Address); err == nil && s.Leader == s.Header.GetMemberId() {
				return m, nil
			}
		}
		return nil, fmt.Errorf("etcd has no leader")
	})
}

// TestEtcdLeaderLostMemberRestarted kills etcd's leader and restarts it: watches only
// pause.
func TestEtcdLeaderLostMemberRestarted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	c := startCluster(t)
	f := startFanoutd(t, over(c.addresses()...)...)
	s := newSubscribers("subscriber")
	s.subscribe(t, f.reads)
	s.until(t, object.Synced)
	for i := range 2 {
		c.client.putMany(t, fmt.Sprintf("before-%d", i), 20)
		leader := c.leader(t)
		leader.Kill(t)
		s.reach(t, c.client.putMany(t, fmt.Sprintf("without-%d", i), 20))
		leader.Start(t)
		s.reach(t, c.client.putMany(t, fmt.Sprintf("after-%d", i), 20))
	}
	s.caughtUp(t, object.Reset)
	s.validate(t, c.client.truth(t))
}

// TestEtcdLeaderLostWithoutMajority kills the majority of etcd: bookmarks stop, the health of
// the resource turns NOT_SERVING after a grace time, "any" reads continue, and requests that
// need etcd fail with a clear status. When the majority is back, watches continue.
func TestEtcdLeaderLostWithoutMajority(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	c := startCluster(t)
	f := startFanoutd(t, over(c.addresses()...)...)
	c.client.put(t, "k", "before")
	s := newSubscribers("subscriber")
	s.subscribe(t, f.reads)
	s.until(t, object.Synced)

	other := c.members[0]
	leader := c.leader(t)
	if leader == other {
		other = c.members[1]
	}
	leader.Kill(t)
	other.Kill(t)

	get := func(consistency *fanoutv1.ReadConsistency) (*fanoutv1.GetResponse, error) {
		return f.reads.Get(contextFor(t), &fanoutv1.GetRequest{Resource: resource, Key: "k", Consistency: consistency})
	}
	whatever := &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}
	if _, err := get(nil); status.Code(err) != codes.Unavailable || reasonOf(err) != "STORE_UNAVAILABLE" {
		t.Errorf("a linearizable read: got %v", err)
	}
	_, err := f.writes.Put(contextFor(t), &fanoutv1.PutRequest{Resource: resource, Put: &fanoutv1.PutOperation{
		Key: "k", Value: &fanoutv1.PutOperation_Text{Text: "meanwhile"},
	}})
	if status.Code(err) != codes.Unavailable || reasonOf(err) != "STORE_UNAVAILABLE" {
		t.Errorf("a write: got %v", err)
	}
	f.await(t, "resource/"+resource, healthv1.HealthCheckResponse_NOT_SERVING)
	if got, err := get(whatever); err != nil || string(got.GetObject().GetData()) != "before" {
		t.Errorf("any read: got %v, %v", got, err)
	}
	f.await(t, "", healthv1.HealthCheckResponse_SERVING)

	leader.Launch(t)
	other.Launch(t)
	leader.Await(t)
	other.Await(t)
	f.await(t, "resource/"+resource, healthv1.HealthCheckResponse_SERVING)
	s.reach(t, c.client.put(t, "k", "after"))
	s.caughtUp(t, object.Reset)
	s.validate(t, c.client.truth(t))
}
