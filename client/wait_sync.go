package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// startGrace is how long those who wait for an informer wait for Run, which another goroutine calls.
const startGrace = 10 * time.Second

var (
	errNotStarted = errors.New("the informer was not started: call Run")
	errRemoved    = errors.New("the handler was removed")
)

// WaitForSync waits until the state is as fresh as the [Consistency] of the informer
// requires, and the handlers were called for all of it, successfully or not. These are the handlers
// that were added before the call. By default, the state then has every write that was acknowledged
// before Run was called, so WaitForSync waits while the servers have lost etcd.
//
// It returns an error if ctx ends first, if Run has ended or was not called within ten seconds, or if
// the client is closed.
func (i *Informer[T]) WaitForSync(ctx context.Context) error {
	return i.waitForAll(ctx, i.synced, func(l *handlerLoop[T]) <-chan struct{} { return l.synced })
}

// WaitForState waits until there is a state and the handlers were called for it. Unlike
// [Informer.WaitForSync], it accepts a stale state from the file of [LastKnownGood].
func (i *Informer[T]) WaitForState(ctx context.Context) error {
	return i.waitForAll(ctx, i.hasState, func(l *handlerLoop[T]) <-chan struct{} { return l.hasState })
}

func (i *Informer[T]) waitForAll(ctx context.Context, reached <-chan struct{}, by func(*handlerLoop[T]) <-chan struct{}) error {
	if err := i.wait(ctx, reached, nil); err != nil {
		return err
	}
	i.mu.Lock()
	handlers := slices.Clone(i.handlers)
	i.mu.Unlock()
	for _, l := range handlers {
		if err := i.wait(ctx, by(l), l.ctx.Done()); err != nil && !errors.Is(err, errRemoved) {
			return err
		}
	}
	return nil
}

// waitForHandler waits like WaitForSync for one handler.
func (i *Informer[T]) waitForHandler(ctx context.Context, l *handlerLoop[T]) error {
	return i.wait(ctx, l.synced, l.ctx.Done())
}

func (i *Informer[T]) wait(ctx context.Context, reached, removed <-chan struct{}) error {
	late := time.NewTimer(startGrace)
	defer late.Stop()
	err := i.await(ctx, i.started, late.C, removed)
	if err == nil {
		err = i.await(ctx, reached, nil, removed)
	}
	if err != nil {
		return fmt.Errorf("wait for the state of %s: %w", i.resource.name, err)
	}
	return nil
}

func (i *Informer[T]) await(ctx context.Context, reached <-chan struct{}, late <-chan time.Time, removed <-chan struct{}) error {
	closed := i.resource.client.open.Done()
	select {
	case <-i.ended:
	case <-closed:
	case <-removed:
	case <-ctx.Done():
		select {
		case <-reached:
			return nil
		default:
			return context.Cause(ctx)
		}
	case <-late:
		return errNotStarted
	case <-reached:
	}
	// Several of them may have happened.
	switch {
	case isClosed(i.ended):
		return fmt.Errorf("the informer has ended: %w", i.err)
	case isClosed(closed):
		return ErrClosed
	case isClosed(removed):
		return errRemoved
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
