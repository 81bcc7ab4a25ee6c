package history

import (
	"google.golang.org/protobuf/proto"

	storagev1 "github.com/fanoutd/fanoutd/gen/fanout/storage/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// EntryKind is the kind of an [Entry].
type EntryKind uint8

// The kinds of entries. Only the first two have records of their own. The others are what the chain of
// records says, and follow the newer record from which it can be seen.
const (
	Written EntryKind = iota + 1 // a put
	Deleted                      // a delete
	Expired                      // the time to live of the object ended
	Gap                          // another program wrote the key
	Earlier                      // the object is older than the history of the key
)

// Entry is one entry of a history.
type Entry struct {
	Kind EntryKind
	Key  object.Key

	// Revision is the revision of the write. Of a gap it is that of the last write of the other program;
	// 0 if that is not known, or was a deletion. An expiry has none.
	Revision object.Revision

	Change
	Replaced object.Revision // the mod revision that the write replaced; 0: the key did not exist
	Writes   int             // the number of keys that the transaction recorded
	HasTTL   bool            // the object has a time to live

	// Value is the stored form of the value, if the reader wants values and the history has it. Lost is
	// why there is none although it was kept.
	Value *[]byte
	Lost  *object.UndecryptableError

	Size int // of the record, in bytes
}

// found is a record that was found, without its contents.
type found struct {
	Name
	at object.Revision // of the write
}

// describe returns the entries of a record, given its contents. Nothing may be missing of them except
// the value.
func (f *found) describe(change *storagev1.HistoryChange, value *object.Record) []Entry {
	_, ttl := f.Kind.LeavesObject()
	e := Entry{
		Kind: Written, Key: f.Key, Revision: f.at, HasTTL: ttl, Size: f.Size,
		Change:   Change{Author: change.GetAuthor(), Message: change.GetMessage(), Time: f.Time},
		Replaced: object.Revision(change.GetReplacedRevision()), Writes: int(change.GetWrites()),
	}
	var replaced *[]byte
	if value != nil {
		e.Lost = value.Undecryptable
		var content storagev1.HistoryValue
		if e.Lost == nil && proto.Unmarshal(value.Value, &content) == nil {
			if f.Kind == Put || f.Kind == PutTTL {
				e.Value = &content.Value
			}
			if content.Replaced != nil {
				replaced = &content.Replaced
			}
		}
	}
	if f.Kind == Delete {
		e.Kind = Deleted
	}
	entries := []Entry{e}
	switch change.GetReplaced() {
	case storagev1.HistoryChange_REPLACED_BEFORE_HISTORY:
		entries = append(entries, Entry{Kind: Earlier, Key: f.Key, Revision: e.Replaced, Value: replaced, Lost: e.Lost})
	case storagev1.HistoryChange_REPLACED_GAP:
		entries = append(entries, Entry{Kind: Gap, Key: f.Key, Revision: e.Replaced, Value: replaced, Lost: e.Lost})
	}
	return entries
}

// between returns what happened to a key after a record and before the next one, which replaced no
// object. It returns false if nothing did.
func (f *found) between() (Entry, bool) {
	switch exists, ttl := f.Kind.LeavesObject(); {
	case f.Kind == Transient, !exists:
		return Entry{}, false
	case ttl:
		return Entry{Kind: Expired, Key: f.Key}, true
	}
	return Entry{Kind: Gap, Key: f.Key}, true
}

// since returns what happened to a key after its newest record, given the present object. It returns
// false if nothing did.
func (f *found) since(present *object.Record, recordsTTL bool) (Entry, bool) {
	exists, ttl := f.Kind.LeavesObject()
	switch {
	case present == nil && !exists, present != nil && present.ModRevision == f.at:
		return Entry{}, false
	case present == nil:
		return f.between()
	case present.Lease != 0 && !recordsTTL && (!exists || ttl):
		return Entry{}, false // not recorded; one that replaces an object without a time to live is
	}
	return Entry{Kind: Gap, Key: f.Key, Revision: present.ModRevision}, true
}
