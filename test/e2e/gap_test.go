package e2e

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// A subscriber that saw an object come while the other server was cut off, and then
// resumes there, after the object has gone and etcd has forgotten all of it, is not
// left with the object: what was only while that server did not look, it cannot tell
// by difference.
func TestResumeWhereTheServerDidNotLook(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	etcdAddress := startEtcd(t)
	etcd := dialEtcd(t, etcdAddress)
	way := newLink(t, etcdAddress)
	blind := startServer(t, "--etcd-endpoints", "http://"+way.address)
	seeing := startServer(t, "--etcd-endpoints", "http://"+etcdAddress)
	chronicle := newChronicle(t, etcd)
	put(t, seeing.conn, "stays", []byte("1"))
	put(t, seeing.conn, "changes", []byte("1"))

	// One that is where the server stopped to look, and one that went on.
	left := newRecorder(t, blind.conn, wholeResource())
	left.open(t, check.FromNothing)
	left.until(t, object.Synced)
	went := newRecorder(t, seeing.conn, wholeResource())
	went.open(t, check.FromNothing)
	went.until(t, object.Synced)

	way.cut()
	put(t, seeing.conn, "passing", []byte("1"))
	inside := put(t, seeing.conn, "changes", []byte("2"))
	went.reach(t, inside)
	went.leave()
	last := remove(t, seeing.conn, "passing")
	last = max(last, put(t, seeing.conn, "changes", []byte("3")))
	if err := chronicle.wait(t.Context(), object.Revision(last)); err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	way.heal()

	left.reach(t, last)
	went.client = fanoutv1.NewFanoutServiceClient(blind.conn)
	went.resume(t)
	went.until(t, object.Synced)
	if kind := went.history.Streams[1].Messages[0].CatchUp; kind != object.Reset {
		t.Errorf("the catch-up is of kind %d, only a RESET leads on from there", kind)
	}

	truth, err := chronicle.truth(t.Context(), object.Revision(last))
	if err != nil {
		t.Fatal(err)
	}
	if truth.Gaps, err = jumps(blind.output(t)); err != nil {
		t.Fatal(err)
	}
	if len(truth.Gaps) != 1 || truth.Gaps[0].After >= object.Revision(inside) || truth.Gaps[0].Until <= object.Revision(inside) {
		t.Errorf("the server crossed %v, should cross what happened around %d", truth.Gaps, inside)
	}
	left.judge(t, truth)
	went.judge(t, truth)
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
