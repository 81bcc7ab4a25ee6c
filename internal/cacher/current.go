package cacher

import (
	"context"
	"errors"
	"sync"

	"github.com/fanoutd/fanoutd/internal/object"
)

// currentRevision learns the store's present revision for many callers with few
// questions. A caller may only use the answer to a question that was asked after
// it called, so those who come while a question is under way share the next one.
//
// One of the callers who share a question asks it. The right to ask is a token:
// it lies in the lead channel of the question that is to be asked next, and
// whoever takes it out asks.
type currentRevision struct {
	fetch func(context.Context) (object.Revision, error)

	mu    sync.Mutex
	next  *question // guarded by mu: the question that callers join; nil: none yet
	token bool      // guarded by mu: the token is in a lead channel or with an asker
}

type question struct {
	lead     chan struct{} // capacity 1: the right to ask
	done     chan struct{} // closed when the fields below are set
	revision object.Revision
	err      error
}

// errAskerLeft tells those who shared a question that it has to be asked again,
// because the caller who asked it gave up.
var errAskerLeft = errors.New("the caller who asked gave up")

// get returns a revision that is not older than any write acknowledged before
// the call.
func (c *currentRevision) get(ctx context.Context) (object.Revision, error) {
	for {
		q := c.join()
		select {
		case <-q.lead:
			c.ask(ctx, q)
		case <-q.done:
		case <-ctx.Done():
			return 0, ctx.Err() // a token left in q.lead waits for who joins q next
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if q.err != errAskerLeft {
			return q.revision, q.err
		}
	}
}

// join returns the question that will be asked next.
func (c *currentRevision) join() *question {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &question{lead: make(chan struct{}, 1), done: make(chan struct{})}
		if !c.token {
			c.token = true
			c.next.lead <- struct{}{}
		}
	}
	return c.next
}

// ask asks q and passes the token on to the question behind it.
func (c *currentRevision) ask(ctx context.Context, q *question) {
	c.mu.Lock()
	c.next = nil // who comes from here on must not share this answer
	c.mu.Unlock()

	q.revision, q.err = c.fetch(ctx)
	if q.err != nil && ctx.Err() != nil {
		q.err = errAskerLeft
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		c.next.lead <- struct{}{}
	} else {
		c.token = false
	}
	close(q.done)
}
