package failures

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// differ replaces a value by another one of the same length in the database of a server that has ended. Its revision
// stays.
func (s *instance) differ(t *testing.T, value, instead string) {
	t.Helper()
	database, err := bolt.Open(filepath.Join(s.dataDir(), "etcd/member/snap/db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	err = database.Update(func(tx *bolt.Tx) error {
		records := tx.Bucket([]byte("key"))
		found := map[string][]byte{}
		err := records.ForEach(func(revision, record []byte) error {
			if bytes.Contains(record, []byte(value)) {
				found[string(revision)] = bytes.ReplaceAll(record, []byte(value), []byte(instead))
			}
			return nil
		})
		for revision, record := range found {
			err = errors.Join(err, records.Put([]byte(revision), record))
		}
		changed = len(found)
		return err
	})
	if err := errors.Join(err, database.Close()); err != nil || changed != 1 {
		t.Fatalf("changed %d records, %v", changed, err)
	}
}

// startDifferent puts an object, ends the last server, and changes the object in its database.
func startDifferent(t *testing.T, servers []*instance) (different, other *instance) {
	t.Helper()
	different, other = servers[2], servers[0]
	poll.Until(t, "all members vote", func() bool { return other.safe(t) })
	if err := other.put(t, "app/limits", "what all have"); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the server has the object", func() bool { return different.has(t, "app/limits") })
	different.end(t, syscall.SIGTERM)
	different.differ(t, "what all have", "what one has.")
	return different, other
}

// TestServerWithOtherDataThanTheOthers changes the data of one of three servers, as a broken disk may. That server does
// not start, and says which commands bring it back. They do.
func TestServerWithOtherDataThanTheOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	servers, _ := startServers(t)
	different, other := startDifferent(t, servers)
	different.launch(t)
	<-different.exited
	etcd := filepath.Join(different.dataDir(), "etcd")
	for _, want := range []string{"found data inconsistency with peers. The log says which servers have other data", "found different hash values from remote peer", "run fanoutctl cluster replace node-3", "mv " + etcd + " " + etcd + ".old"} {
		if !strings.Contains(different.log.String(), want) {
			t.Errorf("the server does not say %q", want)
		}
	}
	if err := other.put(t, "meanwhile", "1"); err != nil {
		t.Errorf("a write at another server: %v", err)
	}
	different.isReplaced(t, "node-3", other)
	if got := different.state(t)["app/limits"]; got != "what all have" {
		t.Errorf("got %q", got)
	}
}

// TestDataOfAServerDiffersUnnoticed starts a server with other data than the others while it cannot compare them. After
// the next compaction, etcd has an alarm. Then no server answers linearizable reads or accepts writes, until the
// server is replaced.
func TestDataOfAServerDiffersUnnoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	n := startNetwork(t, 3, "")
	different, other := startDifferent(t, n.servers)
	n.refuse(n.around(2)...)
	different.launch(t)
	poll.Until(t, "etcd has started without the others", func() bool {
		return strings.Contains(different.log.String(), "waiting until a majority of the cluster answers")
	})
	n.heal()
	different.serves(t)

	client, err := clientv3.New(clientv3.Config{Endpoints: n.etcds[:1], Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	now, err := client.Get(contextFor(t), "any")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(contextFor(t), now.Header.GetRevision()); err != nil {
		t.Fatal(err)
	}
	// At the revision of a compaction, etcd compares nothing when it starts.
	if err := other.put(t, "app/more", "1"); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "etcd has an alarm", func() bool {
		for _, m := range other.cluster(t).GetMembers() {
			if len(m.GetAlarms()) > 0 {
				return m.GetName() == "node-3"
			}
		}
		return false
	})
	for i, s := range n.servers {
		_, err := s.reads.Get(contextFor(t), &fanoutv1.GetRequest{Resource: resource, Key: "app/limits"})
		if status.Code(err) != codes.Unavailable {
			t.Errorf("server %d: a linearizable read: got %v", i, err)
		}
		if err := s.put(t, "app/limits", "new"); status.Code(err) != codes.Unavailable {
			t.Errorf("server %d: a write: got %v", i, err)
		}
	}
	_, err = fanoutv1.NewClusterServiceClient(other.conn).DisarmAlarms(contextFor(t), &fanoutv1.DisarmAlarmsRequest{})
	if s := status.Convert(err); s.Code() != codes.FailedPrecondition || !strings.Contains(s.Message(), "the data of node-3 differs from that of most members: stop node-3") {
		t.Errorf("clearing the alarm: got %v", err)
	}

	// A third server does not know which of the others is right.
	third := n.servers[1]
	third.end(t, syscall.SIGTERM)
	third.launch(t)
	<-third.exited
	if !strings.Contains(third.log.String(), "Otherwise stop these, start this one again, and replace them") {
		t.Error("the log of a server that agrees with the other one does not say what helps")
	}
	different.end(t, syscall.SIGTERM)
	third.launch(t)
	different.isReplaced(t, "node-3", other)
	third.serves(t)
	if got := different.state(t)["app/limits"]; got != "what all have" {
		t.Errorf("got %q", got)
	}
	if err := other.put(t, "app/limits", "new"); err != nil {
		t.Errorf("a write: %v", err)
	}
}
