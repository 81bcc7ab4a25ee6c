package history

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	storagev1 "github.com/fanoutd/fanoutd/gen/fanout/storage/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// maxPurged is how many records are removed at once.
const maxPurged = 1000

// Purge removes the history of a key, except the record of its last write, and from that one the value
// that the write has replaced. It returns the number of records that it has removed. If the last write
// has a value that is not the present one, because the object expired or another program wrote the key,
// Purge removes that record, too.
func (r *Reader) Purge(ctx context.Context, key object.Key) (removed int, err error) {
	first, end := RecordsOf(key)
	from, kept := first, false
	var newer []object.Key // encryptions since the last write
	var newest object.Revision
	for more := true; more; {
		read, at, err := r.store.Read(ctx, 0, []Range{{From: from, End: end, Limit: maxPurged, KeysOnly: true}})
		if err != nil {
			return removed, err
		}
		more = len(read[0]) == maxPurged
		var keys []object.Key
		for _, record := range read[0] {
			from = record.Key + "\x00"
			name, ok := ParseRecordKey(record.Key)
			if !ok || name.Key != key {
				continue
			}
			newest = max(newest, record.CreateRevision)
			switch {
			case kept:
				keys = append(keys, name.RecordKey(), name.IndexKey())
			case name.Kind.IsReencryption():
				newer = append(newer, name.RecordKey(), name.IndexKey())
			default:
				kept = true
				present, err := r.store.Present(ctx, at, []object.Key{key})
				if err != nil {
					return removed, err
				}
				hasValue := name.Kind == Put || name.Kind == PutTTL
				if hasValue && (present[0] == nil || present[0].ModRevision != newest) {
					keys = append(append(keys, newer...), name.RecordKey(), name.IndexKey())
				} else if err := r.forgetReplaced(ctx, name); err != nil {
					return removed, err
				}
			}
		}
		if err := r.store.Remove(ctx, keys); err != nil {
			return removed, err
		}
		removed += len(keys) / 2
	}
	return removed, nil
}

// forgetReplaced removes the replaced value from a record.
func (r *Reader) forgetReplaced(ctx context.Context, name Name) error {
	for {
		read, _, err := r.store.Read(ctx, 0, []Range{{From: name.RecordKey()}})
		if err != nil || len(read[0]) == 0 {
			return err
		}
		record := &read[0][0]
		if record.Undecryptable != nil {
			return fmt.Errorf("purge the history of %q: %w", name.Key, record.Undecryptable)
		}
		var value storagev1.HistoryValue
		if err := proto.Unmarshal(record.Value, &value); err != nil || value.Replaced == nil {
			return err
		}
		value.Replaced = nil
		encoded, err := proto.Marshal(&value)
		if err != nil {
			return err
		}
		if done, err := r.store.Replace(ctx, name.RecordKey(), encoded, record.ModRevision); done || err != nil {
			return err
		}
	}
}
