package cluster_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	ctl "github.com/fanoutd/fanoutd/internal/ctl/cluster"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// state returns the state of the cluster that a server shows.
func (m *machine) state(t *testing.T) *fanoutv1.GetClusterResponse {
	t.Helper()
	s, err := fanoutv1.NewClusterServiceClient(m.conn).GetCluster(poll.Context(t), &fanoutv1.GetClusterRequest{})
	if err != nil {
		t.Fatalf("get the cluster: %v", err)
	}
	return s
}

// becomesSafe waits until a server says that any one member may fail.
func (m *machine) becomesSafe(t *testing.T) *fanoutv1.GetClusterResponse {
	t.Helper()
	var s *fanoutv1.GetClusterResponse
	poll.Until(t, "the cluster is safe", func() bool { s = m.state(t); return s.GetSafe() })
	return s
}

func memberOf(t *testing.T, s *fanoutv1.GetClusterResponse, name string) *fanoutv1.ClusterMember {
	t.Helper()
	i := slices.IndexFunc(s.GetMembers(), func(m *fanoutv1.ClusterMember) bool { return m.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s in %v", name, s)
	}
	return s.GetMembers()[i]
}

// Each server shows all members, and which may fail.
func TestClusterIsShown(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	for name, m := range running {
		s := m.becomesSafe(t)
		if s.GetAnsweredBy() != name || s.GetProblem() != "" || s.GetLeader() == "" || s.GetClusterVersion() == "" || len(s.GetMembers()) != 3 {
			t.Errorf("%s: got %v", name, s)
		}
		for _, one := range s.GetMembers() {
			role := fanoutv1.ClusterMember_ROLE_FOLLOWER
			if one.GetName() == s.GetLeader() {
				role = fanoutv1.ClusterMember_ROLE_LEADER
			}
			if !one.GetHealthy() || !one.GetMayFail() || one.GetRole() != role || one.LagEntries == nil || one.GetDatabaseBytes() == 0 ||
				one.GetQuotaBytes() == 0 || one.GetDiskFreeBytes() == 0 || one.GetEtcdVersion() == "" || one.GetVersion() == "" ||
				len(one.GetPeerUrls()) != 1 || len(one.GetClientUrls()) != 1 || one.GetCertificateExpires() != nil {
				t.Errorf("%s shows %v", name, one)
			}
		}
	}
	running["node-2"].stop(t)
	delete(running, "node-2")
	s := running["node-1"].state(t)
	dead := memberOf(t, s, "node-2")
	if s.GetSafe() || !strings.Contains(s.GetProblem(), "node-2 (no answer") || dead.GetHealthy() || !dead.GetMayFail() ||
		memberOf(t, s, "node-1").GetMayFail() || memberOf(t, s, "node-3").GetMayFail() {
		t.Errorf("with a dead member: got %v", s)
	}
	running["node-2"] = launch(t, configs["node-2"])
	running["node-1"].becomesSafe(t)
	stopAll(t, running)
}

// members returns a client of the cluster at a server, as fanoutctl uses it.
func members(t *testing.T, cfg config.Config) *ctl.Client {
	t.Helper()
	c, err := client.New(cfg.Listen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return ctl.New(c)
}

// refusedBecause checks the reason of an error, and its text.
func refusedBecause(t *testing.T, err error, reason client.Reason, text string) {
	t.Helper()
	if !errors.Is(err, reason) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want reason %s and %q", err, reason, text)
	}
}

// succeeds repeats a change while it is refused because of the state of the cluster. On a busy machine, a member that works may
// not answer in time.
func succeeds(t *testing.T, what string, change func() error) {
	t.Helper()
	poll.Until(t, what, func() bool {
		err := change()
		if err != nil && !errors.Is(err, client.ErrClusterUnsafe) {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

// staysRefused repeats a change that must be refused until it is for a certain reason.
func staysRefused(t *testing.T, text string, change func() error) {
	t.Helper()
	poll.Until(t, "it is refused because "+text, func() bool {
		err := change()
		if !errors.Is(err, client.ErrClusterUnsafe) {
			t.Fatalf("got %v, want %q", err, text)
		}
		return strings.Contains(err.Error(), text)
	})
}

// reached reports whether a server says that a member answers it.
func reached(t *testing.T, cfg config.Config, id uint64) bool {
	t.Helper()
	var more metadata.MD
	ctx := metadata.AppendToOutgoingContext(poll.Context(t), "fanoutd-reach", strconv.FormatUint(id, 16))
	etcd := etcdClientOf(t, cfg)
	if _, err := pb.NewMaintenanceClient(etcd.ActiveConnection()).Status(ctx, &pb.StatusRequest{}, grpc.Header(&more), grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	return len(more.Get("fanoutd-reached")) > 0
}

// A member that works is not replaced. One whose directory is gone is replaced with one command and one
// start. Nothing that needs the only majority is removed.
func TestReplaceADeadServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	at := members(t, configs["node-1"])
	ctx := poll.Context(t)
	running["node-1"].becomesSafe(t)
	_, err := at.Remove(ctx, "node-3", true)
	refusedBecause(t, err, client.ErrClusterUnsafe, "node-3 answers, so it need not be replaced")
	_, err = at.Remove(ctx, "node-4", true)
	refusedBecause(t, err, client.ErrMemberNotFound, "its members are node-1, node-2, node-3")

	id, err := strconv.ParseUint(memberOf(t, running["node-1"].state(t), "node-3").GetId(), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "node-2 says that node-3 answers", func() bool { return reached(t, configs["node-2"], id) })

	running["node-1"].put(t, "app/limits", "1")
	running["node-3"].stop(t)
	if err := os.RemoveAll(configs["node-3"].DataDir); err != nil {
		t.Fatal(err)
	}
	if reached(t, configs["node-2"], id) {
		t.Error("node-2 says that node-3 answers")
	}
	staysRefused(t, "node-3 (no answer", func() error { _, err := at.Remove(ctx, "node-2", false); return err })
	staysRefused(t, "which pauses for a defragmentation", func() error {
		return at.Defragment(ctx, ctl.CatchUpLimit, ctl.Steps{
			Done: func(d ctl.Defragmented) { t.Errorf("%v was defragmented", d) }, Skipped: func(string, string) {}, Waiting: func(string) {},
		})
	})
	var state ctl.State
	succeeds(t, "node-3 is removed", func() (err error) { state, err = at.Remove(ctx, "node-3", true); return err })
	if len(state.Members) != 2 || state.Safe {
		t.Fatalf("got %v", state)
	}
	staysRefused(t, "the number of voting members is 1", func() error { _, err := at.Remove(ctx, "node-2", false); return err })
	running["node-3"] = launch(t, configs["node-3"])
	running["node-3"].says(t, "this server votes")
	if got := running["node-3"].get(t, "app/limits"); got != "1" {
		t.Errorf("node-3 has %q", got)
	}
	state, err = at.AwaitSafe(ctx, func(string) {}, func(error) bool { return false })
	if err != nil || !state.Safe || len(state.Members) != 3 {
		t.Errorf("got %v, %v", state, err)
	}
	stopAll(t, running)
}

// A server that moves to another address is reached there.
func TestUpdateAnAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	ctx := poll.Context(t)
	running["node-3"].becomesSafe(t)
	at := members(t, configs["node-1"])
	_, err := at.Update(ctx, "node-3", configs["node-2"].Cluster.Members["node-2"])
	refusedBecause(t, err, client.ErrClusterUnsafe, "node-2 has the address")
	_, err = at.Update(ctx, "node-3", "http://a/b")
	refusedBecause(t, err, client.ErrInvalidRequest, "address must be a host")

	running["node-3"].stop(t)
	moved := configs["node-3"]
	cluster := *moved.Cluster
	cluster.Members = maps.Clone(cluster.Members)
	cluster.Members["node-3"] = loopback.FreeAddress(t)
	moved.Cluster = &cluster
	url, err := at.Update(ctx, "node-3", cluster.Members["node-3"])
	if err != nil || url != "http://"+cluster.Members["node-3"] {
		t.Fatalf("got %s, %v", url, err)
	}
	running["node-3"] = launch(t, moved)
	running["node-3"].put(t, "app/limits", "1")
	if got := memberOf(t, running["node-1"].becomesSafe(t), "node-3").GetPeerUrls(); !slices.Equal(got, []string{url}) {
		t.Errorf("got %v", got)
	}
	stopAll(t, running)
}

// From any server, an operator moves the leader, defragments all members with the leader last, and takes
// snapshots.
func TestMaintenance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	ctx := poll.Context(t)
	running["node-1"].becomesSafe(t)
	for _, to := range []string{"node-3", "node-1", "node-2"} {
		succeeds(t, "the leader moves to "+to, func() error {
			_, got, err := members(t, configs["node-1"]).MoveLeader(ctx, to)
			if err == nil && got != to {
				t.Errorf("move the leader to %s: got %s", to, got)
			}
			return err
		})
		poll.Until(t, to+" leads", func() bool { return running["node-3"].state(t).GetLeader() == to })
	}
	var leader string
	var order []string
	poll.Until(t, "all members are defragmented", func() bool {
		leader, order = running["node-2"].becomesSafe(t).GetLeader(), nil
		err := members(t, configs["node-2"]).Defragment(ctx, ctl.CatchUpLimit, ctl.Steps{Done: func(d ctl.Defragmented) {
			if d.Bytes == 0 || d.BytesBefore < d.Bytes {
				t.Errorf("got %+v", d)
			}
			order = append(order, d.Member)
		}, Skipped: func(string, string) {}, Waiting: func(string) {}})
		if err != nil && !errors.Is(err, client.ErrClusterUnsafe) {
			t.Fatal(err)
		}
		return err == nil && len(order) == 3
	})
	if order[2] != leader {
		t.Errorf("got order %v, and %s has led", order, leader)
	}
	revision := running["node-1"].put(t, "app/limits", "1")
	for name := range running {
		path := filepath.Join(t.TempDir(), "backup.db")
		var s ctl.Snapshot
		succeeds(t, name+" sends a snapshot", func() (err error) {
			s, err = members(t, configs[name]).Snapshot(ctx, path, false, func(int64, int64) {})
			return err
		})
		info, statErr := os.Stat(path)
		if statErr != nil || s.Member != name || s.Revision < revision || info.Mode().Perm() != 0o600 || info.Size() != s.Bytes {
			t.Errorf("%s: got %+v, %v", name, s, statErr)
		}
	}
	stopAll(t, running)
}

// A single server shows its member and takes snapshots, and says that it has no others.
func TestASingleServerIsShown(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	cfg := testConfig(t)
	conn, stop := start(t, cfg)
	put(t, conn, "app/limits", "1")
	ctx, at := poll.Context(t), members(t, cfg)
	state, err := at.State(ctx)
	if err != nil || state.Safe || len(state.Members) != 1 || !state.Members[0].Healthy || state.Leader != state.Members[0].Name {
		t.Errorf("got %+v, %v", state, err)
	}
	if s, err := at.Snapshot(ctx, filepath.Join(t.TempDir(), "backup.db"), false, func(int64, int64) {}); err != nil || s.Bytes == 0 {
		t.Errorf("got %+v, %v", s, err)
	}
	_, err = at.Remove(ctx, "node-1", false)
	refusedBecause(t, err, client.ErrNoCluster, "the server has an embedded etcd of its own, without other members")
	_, _, err = at.MoveLeader(ctx, "")
	refusedBecause(t, err, client.ErrNoCluster, "without other members")
	stop()
}

// A server without a majority cannot know whether its data is the newest. It says so, and sends a snapshot only if that is
// asked for.
func TestSnapshotWithoutAMajority(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	ctx := poll.Context(t)
	revision := running["node-1"].put(t, "app/limits", "1")
	running["node-1"].becomesSafe(t)
	for _, name := range []string{"node-2", "node-3"} {
		running[name].stop(t)
		delete(running, name)
	}
	at, path := members(t, configs["node-1"]), filepath.Join(t.TempDir(), "backup.db")
	_, err := at.Snapshot(ctx, path, false, func(int64, int64) {})
	refusedBecause(t, err, client.ErrClusterUnsafe, "node-1 has no majority, so it may lack the newest writes")
	s, err := at.Snapshot(ctx, path, true, func(int64, int64) {})
	if err != nil || s.Revision < revision || !strings.Contains(s.Problem, "it may lack the newest writes") {
		t.Errorf("got %+v, %v", s, err)
	}
	if state := running["node-1"].state(t); !state.GetUnconfirmed() || !strings.Contains(state.GetProblem(), "as far as node-1 knows") {
		t.Errorf("got %v", state)
	}
	stopAll(t, running)
}
