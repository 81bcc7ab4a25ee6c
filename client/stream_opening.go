package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
)

// opening opens a stream after another one has failed. The watches wait here until the server has answered, so
// a failed attempt costs the same for one watch and for thousands: one stream, one delay, and one line in the log.
// It wakes only the watches whose callbacks want to know of it.
//
// Opening ends when a stream is answered, when an error may end watches or concerns all of them, and when no watch
// waits any more.
type opening struct {
	pool   *streamPool
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed at the end

	// Guarded by the mutex of the pool.
	avoid   string         // the server that the next attempt avoids
	waiting int            // watches
	stream  *sharedStream  // the one that was answered
	err     error          // why there will be none; set before done is closed
	failed  *failedAttempt // of the next attempt
}

// failedAttempt is an attempt to open a stream. lost is set before done is closed.
type failedAttempt struct {
	done chan struct{}
	lost *lostStream
}

// openTimeout is how long an attempt may take until the request is on its way. Usually gRPC gives up earlier; a
// resolver may not.
const openTimeout = 30 * time.Second

// waitForStream makes a watch wait for the next stream. The caller holds mu, and the watch must call leave.
func (p *streamPool) waitForStream(avoid string) *opening {
	o := p.opening
	if o == nil {
		o = &opening{pool: p, done: make(chan struct{}), failed: &failedAttempt{done: make(chan struct{})}}
		o.ctx, o.cancel = context.WithCancel(p.client.open)
		p.opening = o
		p.running.Go(o.run)
	}
	if o.avoid == "" {
		o.avoid = avoid
	}
	o.waiting++
	return o
}

// Error makes an opening the reason why a watch has no stream yet.
func (o *opening) Error() string { return "a stream is being opened" }

// wait waits for the stream. It returns an error if there is none, and to a watch that wants it the failure of an
// attempt. It also returns the server that the watch avoids from now on.
func (o *opening) wait(ctx context.Context, wantsFailures bool) (avoid string, err error) {
	var failed *failedAttempt
	var attempt chan struct{}
	o.pool.mu.Lock()
	if wantsFailures {
		failed = o.failed
		attempt = failed.done
	}
	o.pool.mu.Unlock()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-o.pool.client.open.Done():
		return "", ErrClosed
	case <-attempt:
		err = failed.lost
	case <-o.done:
	}
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	if err == nil {
		err = o.err
	}
	return o.avoid, err
}

// leave is called when a watch does not wait any more. If it has joined the stream, it must have done so before.
func (o *opening) leave() {
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	if o.waiting--; o.waiting > 0 {
		return
	}
	if s := o.stream; s != nil {
		s.mu.Lock()
		s.leave()
		s.mu.Unlock()
		return
	}
	o.end(errNoWatches)
}

// end makes the watches return from wait. The caller holds mu of the pool.
func (o *opening) end(err error) {
	if o.pool.opening == o {
		o.pool.opening = nil
		o.err = err
		close(o.done)
		if err != nil {
			o.cancel()
		}
	}
}

// run is the goroutine: it makes one attempt after the other, and then reads the stream.
func (o *opening) run() {
	defer o.cancel()
	for o.attempt() {
	}
}

// attempt opens a stream when the pool allows it, and reads the stream to its end. It reports whether another attempt
// must follow.
func (o *opening) attempt() (again bool) {
	p := o.pool
	p.mu.Lock()
	wait := time.Until(p.notBefore)
	p.mu.Unlock()
	if sleep(o.ctx, wait) != nil {
		o.fail(ErrClosed) // unless no watch waits any more
		return false
	}
	p.mu.Lock()
	s := newSharedStream(p, o.avoid, false)
	p.mu.Unlock()
	s.opening, s.active = o, 1 // until the waiting watches have joined
	defer context.AfterFunc(o.ctx, func() { s.cancel(errNoWatches) })()
	late := time.AfterFunc(openTimeout, func() {
		if !s.isAsked() {
			s.cancel(fmt.Errorf("%w: no connection for %v", errSilent, openTimeout))
		}
	})
	defer late.Stop()
	return s.ended(s.serve())
}

// answered gives the stream to the watches that wait. The caller holds mu of the pool.
func (o *opening) answered(s *sharedStream) {
	if o.pool.opening == o {
		o.stream = s
		o.pool.streams = append(o.pool.streams, s)
		o.end(nil)
	}
}

// fail ends the opening with an error for all watches.
func (o *opening) fail(err error) {
	o.pool.mu.Lock()
	defer o.pool.mu.Unlock()
	o.end(err)
}

// attemptFailed notes that an attempt has failed. It reports whether another one must follow.
func (o *opening) attemptFailed(server string, lost *lostStream) (again bool) {
	p := o.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if server != "" {
		o.avoid = server
	}
	if !lost.pooled {
		o.end(lost)
		return false
	}
	if p.opening != o {
		return false // no watch waits
	}
	lost.watches = o.waiting
	lost.logged.Store(true)
	p.client.log.Info("cannot open a stream for watches", "watches", o.waiting, "server", server, "error", lost.err, "retry_in", lost.wait)
	o.failed.lost = lost
	close(o.failed.done)
	o.failed = &failedAttempt{done: make(chan struct{})}
	return true
}

// isTemporary reports whether an error of a stream ends no watch, and says nothing about the credentials. Then the
// delay of the pool is that of all its watches.
func isTemporary(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return !ok || e.Code == codes.Unavailable || e.Code == codes.DeadlineExceeded
}
