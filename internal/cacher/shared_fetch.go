package cacher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/work"
)

// SharedFetch reads the revision of the store, or its position, for many callers
// with few requests. A caller must not use the answer to a request that was sent before
// it called. Callers that come while a request is in flight therefore share the next one.
// One of them sends it for all.
type SharedFetch[T any] struct {
	fetch   func(context.Context) (T, error)
	wait    time.Duration
	sending chan struct{} // semaphore of capacity 1: held by the caller that sends a request

	mu   sync.Mutex
	next *sharedRequest[T] // guarded by mu: the request to be sent next
}

// NewSharedFetch returns a SharedFetch that sends its requests with fetch. The context of
// a request is that of the caller that sends it for all. Wait limits how long a caller waits.
func NewSharedFetch[T any](fetch func(context.Context) (T, error), wait time.Duration) *SharedFetch[T] {
	return &SharedFetch[T]{fetch: fetch, wait: wait, sending: make(chan struct{}, 1), next: newSharedRequest[T]()}
}

type sharedRequest[T any] struct {
	done   chan struct{} // closed when the fields below are set
	answer T
	err    error
}

func newSharedRequest[T any]() *sharedRequest[T] { return &sharedRequest[T]{done: make(chan struct{})} }

// errSenderLeft makes the callers that share a request send it again, because the
// context of its sender ended.
var errSenderLeft = errors.New("the caller that sent the request gave up")

// Get returns a value that the store had after the call began. Its errors are those of
// fetch, [object.ErrUnavailable] if the store does not answer in time, and ctx.Err() if ctx ends
// first.
func (f *SharedFetch[T]) Get(ctx context.Context) (T, error) {
	limit := time.NewTimer(f.wait) // a context would cost more than all the rest
	defer limit.Stop()
	answer, err := f.get(ctx, limit.C)
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

func (f *SharedFetch[T]) get(ctx context.Context, limit <-chan time.Time) (none T, err error) {
	deadline := time.Now().Add(f.wait)
	for {
		f.mu.Lock()
		r := f.next
		f.mu.Unlock()
		select {
		case f.sending <- struct{}{}:
			f.send(ctx, deadline, r)
		case <-r.done:
		case <-limit:
			return none, context.DeadlineExceeded
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil {
			return none, err
		}
		if r.err != errSenderLeft {
			return r.answer, r.err
		}
		if !time.Now().Before(deadline) { // select might take the turn to send again
			return none, context.DeadlineExceeded
		}
	}
}

// send sends r, unless another caller has sent it. The caller holds sending; send releases it.
func (f *SharedFetch[T]) send(ctx context.Context, deadline time.Time, r *sharedRequest[T]) {
	defer func() { <-f.sending }()
	work.Gather()
	f.mu.Lock()
	if f.next != r {
		f.mu.Unlock()
		return
	}
	f.next = newSharedRequest[T]() // callers from here on must not share this answer
	f.mu.Unlock()
	defer close(r.done)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	r.err = errSenderLeft // if fetch panics
	if r.answer, r.err = f.fetch(ctx); r.err != nil && ctx.Err() != nil {
		r.err = errSenderLeft
	}
}
