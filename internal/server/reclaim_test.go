package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server"
)

// ReclaimSpace concerns all resources, so it needs the right to administer all of them. It
// is audited.
func TestReclaimSpaceNeedsTheRightToEveryResource(t *testing.T) {
	log := openAudit(t)
	etcd := openEtcd(t, 0)
	in := startOver(t, etcd, settings{
		policy: bobMay("admin", config, ""), audit: log.Log, configure: func(c *server.Config) { c.Space = etcd },
	})
	ctx := within(t)
	alice, bob := in.as(t, "alice"), in.as(t, "bob")
	alice.awaitLoaded(ctx, t)
	if _, err := bob.admin().ListResources(ctx, &fanoutv1.ListResourcesRequest{}); err != nil {
		t.Error(err)
	}
	_, err := bob.admin().ReclaimSpace(ctx, &fanoutv1.ReclaimSpaceRequest{})
	wantRefusal(t, err, denied("admin", "*"))
	at := alice.put(ctx, t, config, "a", "1")
	done, err := alice.admin().ReclaimSpace(ctx, &fanoutv1.ReclaimSpaceRequest{})
	if err != nil || done.GetCompactedRevision() < at || done.GetBytes() == 0 || done.GetQuotaBytes() == 0 || done.GetAcceptsWritesAgain() {
		t.Errorf("got %v, %v, want the history before revision %d discarded", done, err, at)
	}
	in.stop(ctx)
	const method = "fanout.v1.AdminService/ReclaimSpace"
	want := []line{
		{"msg": "denied", "method": method, "identity": "bob", "authentication": "jwt", "code": "PermissionDenied", "reason": "PERMISSION_DENIED"},
		{"msg": "admin", "method": method, "identity": "alice", "authentication": "jwt", "code": "OK"},
	}
	lines := log.lines(t)
	if diff := cmp.Diff(want, []line{lines[0], lines[len(lines)-1]}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReclaimSpaceNeedsAnEmbeddedEtcd(t *testing.T) {
	in := start(t, settings{})
	_, err := in.admin().ReclaimSpace(within(t), &fanoutv1.ReclaimSpaceRequest{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v, want UNIMPLEMENTED", err)
	}
}
