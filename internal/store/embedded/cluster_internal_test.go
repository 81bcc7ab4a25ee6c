package embedded

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"

	"github.com/fanoutd/fanoutd/test/poll"
)

// unreadable is an etcd whose read of its database fails after the first part. etcd's own loop goes on without end.
type unreadable struct{ pb.MaintenanceServer }

func (unreadable) Snapshot(_ *pb.SnapshotRequest, to pb.Maintenance_SnapshotServer) error {
	err := to.Send(&pb.SnapshotResponse{Blob: []byte("database"), RemainingBytes: 100})
	for err == nil {
		err = to.Send(&pb.SnapshotResponse{RemainingBytes: 100})
	}
	return err
}

// A snapshot ends with an error if etcd cannot read its database.
func TestSnapshotOfADatabaseThatCannotBeRead(t *testing.T) {
	parts := 0
	err := sendSnapshot(poll.Context(t), adapter.MaintenanceServerToMaintenanceClient(unreadable{}), func([]byte, int64) error { parts++; return nil })
	if !errors.Is(err, errUnreadable) || parts != 1 {
		t.Errorf("got %v after %d parts", err, parts)
	}
}

// However a snapshot ends, the database is not held open for it.
func TestSnapshotEndsItsReadOfTheDatabase(t *testing.T) {
	m := startTestMember(t, nil)
	m.putAll(t, 20, 100_000)
	reads := func() int64 {
		db, ok := m.backend().(interface{ OpenReadTxN() int64 })
		if !ok {
			t.Fatal("the database does not count its reads")
		}
		m.backend().ForceCommit() // which counts them
		return db.OpenReadTxN()
	}
	before := reads()
	ctx, cancel := context.WithCancel(poll.Context(t))
	refused := errors.New("refused")
	for name, send := range map[string]func([]byte, int64) error{
		"the caller takes all":    func([]byte, int64) error { return nil },
		"the caller fails":        func([]byte, int64) error { return refused },
		"the request is ended":    func([]byte, int64) error { cancel(); <-ctx.Done(); return nil },
		"it has ended beforehand": func([]byte, int64) error { return nil },
	} {
		err := m.Snapshot(ctx, send)
		if (name == "the caller fails") != errors.Is(err, refused) && ctx.Err() == nil {
			t.Errorf("%s: got %v", name, err)
		}
		poll.Until(t, name+": the read of the database ends", func() bool { return reads() == before })
	}
}
