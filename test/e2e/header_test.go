package e2e

import (
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestWritesAfterTheHeaderAreCovered checks that a watch from now delivers every write
// that begins after the client has the response header.
func TestWritesAfterTheHeaderAreCovered(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	etcd := loopback.FreeAddress(t)
	s := startServer(t, embedded(t, etcd)...)
	var recorders []*recorder
	for i := range 50 {
		key := fmt.Sprintf("key-%d", i%5)
		r := newRecorder(t, s.conn, keyScope(key))
		r.open(t, check.FromNow)
		revision := put(t, s.conn, key, fmt.Append(nil, i))
		r.reach(t, revision)
		m := r.history.Streams[0].Messages
		if last := m[len(m)-1]; len(last.Events) != 1 || int64(last.Events[0].Revision) != revision {
			t.Errorf("watch %d: the write at revision %d was not delivered: %+v", i, revision, m)
		}
		r.leave()
		recorders = append(recorders, r)
	}
	truth := readTruth(t, dialEtcd(t, etcd))
	for _, r := range recorders {
		r.validate(t, truth)
	}
}
