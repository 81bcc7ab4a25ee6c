package history

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	storagev1 "github.com/fanoutd/fanoutd/gen/fanout/storage/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Change is who writes, when and why.
type Change struct {
	Author  string // empty: anonymous
	Message string
	Time    time.Time
}

// Recorder makes the records of the writes of a resource.
type Recorder struct {
	store Store
	ttl   bool

	mu sync.Mutex
	// recorded has mod revisions of keys whose writes are in the history, or left out of it. They are those of the
	// epoch: in a restored etcd, another program's write may get the same revision. Guarded by mu; at most
	// maxRecorded entries.
	recorded map[object.Key]object.Revision
	epoch    object.Epoch
	written  int64 // records; guarded by mu
}

// maxRecorded limits the keys that need no read before their next write. They take a few MiB.
const maxRecorded = 32_768

// NewRecorder returns a recorder. With ttl, it records objects with a time to live, too.
func NewRecorder(store Store, ttl bool) *Recorder {
	return &Recorder{store: store, ttl: ttl, recorded: map[object.Key]object.Revision{}}
}

// room is what a write needs besides values: keys, labels, comparisons.
const room = 4 << 10

// Prepare sets the records of operations, which all have Seen. Read returns the present object of a
// key, or nil. It is called for an object that is not in the history and is about to be replaced. The epoch is
// for [Recorder.Note].
func (r *Recorder) Prepare(ctx context.Context, ops []object.Op, by Change, read func(context.Context, object.Key) (*object.Record, error)) (object.Epoch, error) {
	changes := make([]*storagev1.HistoryChange, len(ops))
	values := make([]*storagev1.HistoryValue, len(ops))
	kinds := make([]Kind, len(ops))
	recorded := false
	for i := range ops {
		op := &ops[i]
		op.Recording = nil
		kind, ok := r.kindOf(op)
		if !ok {
			continue
		}
		recorded = true
		kinds[i] = kind
		changes[i] = &storagev1.HistoryChange{Author: by.Author, Message: by.Message, ReplacedRevision: int64(op.Seen.ModRevision)}
		values[i] = &storagev1.HistoryValue{}
		if kind == Put || kind == PutTTL {
			values[i].Value = op.Value
		}
	}
	if !recorded {
		return "", nil
	}
	epoch, err := r.store.Epoch(ctx)
	if err != nil {
		return "", err
	}
	if err := r.explain(ctx, epoch, ops, kinds, changes); err != nil {
		return "", err
	}
	var writes int32
	for _, c := range changes {
		if c != nil {
			writes++
		}
	}
	if err := r.keepReplaced(ctx, ops, changes, values, read); err != nil {
		return "", err
	}
	for i, c := range changes {
		if c == nil {
			continue
		}
		c.Writes = writes
		encodedChange, err := proto.Marshal(c)
		if err != nil {
			return "", err
		}
		encodedValue, err := proto.Marshal(values[i])
		if err != nil {
			return "", err
		}
		ops[i].Recording = &object.Recording{
			Tail:   Tail(kinds[i], by.Time, len(encodedChange)+len(encodedValue)+2*len(ops[i].Key)),
			Change: encodedChange, Value: encodedValue,
		}
	}
	return epoch, nil
}

// kindOf returns the kind of an operation. It returns false if the operation is not recorded. Explain decides on
// those that may be omitted.
func (r *Recorder) kindOf(op *object.Op) (Kind, bool) {
	seen := op.Seen
	if seen == nil || seen.ModRevision == object.Unseen {
		return 0, false // a check, or a write that cannot succeed yet
	}
	exists := seen.ModRevision != 0
	switch {
	case op.Kind == object.OpDelete:
		return Delete, exists
	case op.Kind != object.OpPut:
		return 0, false
	case op.TTL == 0 && !(op.KeepTTL && seen.Lease != 0):
		return Put, true
	case r.ttl:
		return PutTTL, true
	}
	return Transient, exists
}

