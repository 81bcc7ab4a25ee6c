package store

import (
	"context"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// RequestProgress implements [object.Stream]. Where etcd cannot be relied on when it
// is asked, see [answersProgress], a write into the range of the watch takes the
// place of the question: when its event is there, so is all that was before.
func (s *stream) RequestProgress(ctx context.Context) error {
	if s.collection.store.versions.answerProgress(ctx) {
		return s.collection.store.client.RequestProgress(s.ctx)
	}
	return s.collection.mark(ctx, object.Revision(s.through.Load()))
}

// markInterval is how often a mark is written at most: it makes a revision for
// everybody.
const markInterval = time.Second

// marks are what a collection has written for the sake of progress: the key that is
// the bare prefix, which is no object's.
type marks struct {
	mu      sync.Mutex
	newest  object.Revision // guarded by mu; 0: none was ever written
	written time.Time       // guarded by mu
}

// mark writes a mark if it helps a stream that has got through to a revision: if
// there is something behind that, and no mark is on its way.
func (c *Collection) mark(ctx context.Context, through object.Revision) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, err := c.Revision(call)
	if err != nil || now <= through {
		return err
	}
	c.marks.mu.Lock()
	defer c.marks.mu.Unlock()
	if c.marks.newest > through || time.Since(c.marks.written) < markInterval {
		return nil
	}
	c.marks.written = time.Now()
	resp, err := c.store.client.Put(call, c.prefix, "")
	if err != nil {
		return classify(ctx, err)
	}
	c.marks.newest = object.Revision(resp.Header.GetRevision())
	return nil
}

// isMark reports whether a key is that of the marks of this process.
func (c *Collection) isMark(key []byte) bool {
	c.marks.mu.Lock()
	defer c.marks.mu.Unlock()
	return len(key) == 0 && c.marks.newest > 0
}
