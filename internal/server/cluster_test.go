package server_test

import (
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server"
)

func (in *instance) cluster() fanoutv1.ClusterServiceClient {
	return fanoutv1.NewClusterServiceClient(in.conn)
}

// receiveSnapshot receives a whole snapshot.
func receiveSnapshot(t *testing.T, of *instance) error {
	t.Helper()
	stream, err := of.cluster().TakeSnapshot(within(t), &fanoutv1.TakeSnapshotRequest{})
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// A snapshot contains everything, so ClusterService needs the right to administer all resources. What
// changes something or reveals data is audited.
func TestClusterNeedsTheRightToEveryResource(t *testing.T) {
	log := openAudit(t)
	etcd := openEtcd(t, 0)
	in := startOver(t, etcd, settings{
		policy: bobMay("admin", config, ""), audit: log.Log, configure: func(c *server.Config) { c.Etcd = etcd },
	})
	ctx := within(t)
	alice, bob := in.as(t, "alice"), in.as(t, "bob")
	if _, err := bob.admin().ListResources(ctx, &fanoutv1.ListResourcesRequest{}); err != nil {
		t.Error(err)
	}
	b := bob.cluster()
	_, get := b.GetCluster(ctx, &fanoutv1.GetClusterRequest{})
	_, remove := b.RemoveMember(ctx, &fanoutv1.RemoveMemberRequest{})
	_, update := b.UpdateMember(ctx, &fanoutv1.UpdateMemberRequest{})
	_, move := b.MoveLeader(ctx, &fanoutv1.MoveLeaderRequest{})
	_, defragment := b.DefragmentMember(ctx, &fanoutv1.DefragmentMemberRequest{})
	_, disarm := b.DisarmAlarms(ctx, &fanoutv1.DisarmAlarmsRequest{})
	for _, err := range []error{receiveSnapshot(t, bob), get, remove, update, move, defragment, disarm} {
		wantRefusal(t, err, denied("admin", "*"))
	}
	if c, err := alice.cluster().GetCluster(ctx, &fanoutv1.GetClusterRequest{}); err != nil || len(c.GetMembers()) != 1 {
		t.Errorf("got %v, %v", c, err)
	}
	if err := receiveSnapshot(t, alice); err != nil {
		t.Error(err)
	}
	if _, err := alice.cluster().RemoveMember(ctx, &fanoutv1.RemoveMemberRequest{Member: "node-9"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a single server: got %v", err)
	}
	in.stop(ctx)
	const method = "fanout.v1.ClusterService/"
	lines := log.lines(t)
	want := []line{
		{"msg": "denied", "method": method + "GetCluster", "identity": "bob", "authentication": "jwt", "code": "PermissionDenied", "reason": "PERMISSION_DENIED"},
		{"msg": "admin", "method": method + "TakeSnapshot", "identity": "alice", "authentication": "jwt", "code": "OK"},
		{"msg": "admin", "method": method + "RemoveMember", "identity": "alice", "authentication": "jwt", "member": "node-9", "code": "FailedPrecondition", "reason": "NO_CLUSTER"},
	}
	if diff := cmp.Diff(want, []line{lines[0], lines[len(lines)-2], lines[len(lines)-1]}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Without an embedded etcd there are no members, and the error says what to use.
func TestClusterNeedsAnEmbeddedEtcd(t *testing.T) {
	in := start(t, settings{})
	_, err := in.cluster().GetCluster(within(t), &fanoutv1.GetClusterRequest{})
	if s := status.Convert(err); s.Code() != codes.FailedPrecondition || s.Message() != "the server uses an external etcd: manage its members with etcdctl" {
		t.Errorf("got %v, want FAILED_PRECONDITION", err)
	}
}