// explain finds out whether the objects that are replaced are in the history. It removes the changes that are not
// recorded, because they end an object that the history leaves out.
func (r *Recorder) explain(ctx context.Context, epoch object.Epoch, ops []object.Op, kinds []Kind, changes []*storagev1.HistoryChange) error {
	omitted := func(i int) bool { // if the history leaves out the replaced object
		return ops[i].Seen.Lease != 0 && !r.ttl && kinds[i] != Put
	}
	var unknown []int
	r.mu.Lock()
	if r.epoch != epoch {
		clear(r.recorded)
		r.epoch = epoch
	}
	for i, c := range changes {
		switch {
		case c == nil || c.ReplacedRevision == 0:
		case r.recorded[ops[i].Key] != object.Revision(c.ReplacedRevision):
			unknown = append(unknown, i)
		case omitted(i):
			changes[i] = nil
		}
	}
	r.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	ranges := make([]Range, len(unknown))
	for n, i := range unknown {
		from, end := RecordsOf(ops[i].Key)
		ranges[n] = Range{From: from, End: end, Limit: 1, KeysOnly: true}
	}
	newest, _, err := r.store.Read(ctx, 0, ranges)
	if err != nil {
		return err
	}
	for n, i := range unknown {
		found := newest[n]
		if ops[i].Seen.Lease != 0 && !r.ttl && mayOmitTTL(found) {
			if omitted(i) {
				changes[i] = nil
			}
			continue // an object with a time to live, which is not recorded
		}
		switch {
		case len(found) == 0:
			changes[i].Replaced = storagev1.HistoryChange_REPLACED_BEFORE_HISTORY
		case int64(found[0].CreateRevision) != changes[i].ReplacedRevision:
			changes[i].Replaced = storagev1.HistoryChange_REPLACED_GAP
		}
	}
	return nil
}

// mayOmitTTL reports whether the history of a key with this newest record leaves out writes of objects with a
// time to live. It does not if the record left an object without one.
func mayOmitTTL(newest []object.Record) bool {
	if len(newest) == 0 {
		return true
	}
	name, ok := ParseRecordKey(newest[0].Key)
	exists, ttl := name.Kind.LeavesObject()
	return ok && (!exists || ttl)
}

// keepReplaced adds the values that are replaced and that the history does not have, as far as the
// write has room for them.
func (r *Recorder) keepReplaced(ctx context.Context, ops []object.Op, changes []*storagev1.HistoryChange, values []*storagev1.HistoryValue,
	read func(context.Context, object.Key) (*object.Record, error),
) error {
	free := r.store.MaxWriteBytes() - room
	for i := range ops {
		free -= 2 * len(ops[i].Value)
		if c := changes[i]; c != nil {
			// The transaction names a key in writes, comparisons and reads.
			free -= 8*len(ops[i].Key) + len(c.Author) + len(c.Message) + room/8
		}
	}
	for i, c := range changes {
		if c == nil || c.Replaced == storagev1.HistoryChange_REPLACED_UNSPECIFIED || free <= 0 {
			continue
		}
		o, err := read(ctx, ops[i].Key)
		if err != nil {
			return err
		}
		if o == nil || int64(o.ModRevision) != c.ReplacedRevision || o.Undecryptable != nil || len(o.Value) > free {
			continue // it has changed, so the write will fail, or it cannot be kept
		}
		free -= len(o.Value)
		values[i].Replaced = o.Value
		if values[i].Replaced == nil {
			values[i].Replaced = []byte{}
		}
	}
	return nil
}

// Written returns the number of records that were written.
func (r *Recorder) Written() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written
}

// Note takes note of a write that was applied. Its revision belongs to the epoch in which it was prepared, or to a
// later one: then the revision is forgotten, at the latest when that epoch becomes known.
func (r *Recorder) Note(ops []object.Op, at object.Revision, epoch object.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range ops {
		switch {
		case ops[i].Recording != nil:
			r.written++
		case ops[i].Kind != object.OpPut || ops[i].Seen == nil || ops[i].Seen.Lease == 0:
			continue // a write of an object that the history leaves out is the rest
		}
		if r.epoch != epoch {
			continue
		}
		if ops[i].Kind == object.OpDelete {
			delete(r.recorded, ops[i].Key)
			continue
		}
		if len(r.recorded) >= maxRecorded {
			clear(r.recorded)
		}
		r.recorded[ops[i].Key] = at
	}
}
