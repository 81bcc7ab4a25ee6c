package embedded

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/cluster/manage"
	"github.com/fanoutd/fanoutd/internal/store/embedded/process"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// While a member of several is defragmented, etcd cannot replace its database by a snapshot of the leader, which
// needs the lock that Backend reads with. Its sizes can be read.
func TestADefragmentationKeepsSnapshotsAway(t *testing.T) {
	peer, client := loopback.FreeAddress(t), loopback.FreeAddress(t)
	m := startTestMember(t, &Peers{Name: "node-1", Peer: peer, ListenPeer: peer, Client: client, ListenClient: client, Majority: 1})
	id := uint64(m.etcd.Server.MemberID())
	other, err := m.others.connect(m.clientURLs(m.etcd.Server.MemberID())[0])
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	asked := func() (*pb.StatusResponse, error) {
		return pb.NewMaintenanceClient(other).Status(poll.Context(t), &pb.StatusRequest{}, grpc.WaitForReady(true))
	}
	if _, err := asked(); err != nil {
		t.Fatal(err)
	}
	reader := m.backend().ReadTx()
	reader.RLock() // the defragmentation waits for it
	defragmented := make(chan error, 1)
	go func() { defragmented <- m.rewriteDatabase() }()
	poll.Until(t, "the database is locked", func() bool {
		done := make(chan struct{})
		go func() {
			m.etcd.Server.Backend()
			close(done)
		}()
		select {
		case <-done:
			return false
		case <-time.After(50 * time.Millisecond): // on a busy machine, it may only seem to be locked
			return true
		}
	})
	if size := m.Database().Size; size == 0 {
		t.Error("the database has no size meanwhile")
	}
	if r, err := m.ask(t.Context(), manage.Member{ID: id}); err != nil || r.Leader != id || r.Database == 0 || r.EtcdVersion == "" {
		t.Errorf("the member itself gets %v, %v", r, err)
	}
	if s, err := asked(); err != nil || s.GetLeader() != id || s.GetDbSize() == 0 {
		t.Errorf("another member gets %v, %v", s, err)
	}
	reader.RUnlock()
	if err := <-defragmented; err != nil {
		t.Error(err)
	}
	if m.backend() != m.etcd.Server.Backend() {
		t.Error("the database is another one afterwards")
	}
}

// If etcd has failed, Close does not wait for goroutines that wait for it.
func TestCloseAfterAFailure(t *testing.T) {
	m, err := Start(t.Context(), Config{Dir: t.TempDir(), UnsafeNoFsync: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { process.Close(m.etcd) })
	stuck := make(chan struct{})
	defer close(stuck)
	m.background.Go(func() { <-stuck })
	m.fatal.Report(errors.New("etcd cannot go on"))
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A leader with a full disk hands over to a healthy member that accepts puts.
func TestRoomiest(t *testing.T) {
	const room = minFreeBytes + recoverBytes
	member := func(id uint64, change func(*manage.Member)) manage.Member {
		m := manage.Member{ID: id, Report: &manage.Report{Leader: 1, DiskFree: room}}
		change(&m)
		return m
	}
	leader := member(1, func(m *manage.Member) { m.Report.DiskFree = 1 << 40 })
	for name, c := range map[string]struct {
		change func(*manage.Member)
		want   bool
	}{
		"it accepts puts":        {func(*manage.Member) {}, true},
		"it has too little room": {func(m *manage.Member) { m.Report.DiskFree-- }, false},
		"it refuses puts":        {func(m *manage.Member) { m.Report.DiskFull = true }, false},
		"it does not vote":       {func(m *manage.Member) { m.Learner = true }, false},
		"it does not answer":     {func(m *manage.Member) { m.Report = nil }, false},
		"its data differs":       {func(m *manage.Member) { m.Corrupt = true }, false},
	} {
		got := roomiest(manage.Cluster{Self: 1, Members: []manage.Member{leader, member(2, c.change)}})
		if (got != nil) != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
