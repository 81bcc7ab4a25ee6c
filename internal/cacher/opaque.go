package cacher

import (
	"log/slog"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// opaqueLog counts the values that the codec could not decode and logs each once
// per key and revision.
type opaqueLog struct {
	count  atomic.Int64
	logged map[object.Key]object.Revision // belongs to the writer; bounded by maxLogged
}

// maxLogged bounds what is remembered to log nothing twice. Beyond it a resource
// is full of foreign values, and more lines would not help.
const maxLogged = 1000

func (l *opaqueLog) note(log *slog.Logger, r *object.Record, err error) {
	if l.logged[r.Key] == r.ModRevision {
		return
	}
	l.count.Add(1)
	if l.logged == nil {
		l.logged = map[object.Key]object.Revision{}
	}
	if len(l.logged) >= maxLogged {
		return
	}
	l.logged[r.Key] = r.ModRevision
	log.Warn("a value does not decode and is served as it is", "key", r.Key, "revision", r.ModRevision, "error", err)
}

// Opaque returns the number of values so far that the codec could not decode.
func (c *Cacher) Opaque() int64 { return c.opaque.count.Load() }
