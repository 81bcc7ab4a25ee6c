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

// persistedRequests returns the requests that the members' write-ahead logs agree on. It
// copies the logs to the directory.
//
// The validator understands only the comparisons that its own clients make. fanoutd
// pads a short log with transactions whose conditions can never hold; the copies omit
// these transactions. They also omit the history of the resource.
func persistedRequests(lg *zap.Logger, dataDirs []string, dir string) ([]model.EtcdRequest, error) {
	copies := make([]string, len(dataDirs))
	for i, dataDir := range dataDirs {
		state, entries, err := report.ReadWAL(lg, dataDir)
		if err != nil {
			return nil, err
		}
		history := newReplay()
		for _, e := range entries {
			e.Data, err = withoutPadding(e)
			if err == nil && len(e.Data) > 0 {
				e.Data, err = history.withoutHistory(e)
			}
			if err != nil {
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

// withoutPadding returns the data of an entry, or nil if the entry is a request that can
// never have an effect.
func withoutPadding(e *raftpb.Entry) ([]byte, error) {
	if e.GetType() != raftpb.EntryNormal {
		return e.GetData(), nil
	}
	var request pb.InternalRaftRequest
	if err := proto.Unmarshal(e.GetData(), &request); err != nil {
		return nil, err
	}
	if txn := request.GetTxn(); txn != nil && !slices.ContainsFunc(txn.GetFailure(), writesKey) && slices.ContainsFunc(txn.GetCompare(), never) {
		return nil, nil
	}
	return e.GetData(), nil
}

func writesKey(op *pb.RequestOp) bool { return op.GetRequestRange() == nil }

// never reports whether a comparison is false in every state. It is, if it requires a
// number to be negative.
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
