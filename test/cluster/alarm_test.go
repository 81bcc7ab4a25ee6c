package cluster_test

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/poll"
)

// raise raises etcd's alarm that the data of members differs, as etcd does itself: of a member, or of none.
func raise(t *testing.T, cfg config.Config, member uint64) {
	t.Helper()
	_, err := pb.NewMaintenanceClient(etcdClientOf(t, cfg).ActiveConnection()).Alarm(poll.Context(t),
		&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_CORRUPT, MemberID: member})
	if err != nil {
		t.Fatal(err)
	}
}

// With an alarm that is not that of a member, etcd refuses writes. Each server says so, and one command ends it if the
// data of all members is the same.
func TestAlarmsOfNoMember(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	ctx := poll.Context(t)
	running["node-1"].becomesSafe(t)
	at := members(t, configs["node-2"])
	for _, member := range []uint64{0, 0x1f} { // unknown, and not in the list any more
		raise(t, configs["node-1"], member)
		for name, m := range running {
			poll.Until(t, name+" shows the alarm", func() bool {
				s := m.state(t)
				return !s.GetSafe() && strings.Contains(s.GetProblem(), "fanoutctl cluster disarm") && len(s.GetOtherAlarms()) == 1
			})
		}
		_, err := fanoutv1.NewStoreServiceClient(running["node-1"].conn).Put(ctx, putRequest("app/limits", "1"))
		if err == nil {
			t.Error("a write succeeded in spite of the alarm")
		}
		succeeds(t, "the alarm is cleared", func() error {
			cleared, state, err := at.Disarm(ctx)
			if err == nil && (cleared != 1 || len(state.OtherAlarms) > 0) {
				t.Errorf("got %d, %+v", cleared, state)
			}
			return err
		})
		running["node-1"].put(t, "app/limits", "1")
	}
	if cleared, _, err := at.Disarm(ctx); err != nil || cleared != 0 {
		t.Errorf("without an alarm: got %d, %v", cleared, err)
	}
	stopAll(t, running)
}

// A member whose data differs is replaced as any other, and its alarm ends with it.
func TestAlarmOfAReplacedMember(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	running["node-1"].becomesSafe(t)
	list, err := etcdClientOf(t, configs["node-1"]).MemberList(poll.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		if m.GetName() == "node-3" {
			raise(t, configs["node-1"], m.GetID())
		}
	}
	var s *fanoutv1.GetClusterResponse
	poll.Until(t, "the alarm is shown", func() bool { s = running["node-2"].state(t); return len(memberOf(t, s, "node-3").GetAlarms()) == 1 })
	if s.GetSafe() || len(s.GetOtherAlarms()) > 0 {
		t.Errorf("got %v", s)
	}
	running["node-3"].stop(t)
	delete(running, "node-3")
	succeeds(t, "node-3 is replaced", func() error {
		_, err := members(t, configs["node-1"]).Remove(poll.Context(t), "node-3", true)
		return err
	})
	running["node-1"].put(t, "app/limits", "1")
	stopAll(t, running)
}
