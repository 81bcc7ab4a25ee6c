package cacher

import (
	"log/slog"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// opaqueLog counts the values that the codec could not decode and logs each once
// per key and revision. It belongs to the writer, all but the count.
type opaqueLog struct {
	count   atomic.Int64
	epoch   object.Epoch    // of the store; all of the below is about it
	through object.Revision // what is not newer has been counted
	found   int64           // so many are to be counted when what they are in is complete
	logged  map[object.Key]object.Revision
}

// maxLogged bounds the keys that are logged. Beyond it a resource is full of foreign
// values, and more lines would not help.
const maxLogged = 1000

// begin says that everything is read, perhaps not for the first time: after a
// failure half-way, or because of a mistake.
func (l *opaqueLog) begin(epoch object.Epoch) {
	l.found = 0
	if epoch != l.epoch {
		l.epoch, l.through, l.logged = epoch, 0, nil
	}
}

// settle says that everything up to a revision has been read.
func (l *opaqueLog) settle(through object.Revision) {
	l.count.Add(l.found)
	l.found, l.through = 0, max(l.through, through)
}

// note takes down a value that does not decode.
func (l *opaqueLog) note(log *slog.Logger, r *object.Record, err error) {
	if r.ModRevision <= l.through {
		return
	}
	l.found++
	if last, known := l.logged[r.Key]; last >= r.ModRevision || !known && len(l.logged) >= maxLogged {
		return
	}
	if l.logged == nil {
		l.logged = map[object.Key]object.Revision{}
	}
	l.logged[r.Key] = r.ModRevision
	if r.Undecryptable != nil {
		log.Error("a value cannot be decrypted, its object is served without it", "key", r.Key, "revision", r.ModRevision, "error", err)
		return
	}
	log.Warn("a value does not decode and is served as it is", "key", r.Key, "revision", r.ModRevision, "error", err)
}
