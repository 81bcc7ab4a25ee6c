package direct

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// build makes the object that a record holds.
func (s *Source) build(r *object.Record) *object.Object {
	o, err := object.Build(s.cfg.Codec, r)
	if err != nil {
		s.opaque.note(s.log, r, err)
	}
	s.cfg.Preencode(o)
	return o
}

// opaqueLog counts the values that the codec could not decode, and logs each once
// per key and revision.
type opaqueLog struct {
	count atomic.Int64

	mu     sync.Mutex
	logged map[object.Key]object.Revision // guarded by mu; bounded by maxLogged
}

// maxLogged bounds what is remembered to log nothing twice. Beyond it a resource is
// full of foreign values, and more lines would not help.
const maxLogged = 1000

func (l *opaqueLog) note(log *slog.Logger, r *object.Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, known := l.logged[r.Key]; last >= r.ModRevision || !known && len(l.logged) >= maxLogged {
		return
	}
	if l.logged == nil {
		l.logged = map[object.Key]object.Revision{}
	}
	l.logged[r.Key] = r.ModRevision
	l.count.Add(1)
	if r.Undecryptable != nil {
		log.Error("a value cannot be decrypted, its object is served without it", "key", r.Key, "revision", r.ModRevision, "error", err)
		return
	}
	log.Warn("a value does not decode and is served as it is", "key", r.Key, "revision", r.ModRevision, "error", err)
}
