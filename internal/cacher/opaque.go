package cacher

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// OpaqueLog logs values that cannot be decoded, each key once: another program may write such a
// value as often as it likes. The zero value is ready to use. All methods are safe for concurrent
// use.
type OpaqueLog struct {
	mu     sync.Mutex
	logged map[object.Key]object.Revision // guarded by mu; the latest revisions; at most maxLoggedKeys
}

// maxLoggedKeys limits the keys that are logged. If more values of a resource do not
// decode, further log lines would not help.
const maxLoggedKeys = 1000

// Note logs that a record does not decode, unless the key has been logged before or too many keys
// have. It returns false if the record has been noted before, or belongs to none of the keys that
// were logged.
func (l *OpaqueLog) Note(log *slog.Logger, r *object.Record, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.logged[r.Key]
	switch {
	case last >= r.ModRevision, !known && len(l.logged) >= maxLoggedKeys:
		return false
	case known:
	case r.Undecryptable != nil:
		log.Error("cannot decrypt value, serving the object without it", "key", r.Key, "revision", r.ModRevision, "error", err)
	default:
		log.Warn("cannot decode value, serving it unchanged", "key", r.Key, "revision", r.ModRevision, "error", err)
	}
	if l.logged == nil {
		l.logged = map[object.Key]object.Revision{}
	}
	l.logged[r.Key] = r.ModRevision
	return true
}

// Forget starts over: every key may be logged again.
func (l *OpaqueLog) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logged = nil
}

// opaqueCount counts the values that do not decode, each key and revision once although the cacher
// may list them several times. Except for total it belongs to the writer.
type opaqueCount struct {
	total   atomic.Int64
	log     OpaqueLog
	epoch   object.Epoch    // of the store; the fields below apply to it
	counted object.Revision // total includes everything up to this revision
	found   int64           // found after counted, and not in total yet
}

// begin prepares for a fill. The fill may read values that are counted already, after
// one that failed half-way or found a mismatch.
func (c *opaqueCount) begin(epoch object.Epoch) {
	c.found = 0
	if epoch != c.epoch {
		c.epoch, c.counted = epoch, 0
		c.log.Forget()
	}
}

// note counts and logs a value that does not decode.
func (c *opaqueCount) note(log *slog.Logger, r *object.Record, err error) {
	if r.ModRevision <= c.counted {
		return
	}
	c.found++
	c.log.Note(log, r, err)
}

// commit adds what was found to the total: everything up to the revision was read.
func (c *opaqueCount) commit(through object.Revision) {
	c.total.Add(c.found)
	c.found, c.counted = 0, max(c.counted, through)
}
