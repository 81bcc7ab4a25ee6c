package e2e

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// TestResumeAtAServerThatMissedTheChanges covers a subscriber that sees an object being
// created while the other server is cut off from etcd. The object is deleted, etcd is
// compacted, and the subscriber resumes at the other server. That server never knew the
// object, so a difference cannot remove it; the subscriber must get a snapshot.
func TestResumeAtAServerThatMissedTheChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	etcdAddress := startEtcd(t)
	etcd := dialEtcd(t, etcdAddress)
	toEtcd := newLink(t, etcdAddress)
	cutOff := startServer(t, "--etcd-endpoints", "http://"+toEtcd.address)
	connected := startServer(t, "--etcd-endpoints", "http://"+etcdAddress)
	history := newEtcdHistory(t, etcd)
	put(t, connected.conn, "stays", []byte("1"))
	put(t, connected.conn, "changes", []byte("1"))

	// One subscriber stopped where the server lost etcd, the other one continued.
	stayed := newRecorder(t, cutOff.conn, wholeResource())
	stayed.open(t, check.FromNothing)
	stayed.until(t, object.Synced)
	moved := newRecorder(t, connected.conn, wholeResource())
	moved.open(t, check.FromNothing)
	moved.until(t, object.Synced)

	toEtcd.cut()
	put(t, connected.conn, "passing", []byte("1"))
	inside := put(t, connected.conn, "changes", []byte("2"))
	moved.reach(t, inside)
	moved.leave()
	last := remove(t, connected.conn, "passing")
	last = max(last, put(t, connected.conn, "changes", []byte("3")))
	if err := history.wait(t.Context(), object.Revision(last)); err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	toEtcd.heal()

	stayed.reach(t, last)
	moved.client = fanoutv1.NewFanoutServiceClient(cutOff.conn)
	moved.resume(t)
	moved.until(t, object.Synced)
	if kind := moved.history.Streams[1].Messages[0].CatchUp; kind != object.Reset {
		t.Errorf("got catch-up %d, want RESET", kind)
	}

	truth, err := history.truth(t.Context(), object.Revision(last))
	if err != nil {
		t.Fatal(err)
	}
	if truth.Gaps, err = loggedGaps(cutOff.output(t)); err != nil {
		t.Fatal(err)
	}
	if len(truth.Gaps) != 1 || truth.Gaps[0].After >= object.Revision(inside) || truth.Gaps[0].Until <= object.Revision(inside) {
		t.Errorf("got gaps %v, want one around revision %d", truth.Gaps, inside)
	}
	stayed.validate(t, truth)
	moved.validate(t, truth)
}

// remove deletes an object and returns the revision of the deletion.
func remove(t *testing.T, conn *grpc.ClientConn, key string) int64 {
	t.Helper()
	answer, err := fanoutv1.NewStoreServiceClient(conn).Delete(t.Context(), &fanoutv1.DeleteRequest{
		Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: key},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetRevision()
}
