package cacher

import (
	"context"
	"errors"
	"sync"
)

// Current learns a present value of the store, such as its revision, for many
// callers with few questions. A caller may only use the answer to a question that
// was asked after it called, so those who come while a question is under way share
// the next one.
//
// One of the callers who share a question asks it. The right to ask is a token:
// it lies in the lead channel of the question that is to be asked next, and
// whoever takes it out asks.
type Current[T any] struct {
	fetch func(context.Context) (T, error)

	mu    sync.Mutex
	next  *question[T] // guarded by mu: the question that callers join; nil: none yet
	token bool         // guarded by mu: the token is in a lead channel or with an asker
}

// NewCurrent returns a Current that asks with fetch. The context of a question is
// that of the caller who asks it for all.
func NewCurrent[T any](fetch func(context.Context) (T, error)) *Current[T] {
	return &Current[T]{fetch: fetch}
}

type question[T any] struct {
	lead   chan struct{} // capacity 1: the right to ask
	done   chan struct{} // closed when the fields below are set
	answer T
	err    error
}

// errAskerLeft tells those who shared a question that it has to be asked again,
// because the caller who asked it gave up.
var errAskerLeft = errors.New("the caller who asked gave up")

// Get returns a value that the store had after the call began. Its errors are those
// of fetch, and ctx.Err() where the caller gave up.
func (c *Current[T]) Get(ctx context.Context) (T, error) {
	var none T
	for {
		q := c.join()
		select {
		case <-q.lead:
			c.ask(ctx, q)
		case <-q.done:
		case <-ctx.Done():
			return none, ctx.Err() // a token left in q.lead waits for who joins q next
		}
		if err := ctx.Err(); err != nil {
			return none, err
		}
		if q.err != errAskerLeft {
			return q.answer, q.err
		}
	}
}

// join returns the question that will be asked next.
func (c *Current[T]) join() *question[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &question[T]{lead: make(chan struct{}, 1), done: make(chan struct{})}
		if !c.token {
			c.token = true
			c.next.lead <- struct{}{}
		}
	}
	return c.next
}

// ask asks q and passes the token on to the question behind it.
func (c *Current[T]) ask(ctx context.Context, q *question[T]) {
	c.mu.Lock()
	c.next = nil // who comes from here on must not share this answer
	c.mu.Unlock()

	q.answer, q.err = c.fetch(ctx)
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
