package cluster_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/poll"
)

// leaderOf returns the name of the leader as a server shows it.
func leaderOf(t *testing.T, m *machine) string {
	t.Helper()
	var leader string
	poll.Until(t, "there is a leader", func() bool {
		leader = m.state(t).GetLeader()
		return leader != ""
	})
	return leader
}

// A server that stops hands the leadership over before it waits for its watches.
func TestStopHandsTheLeadershipOver(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs := machines(t, "node-1", "node-2", "node-3")
	for name, cfg := range configs {
		cfg.DrainDelay = config.Duration(10 * time.Second)
		configs[name] = cfg
	}
	running := launchAll(t, configs, "node-1", "node-2", "node-3")
	for _, m := range running {
		m.says(t, "this server votes")
	}
	running["node-1"].becomesSafe(t)
	names := slices.Sorted(maps.Keys(running))
	leader := leaderOf(t, running["node-1"])
	other := running[names[(slices.Index(names, leader)+1)%len(names)]]
	stream, err := fanoutv1.NewFanoutServiceClient(running[leader].conn).Watch(poll.Context(t), &fanoutv1.WatchRequest{Resource: "config"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	running[leader].cancel()
	poll.Until(t, "another server leads", func() bool { return leaderOf(t, other) != leader })
	select {
	case err := <-running[leader].done:
		t.Errorf("the server has stopped although it has a watch: %v", err)
	default:
	}
	other.put(t, "app/limits", "1")
	stopAll(t, running)
}

// While etcd has the alarm that members have different data, no server answers linearizable reads or accepts
// writes. Reads of any revision go on.
func TestCorruptAlarmEndsLinearizableAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	running["node-1"].put(t, "app/limits", "1")
	for name, m := range running {
		if got := m.get(t, "app/limits"); got != "1" {
			t.Errorf("%s has %q", name, got)
		}
	}
	client := etcdClientOf(t, configs["node-1"])
	members, err := client.MemberList(poll.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	alarm := &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: members.Members[0].ID, Alarm: etcdserverpb.AlarmType_CORRUPT}
	if _, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(poll.Context(t), alarm); err != nil {
		t.Fatal(err)
	}
	for name, m := range running {
		reads, writes := fanoutv1.NewFanoutServiceClient(m.conn), fanoutv1.NewStoreServiceClient(m.conn)
		_, err := reads.Get(poll.Context(t), &fanoutv1.GetRequest{Resource: "config", Key: "app/limits"})
		if s := status.Convert(err); s.Code() != codes.Unavailable || reasonOf(s) != "STORE_UNAVAILABLE" {
			t.Errorf("%s: a linearizable read: got %v", name, err)
		}
		_, err = writes.Put(poll.Context(t), putRequest("app/limits", "2"))
		if s := status.Convert(err); s.Code() != codes.Unavailable {
			t.Errorf("%s: a write: got %v", name, err)
		}
		whatever := &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}
		resp, err := reads.Get(poll.Context(t), &fanoutv1.GetRequest{Resource: "config", Key: "app/limits", Consistency: whatever})
		if err != nil || resp.GetObject().GetText() != "1" {
			t.Errorf("%s: any read: got %v, %v", name, resp, err)
		}
	}
	if _, err := client.AlarmDisarm(poll.Context(t), &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: etcdserverpb.AlarmType_CORRUPT}); err != nil {
		t.Fatal(err)
	}
	running["node-2"].put(t, "app/limits", "3")
	stopAll(t, running)
}
