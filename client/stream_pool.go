package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// streamPool has the streams that carry the watches of a client. Usually there is one. A watch
// that must avoid the server of that stream opens another, and so do those that come when a
// stream is about to end. After a stream has failed, watches wait for one that is answered.
type streamPool struct {
	client  *Client
	running sync.WaitGroup // the goroutines of the streams

	mu        sync.Mutex
	closed    bool
	streams   []*sharedStream // those that watches can join, oldest first
	failing   bool            // the latest stream has failed, and none was answered since
	opening   *opening        // what watches wait for while failing; nil: no watch waits
	backoff   backoff         // of the next stream, if the latest has failed
	notBefore time.Time       // when the next stream may be opened
	support   support
	proven    bool      // Subscribe has worked
	failures  int       // of Subscribe, since it has worked
	nextTry   time.Time // with supportMissing: when the client may try Subscribe again
}

// support is what the client knows about Subscribe: whether the server, and every proxy on the way
// to it, supports it.
type support uint8

const (
	supportLikely  support = iota // use Subscribe
	supportDoubted                // Subscribe has failed; use Watch, and see whether that works
	supportMissing                // Subscribe has failed, and Watch has worked
)

// tryAgain is the time after which the client finds out again whether a missing Subscribe is
// supported. No watch waits for the answer.
const tryAgain = 5 * time.Minute

func newStreamPool(c *Client) *streamPool {
	return &streamPool{client: c, backoff: backoff{first: 200 * time.Millisecond, most: 5 * time.Second}}
}

// close waits for the goroutines of all streams, but not for ever: a source of tokens may not return.
// The client must have ended their context.
func (p *streamPool) close() {
	p.mu.Lock()
	p.closed = true
	streams := slices.Clone(p.streams)
	if p.opening != nil {
		p.opening.end(ErrClosed)
	}
	p.mu.Unlock()
	for _, s := range streams {
		s.fail(&lostStream{err: ErrClosed})
	}
	ended := make(chan struct{})
	go func() {
		p.running.Wait()
		close(ended)
	}()
	if !endsInTime(ended) {
		p.client.log.Warn("the client is closed, but its source of tokens still runs")
	}
}

// subscribes reports whether watches use Subscribe.
func (p *streamPool) subscribes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.support == supportMissing && !now.Before(p.nextTry) {
		p.nextTry = now.Add(tryAgain)
		p.try()
	}
	return p.support == supportLikely
}

// join adds a watch to a stream, and opens one if there is none for it. While streams fail, it returns the opening
// that the watch must wait for, as an error.
func (p *streamPool) join(ctx context.Context, avoid string, req *fanoutv1.WatchRequest) (*streamWatch, error) {
	w, err := p.add(avoid, req)
	if err != nil {
		return nil, err
	}
	// The watch also ends if its caller is handling an update.
	w.unbind = context.AfterFunc(ctx, func() {
		w.stop()
		w.end(context.Cause(ctx))
	})
	return w, nil
}

func (p *streamPool) add(avoid string, req *fanoutv1.WatchRequest) (*streamWatch, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, ErrClosed
	case p.support != supportLikely:
		return nil, errUnable
	}
	for _, s := range slices.Backward(p.streams) {
		if s.suits(avoid) {
			if w := s.add(req); w != nil {
				return w, nil
			}
		}
	}
	if p.failing {
		return nil, p.waitForStream(avoid)
	}
	s := newSharedStream(p, avoid, false)
	w := s.add(req)
	p.streams = append(p.streams, s)
	p.running.Go(s.run)
	return w, nil
}

// try opens a stream that only finds out whether Subscribe is supported. The caller holds mu.
func (p *streamPool) try() {
	if !p.closed {
		p.running.Go(newSharedStream(p, "", true).run)
	}
}

// remove makes no further watches join a stream.
func (p *streamPool) remove(s *sharedStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams = slices.DeleteFunc(p.streams, func(other *sharedStream) bool { return other == s })
}

// streamFailed notes that a stream has failed after a time. It returns how long the next stream must wait.
func (p *streamPool) streamFailed(err error, d time.Duration, drainedAtOnce bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d >= steadyAfter {
		p.backoff.reset()
	}
	if drainedAtOnce && d >= resumeAfter {
		return 0 // the server spreads its clients
	}
	wait := p.backoff.next()
	if e, ok := errors.AsType[*Error](err); ok {
		wait += min(e.RetryAfter, maxRetryAfter)
	}
	p.failing, p.notBefore = true, time.Now().Add(wait)
	return wait
}

// subscribeFailed notes that Subscribe has failed before the server has answered. It reports whether
// that may be so because the server or a proxy lacks Subscribe. Then watches use Watch, at least
// until that fails as well.
func (p *streamPool) subscribeFailed(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	if !mayLackSubscribe(err, p.proven && p.failures == 1) {
		return false
	}
	if p.support == supportLikely {
		p.client.log.Info("the server or a proxy lacks Subscribe: each watch uses a stream of its own", "error", err)
		p.support = supportDoubted
	}
	return true
}

// mayLackSubscribe reports whether an error with which Subscribe has failed means that Watch might
// work. The errors of a server that knows Subscribe have a reason. If Subscribe has worked the last
// time, most errors only mean that this server is in trouble.
func mayLackSubscribe(err error, hasJustWorked bool) bool {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		return errors.Is(err, errNoHeader) && !hasJustWorked
	case e.Reason != "":
		return false
	}
	switch e.Code {
	case codes.Unimplemented:
		return true
	case codes.NotFound, codes.PermissionDenied, codes.Internal, codes.Unknown:
		return !hasJustWorked
	}
	return false
}

// answered notes that a stream was answered. It makes watches use Subscribe.
func (p *streamPool) answered(s *sharedStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.opening != nil {
		s.opening.answered(s)
	}
	p.support, p.proven, p.failures, p.failing = supportLikely, true, 0, false
}

// headerTimeout returns how long the server has for the header of its response.
func (p *streamPool) headerTimeout() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proven {
		return headerTimeout
	}
	return firstHeaderTimeout
}

// watchWorks notes that Watch works.
func (p *streamPool) watchWorks() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.support == supportDoubted {
		p.support, p.nextTry = supportMissing, time.Now().Add(tryAgain)
	}
}

// watchFailed notes that Watch does not work either.
func (p *streamPool) watchFailed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.support == supportDoubted {
		p.support = supportLikely
	}
}
