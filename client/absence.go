package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// WithWaitingNotice calls notice when reads, writes and other single requests have waited for
// a server for this long, and again each time the wait has become ten times longer. A server that
// is connected and only slow does not count. failure is why the last attempt has failed, or nil
// if it still waits. Watches report the loss of their server with [OnInterruption].
func WithWaitingNotice(after time.Duration, notice func(failure error)) Option {
	return func(s *settings) { s.waitingAfter, s.waitingNotice = after, notice }
}

// absence measures how long no server has answered the requests of a client.
type absence struct {
	after     time.Duration
	notice    func(failure error)
	connected func() bool

	mu      sync.Mutex
	waiting int // requests, including those that pause between two attempts
	since   time.Time
	next    time.Duration // the length of the absence at which the next notice is due
	failure error         // of the last attempt
	timer   *time.Timer   // nil while nothing waits
	calling bool          // notice runs
	closed  bool
}

// request is a grpc.UnaryClientInterceptor around all attempts of a request.
func (a *absence) request(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	a.mu.Lock()
	if a.waiting++; a.waiting == 1 && !a.closed {
		if a.failure == nil {
			a.since, a.next = time.Now(), a.after
		}
		a.timer = time.AfterFunc(time.Until(a.since.Add(a.next)), a.check)
	}
	a.mu.Unlock()
	err := invoke(ctx, method, req, reply, conn, opts...)
	a.mu.Lock()
	if a.waiting--; a.waiting == 0 {
		a.stop()
	}
	a.mu.Unlock()
	return err
}

// attempt is a grpc.UnaryClientInterceptor around one attempt.
func (a *absence) attempt(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, opts...)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch code := status.Code(err); {
	case code == codes.Unavailable:
		a.failure = err
	case ctx.Err() == nil:
		a.restart()
	}
	return err
}

// check calls notice if it is due, while requests wait.
func (a *absence) check() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.timer == nil || a.calling {
		return
	}
	defer a.schedule() // also if notice ends the goroutine
	switch {
	case a.failure == nil && a.connected():
		a.restart()
	case time.Since(a.since) >= a.next:
		a.next *= 10
		a.notify(errorOf(a.failure))
	}
}

// schedule sets the timer for the next check. a.mu must be held.
func (a *absence) schedule() {
	if a.timer != nil {
		a.timer.Reset(time.Until(a.since.Add(a.next)))
	}
}

// notify calls notice, which may use the client and close it. a.mu must be held.
func (a *absence) notify(failure error) {
	a.calling = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.calling = false
	}()
	a.notice(failure)
}

// restart begins a new absence, because a server has answered. a.mu must be held.
func (a *absence) restart() {
	a.since, a.next, a.failure = time.Now(), a.after, nil
	if a.timer != nil {
		a.timer.Reset(a.next)
	}
}

// stop stops the timer. a.mu must be held.
func (a *absence) stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// close makes sure that no further call of notice begins.
func (a *absence) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.stop()
}

// interceptors returns those of all requests, in the order of their calls.
func (c *Client) interceptors(s *settings) []grpc.UnaryClientInterceptor {
	chain := []grpc.UnaryClientInterceptor{c.closedUnary, c.limit, c.retry, c.turn}
	if s.waitingNotice != nil {
		c.absence = newAbsence(c, s)
		chain = []grpc.UnaryClientInterceptor{c.closedUnary, c.limit, c.absence.request, c.retry, c.absence.attempt, c.turn}
	}
	if s.observer.Request != nil {
		chain = slices.Concat([]grpc.UnaryClientInterceptor{c.observeRequest}, chain, []grpc.UnaryClientInterceptor{c.countAttempt})
	}
	return chain
}

func newAbsence(c *Client, s *settings) *absence {
	return &absence{
		after: s.waitingAfter, notice: s.waitingNotice,
		connected: func() bool { return c.conn.GetState() == connectivity.Ready },
	}
}
