package cluster_test

import (
	"slices"
	"strings"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
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
