package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// RequestProgress implements [object.Stream]. Where etcd cannot be relied on when it
// is asked, see [answersProgress], a write into the range of the watch takes the
// place of the question: when its event is there, so is all that was before.
func (s *stream) RequestProgress(ctx context.Context) error {
	if !s.collection.store.versions.answerProgress(ctx) {
		return s.collection.mark(ctx, s.history, object.Revision(s.through.Load()))
	}
	// The client takes no requests while it connects. It finds the gRPC stream by
	// the context of the watch.
	call, cancel := context.WithTimeout(s.ctx, requestTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	err := s.watcher.RequestProgress(call)
	if err != nil && errors.Is(call.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("ask etcd how far a watch is: %w", object.ErrUnavailable)
	}
	return err
}

// requestTimeout is how long the client may take to pass a progress request on.
const requestTimeout = time.Second

// markInterval is how often a mark is written at most: it makes a revision for
// everybody.
const markInterval = time.Second

// marks are what a collection has written for the sake of progress: the key that is
// the bare prefix, which is no object's.
type marks struct {
	mu      sync.Mutex
	history *history        // guarded by mu: to which newest belongs
	newest  object.Revision // guarded by mu; 0: none was written in that history
	written time.Time       // guarded by mu; zero: none was ever written
}

// mark writes a mark if it helps a stream that has got through to a revision: if
// there is something behind that, and no mark of the stream's history is on its way.
func (c *Collection) mark(ctx context.Context, h *history, through object.Revision) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, err := c.Revision(call)
	if err != nil || now <= through {
		return err
	}
	c.marks.mu.Lock()
	defer c.marks.mu.Unlock()
	if c.marks.history != h {
		c.marks.history, c.marks.newest = h, 0
	}
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
	return len(key) == 0 && !c.marks.written.IsZero()
}
