package robustness

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// persistedRequests returns what the write-ahead logs of the members agree on. The
// directory is for copies of them.
//
// The validator reads no comparisons but those that its own clients make. fanoutd
// makes the log longer, while it is short, with transactions that can never hold;
// these are left out of the copies.
func persistedRequests(lg *zap.Logger, dataDirs []string, dir string) ([]model.EtcdRequest, error) {
	copies := make([]string, len(dataDirs))
	for i, dataDir := range dataDirs {
		state, entries, err := report.ReadWAL(lg, dataDir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Data, err = withoutVain(e); err != nil {
				return nil, fmt.Errorf("entry %d of %s: %w", e.GetIndex(), dataDir, err)
			}
		}
		copies[i] = filepath.Join(dir, fmt.Sprintf("log-%d", i))
		w, err := wal.Create(lg, datadir.ToWALDir(copies[i]), nil)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(w.Save(state, entries), w.Close()); err != nil {
			return nil, err
		}
	}
	return report.PersistedRequests(lg, copies)
}

// withoutVain returns the data of an entry, or nothing if it is a request that has
// no effect whenever it is made.
func withoutVain(e *raftpb.Entry) ([]byte, error) {
	if e.GetType() != raftpb.EntryNormal {
		return e.GetData(), nil
	}
	var request pb.InternalRaftRequest
	if err := proto.Unmarshal(e.GetData(), &request); err != nil {
		return nil, err
	}
	if txn := request.GetTxn(); txn != nil && len(txn.GetFailure()) == 0 && slices.ContainsFunc(txn.GetCompare(), never) {
		return nil, nil
	}
	return e.GetData(), nil
}

// never reports whether a comparison does not hold in any state: none of these
// numbers is negative.
func never(c *pb.Compare) bool {
	number := int64(1)
	switch c.GetTarget() {
	case pb.Compare_CREATE:
		number = c.GetCreateRevision()
	case pb.Compare_MOD:
		number = c.GetModRevision()
	case pb.Compare_VERSION:
		number = c.GetVersion()
	}
	return c.GetResult() == pb.Compare_LESS && number <= 0 || c.GetResult() == pb.Compare_EQUAL && number < 0
}
