package history

import (
	"time"

	"google.golang.org/protobuf/proto"

	storagev1 "github.com/fanoutd/fanoutd/gen/fanout/storage/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Reencryption returns the keys and values that record that the object of a write was encrypted again.
// They are no entry of the history that anyone sees, but they continue the chain of mod revisions.
func Reencryption(of Name, order Order, replaced int64) map[object.Key][]byte {
	change, err := proto.Marshal(&storagev1.HistoryChange{ReplacedRevision: replaced, Writes: 1})
	if err != nil {
		panic(err) // numbers always marshal
	}
	tail := Tail(of.Kind.Reencryption(), time.Now(), len(change)+2*len(of.Key))
	return map[object.Key][]byte{
		RecordKey(of.Key, order, tail): nil,
		IndexKey(of.Key, order, tail):  change,
	}
}
