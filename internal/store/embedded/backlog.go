package embedded

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A step looks at so many revisions, and a part has about so many bytes.
const (
	backlogRevisions = 256
	backlogBytes     = 1 << 20
)

// Backlog reads the changes of a range of keys after a revision from the database, in parts. A
// watch of etcd would load all of them at once, and those of each watcher again, into the memory
// of this process. One goroutine at a time uses it.
type Backlog struct {
	member     *Member
	first, end string
	previous   bool
	through    int64 // everything up to here has been read
	last       int64 // the backlog ends here
}

// Backlog returns the changes after a revision of the keys from first on and before end, or nil if
// there are none. Previous adds the record before each change.
//
// A member of several has none: a snapshot of the leader may replace the database while it is read.
func (m *Member) Backlog(first, end string, previous bool, after int64) *Backlog {
	if m.several {
		return nil
	}
	b := &Backlog{member: m, first: first, end: end, previous: previous, through: after, last: m.etcd.Server.KV().Rev()}
	if b.through >= b.last {
		return nil
	}
	return b
}

// Next returns the next part. The last part may be without changes: it then only reports that
// everything has been read. The error is that of a watch of etcd.
func (b *Backlog) Next(ctx context.Context) (*clientv3.WatchResponse, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		events, err := b.read()
		if err != nil {
			return nil, err
		}
		// After a compaction, the part may have gaps.
		if b.through+1 < b.member.etcd.Server.KV().FirstRev() {
			return nil, rpctypes.ErrCompacted
		}
		if b.previous {
			addPrevious(ctx, b.member.etcd.Server.KV(), events)
		}
		if len(events) > 0 {
			b.through = events[len(events)-1].Kv.ModRevision
			return &clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: b.last}, Events: events}, nil
		}
		if b.through = min(b.through+backlogRevisions, b.last); b.through == b.last {
			return &clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: b.last}}, nil
		}
	}
}

// Done reports whether everything up to the revision last has been read.
func (b *Backlog) Done() (last int64, done bool) { return b.last, b.through == b.last }

// read returns the changes of the next revisions.
func (b *Backlog) read() ([]*mvccpb.Event, error) {
	first := mvcc.RevToBytes(mvcc.Revision{Main: b.through + 1}, mvcc.NewRevBytes())
	end := mvcc.RevToBytes(mvcc.Revision{Main: min(b.through+backlogRevisions, b.last) + 1}, mvcc.NewRevBytes())
	tx := b.member.backend().ReadTx()
	tx.RLock()
	defer tx.RUnlock() // the values belong to the transaction
	revisions, values := tx.UnsafeRange(schema.Key, first, end, 0)
	var events []*mvccpb.Event
	bytes := 0
	for i, value := range values {
		if !b.contains(keyOf(value)) {
			continue
		}
		revision := mvcc.BytesToRev(revisions[i]).Main
		if bytes >= backlogBytes && revision != events[len(events)-1].Kv.ModRevision {
			break
		}
		e := &mvccpb.Event{Kv: &mvccpb.KeyValue{}}
		if err := proto.Unmarshal(value, e.Kv); err != nil {
			return nil, err
		}
		if mvcc.IsTombstone(revisions[i]) {
			e.Type = mvccpb.Event_DELETE
			e.Kv.ModRevision = revision // etcd stores only the key of a deletion
		}
		events = append(events, e)
		bytes += len(value)
	}
	return events, nil
}

// contains reports whether the key is in the range.
func (b *Backlog) contains(key []byte) bool {
	return string(key) >= b.first && string(key) < b.end
}

// keyOf returns the key of an encoded [mvccpb.KeyValue], without decoding its value.
func keyOf(encoded []byte) []byte {
	for len(encoded) > 0 {
		number, kind, n := protowire.ConsumeTag(encoded)
		if n < 0 {
			return nil
		}
		encoded = encoded[n:]
		if number == keyField && kind == protowire.BytesType {
			key, _ := protowire.ConsumeBytes(encoded)
			return key
		}
		if n = protowire.ConsumeFieldValue(number, kind, encoded); n < 0 {
			return nil
		}
		encoded = encoded[n:]
	}
	return nil
}

// keyField is the number of the field key of [mvccpb.KeyValue].
const keyField = 1

// addPrevious adds the records before the changes, as a watch of etcd does. A record that etcd
// has compacted is missing.
func addPrevious(ctx context.Context, kv mvcc.KV, events []*mvccpb.Event) {
	for _, e := range events {
		if e.Type == mvccpb.Event_PUT && e.Kv.CreateRevision == e.Kv.ModRevision {
			continue
		}
		r, err := kv.Range(ctx, e.Kv.Key, nil, mvcc.RangeOptions{Rev: e.Kv.ModRevision - 1})
		if err == nil && len(r.KVs) > 0 {
			e.PrevKv = r.KVs[0]
		}
	}
}
