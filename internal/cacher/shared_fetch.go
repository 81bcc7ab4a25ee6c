package cacher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// SharedFetch reads the revision of the store, or its position, for many callers
// with few requests. A caller must not use the answer to a request that was sent before
// it called. Callers that come while a request is in flight therefore share the next one.
//
// One of the callers that share a request sends it. A token grants the right to send. It
// lies in the token channel of the request to be sent next; the caller that receives it
// sends the request.
type SharedFetch[T any] struct {
	fetch func(context.Context) (T, error)
	wait  time.Duration

	mu    sync.Mutex
	next  *sharedRequest[T] // guarded by mu: the request that callers join; nil: none yet
	token bool              // guarded by mu: the token is in a channel or with a sender
}

// NewSharedFetch returns a SharedFetch that sends its requests with fetch. The context of
// a request is that of the caller that sends it for all. Wait limits how long a caller waits.
func NewSharedFetch[T any](fetch func(context.Context) (T, error), wait time.Duration) *SharedFetch[T] {
	return &SharedFetch[T]{fetch: fetch, wait: wait}
}

type sharedRequest[T any] struct {
	token  chan struct{} // capacity 1
	done   chan struct{} // closed when the fields below are set
	answer T
	err    error
}

// errSenderLeft makes the callers that share a request send it again, because the
// context of its sender ended.
var errSenderLeft = errors.New("the caller that sent the request gave up")

// Get returns a value that the store had after the call began. Its errors are those of
// fetch, [object.ErrUnavailable] if the store does not answer in time, and ctx.Err() if ctx ends
// first.
func (f *SharedFetch[T]) Get(ctx context.Context) (T, error) {
	waiting, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	answer, err := f.get(waiting)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return answer, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		err = object.ErrUnavailable
	}
	return answer, fmt.Errorf("read the revision of the store: %w", err)
}

func (f *SharedFetch[T]) get(ctx context.Context) (T, error) {
	var none T
	for {
		r := f.join()
		select {
		case <-r.token:
			f.send(ctx, r)
		case <-r.done:
		case <-ctx.Done():
			return none, ctx.Err() // a token in r.token stays there for the next caller
		}
		if err := ctx.Err(); err != nil {
			return none, err
		}
		if r.err != errSenderLeft {
			return r.answer, r.err
		}
	}
}

// join returns the request that will be sent next.
func (f *SharedFetch[T]) join() *sharedRequest[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &sharedRequest[T]{token: make(chan struct{}, 1), done: make(chan struct{})}
		if !f.token {
			f.token = true
			f.next.token <- struct{}{}
		}
	}
	return f.next
}

// send sends r and passes the token to the request after it.
func (f *SharedFetch[T]) send(ctx context.Context, r *sharedRequest[T]) {
	f.mu.Lock()
	f.next = nil // callers from here on must not share this answer
	f.mu.Unlock()

	r.answer, r.err = f.fetch(ctx)
	if r.err != nil && ctx.Err() != nil {
		r.err = errSenderLeft
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != nil {
		f.next.token <- struct{}{}
	} else {
		f.token = false
	}
	close(r.done)
}
