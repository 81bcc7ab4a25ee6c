package robustness

import (
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// historyPrefix is where the history of the resource is kept in etcd.
const historyPrefix = "/checked#history/"

// replay applies a log of etcd to find out which transactions were applied: the validator does not know the
// comparisons that keep a history in order.
type replay struct {
	revision int64
	wrote    bool             // the present request has written
	modified map[string]int64 // mod revisions of keys
	records  []string         // the keys of the history, sorted
}

func newReplay() *replay { return &replay{revision: 1, modified: map[string]int64{}} }

// withoutHistory returns the data of an entry as if there was no history. It is nil if the entry has no
// effect.
func (r *replay) withoutHistory(e *raftpb.Entry) ([]byte, error) {
	if e.GetType() != raftpb.EntryNormal {
		return e.GetData(), nil
	}
	var request pb.InternalRaftRequest
	if err := proto.Unmarshal(e.GetData(), &request); err != nil {
		return nil, err
	}
	defer r.end()
	switch {
	case request.GetPut() != nil:
		r.put(request.GetPut())
	case request.GetDeleteRange() != nil:
		r.delete(request.GetDeleteRange())
	case request.GetTxn() != nil:
		txn := request.GetTxn()
		writes := txn.GetSuccess()
		holds := !slices.ContainsFunc(txn.GetCompare(), func(c *pb.Compare) bool { return !r.holds(c) })
		if !holds {
			writes = txn.GetFailure()
		}
		for _, op := range writes {
			switch {
			case op.GetRequestPut() != nil:
				r.put(op.GetRequestPut())
			case op.GetRequestDeleteRange() != nil:
				r.delete(op.GetRequestDeleteRange())
			}
		}
		if !slices.ContainsFunc(txn.GetCompare(), ofHistory) {
			break
		}
		if !holds {
			return nil, nil // it only reads
		}
		txn.Compare = slices.DeleteFunc(txn.Compare, ofHistory)
		isRecord := func(op *pb.RequestOp) bool {
			return strings.HasPrefix(string(op.GetRequestPut().GetKey()), historyPrefix) || strings.HasPrefix(string(op.GetRequestRange().GetKey()), historyPrefix)
		}
		txn.Success, txn.Failure = slices.DeleteFunc(txn.Success, isRecord), slices.DeleteFunc(txn.Failure, isRecord)
		return proto.Marshal(&request)
	}
	return e.GetData(), nil
}

// end ends a request. All its writes have one revision.
func (r *replay) end() {
	if r.wrote {
		r.revision++
	}
	r.wrote = false
}

func ofHistory(c *pb.Compare) bool { return strings.HasPrefix(string(c.GetKey()), historyPrefix) }

// holds reports whether a comparison holds.
func (r *replay) holds(c *pb.Compare) bool {
	switch {
	case never(c):
		return false
	case ofHistory(c): // that a range is empty
		i, _ := slices.BinarySearch(r.records, string(c.GetKey()))
		return i == len(r.records) || r.records[i] >= string(c.GetRangeEnd())
	case c.GetTarget() == pb.Compare_MOD && c.GetResult() == pb.Compare_EQUAL:
		return r.modified[string(c.GetKey())] == c.GetModRevision()
	}
	return true
}

func (r *replay) put(p *pb.PutRequest) {
	key := string(p.GetKey())
	if strings.HasPrefix(key, historyPrefix) {
		if i, found := slices.BinarySearch(r.records, key); !found {
			r.records = slices.Insert(r.records, i, key)
		}
	}
	r.wrote = true
	r.modified[key] = r.revision + 1
}

func (r *replay) delete(d *pb.DeleteRangeRequest) {
	if key := string(d.GetKey()); r.modified[key] != 0 {
		r.wrote = true
		delete(r.modified, key)
	}
}
