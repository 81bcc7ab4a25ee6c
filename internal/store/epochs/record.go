package epochs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

// Key is the only etcd key outside the prefixes of resources that this package
// uses. It has no slash, so no resource prefix covers it. All servers that share an
// etcd share the key.
const Key = "fanoutd-epoch"

// record is the value of [Key]. The store writes it if it is missing, if etcd
// has gone back, and to strengthen it.
//
// The difference between the raft index and the revision reveals a restored snapshot.
// One raft entry creates at most one revision, so the difference never falls while etcd
// lives. "etcdutl snapshot restore" starts a new raft log but keeps the revisions, or
// even raises them. The restored record then demands a larger difference than the new
// log has.
type record struct {
	ID string `json:"id"` // random

	// Offset is a lower bound of raft index minus revision when the record was
	// written.
	Offset int64 `json:"offset"`
}

// minIndex is the raft index that etcd should have when the record is written. The log
// of a new or restored cluster is shorter: it has a few entries per member. The store
// lengthens a short log with entries that create no revision. The margin makes it
// possible to recognize even a backup that was made immediately after the record.
const minIndex = 32

// observation is the state of etcd as one inspection saw it.
type observation struct {
	connections int64 // connections made before the observation
	cluster     uint64
	revision    int64 // at least as new as any write acknowledged before

	record   *record // nil: none
	recorded int64   // revision of the record; 0: there is no record
	denied   error   // why the record could not be read; nil: it was read

	// The raft index and the revision of one member. The index may be newer than the
	// revision. 0: unknown.
	index, indexRevision int64
}

// restored reports whether the raft log is another one than when the record was
// written. A member that has not applied the record yet proves nothing.
func (o *observation) restored() bool {
	return o.record != nil && o.index > 0 && o.indexRevision >= o.recorded &&
		o.index-o.indexRevision < o.record.Offset
}

// tokenTimeout is how long an observation may take before the tracker assumes that its
// token is invalid, see refreshToken.
const tokenTimeout = time.Second

// observe reads the state of etcd. It repeats the reads with a new token if etcd does
// not answer with the current one.
func (e *Tracker) observe(ctx context.Context) (*observation, error) {
	if e.client.Username == "" {
		return e.read(ctx)
	}
	short, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	o, err := e.read(short)
	if err == nil || short.Err() == nil {
		return o, err
	}
	if err := e.refreshToken(ctx); err != nil {
		return nil, err
	}
	return e.read(ctx)
}

// refreshToken makes the client request a new token, which it does for every new gRPC stream.
// By default, etcd's tokens become valid at a raft index. After a restore, an old token
// may have an index that the new log has not reached. etcd does not refuse such a token
// but waits for the index.
func (e *Tracker) refreshToken(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := etcdserverpb.NewWatchClient(e.client.ActiveConnection()).Watch(ctx)
	return err
}

// read reads the raft index before the revision, so that the index cannot be the newer
// of the two.
func (e *Tracker) read(ctx context.Context) (*observation, error) {
	o := &observation{connections: e.connections.count.Load()}
	member, err := e.client.Status(ctx, "")
	switch {
	case err == nil:
		// A starting member first replays its own log. It has done so once it has a
		// leader.
		if member.Leader != 0 {
			o.index, o.indexRevision = int64(member.RaftIndex), member.Header.GetRevision()
		}
	case !mayNotKnow(err):
		return nil, err
	}
	resp, err := e.client.Get(ctx, Key)
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		o.denied = err
		resp, err = e.client.Get(ctx, e.readableKey, clientv3.WithCountOnly())
	}
	if err != nil {
		return nil, err
	}
	o.cluster, o.revision = resp.Header.GetClusterId(), resp.Header.GetRevision()
	if o.denied == nil && len(resp.Kvs) > 0 {
		kv := resp.Kvs[0]
		o.recorded, o.record = kv.ModRevision, &record{}
		if err := json.Unmarshal(kv.Value, o.record); err != nil || o.record.ID == "" {
			e.log.Warn("the epoch record is damaged and will be replaced", "key", Key, "value", string(kv.Value))
			o.record = nil
		}
	}
	return o, nil
}

// mayNotKnow reports whether an error means that the client cannot get the status of a member.
func mayNotKnow(err error) bool {
	e, ok := errors.AsType[rpctypes.EtcdError](err)
	return ok && (e.Code() == codes.Unimplemented || e.Code() == codes.PermissionDenied)
}

// putRecord replaces the observed record with one that has the given id. It changes
// nothing if the observed record is no longer there.
func (e *Tracker) putRecord(ctx context.Context, o *observation, id string) error {
	r := record{ID: id, Offset: o.index - o.revision}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = e.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(Key), "=", o.recorded)).
		Then(clientv3.OpPut(Key, string(value))).
		Commit()
	return err
}

// strengthen lengthens a raft log that was too short for the record, and rewrites the
// record. It runs only after the record was found valid: in a restored log, the added
// entries would replace those whose absence reveals the restore.
func (e *Tracker) strengthen(ctx context.Context, o *observation) error {
	if o.index == 0 || o.record.Offset+o.recorded >= minIndex {
		return nil
	}
	for range minIndex - o.index {
		if err := e.CheckRight(ctx); err != nil {
			return err
		}
	}
	longer, err := e.observe(ctx)
	if err != nil || longer.recorded != o.recorded || longer.index-longer.revision <= o.record.Offset {
		return err
	}
	return e.putRecord(ctx, longer, o.record.ID)
}

// CheckRight returns an error if the client may not write the record. It adds an entry to the raft
// log, but writes nothing: etcd checks the rights to all operations of a transaction before it
// compares anything, and no revision is negative.
func (e *Tracker) CheckRight(ctx context.Context) error {
	never := clientv3.Compare(clientv3.CreateRevision(Key), "<", 0)
	_, err := e.client.Txn(ctx).If(never).Then(clientv3.OpPut(Key, "")).Commit()
	return err
}
