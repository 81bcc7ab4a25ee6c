package subscription

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Client is a client of FanoutService that makes all its watches over one Subscribe stream. If the
// stream has ended, the next watch opens another one.
type Client struct {
	fanoutv1.FanoutServiceClient

	mu      sync.Mutex
	streams []*Stream     // guarded by mu: all, the latest last
	opened  chan struct{} // guarded by mu: closed and replaced when a stream was opened
	churns  []*Churn      // guarded by mu
}

// NewClient returns a client. The caller closes it.
func NewClient(c fanoutv1.FanoutServiceClient) *Client {
	return &Client{FanoutServiceClient: c, opened: make(chan struct{})}
}

// Watch implements [fanoutv1.FanoutServiceClient].
func (c *Client) Watch(ctx context.Context, req *fanoutv1.WatchRequest, _ ...grpc.CallOption) (fanoutv1.FanoutService_WatchClient, error) {
	s, err := c.Stream(ctx)
	if err != nil {
		return nil, err
	}
	w, err := s.Watch(ctx, req)
	if err != nil {
		return nil, err // not a nil *Watch
	}
	return w, nil
}

// Stream returns the current stream. It opens one if there is none. The stream may outlast ctx.
func (c *Client) Stream(ctx context.Context) (*Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.streams); n > 0 && c.streams[n-1].Err() == nil {
		return c.streams[n-1], nil
	}
	s, err := Open(ctx, c.FanoutServiceClient)
	if err != nil {
		return nil, err
	}
	c.streams = append(c.streams, s)
	close(c.opened)
	c.opened = make(chan struct{})
	return s, nil
}

// Streams returns all streams that the client has opened.
func (c *Client) Streams() []*Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Stream(nil), c.streams...)
}

// current returns the current stream. If there is none, it waits until another goroutine opens one.
func (c *Client) current(ctx context.Context) (*Stream, error) {
	for ctx.Err() == nil {
		c.mu.Lock()
		opened := c.opened
		var s *Stream
		if n := len(c.streams); n > 0 {
			s = c.streams[n-1]
		}
		c.mu.Unlock()
		if s != nil && s.Err() == nil {
			return s, nil
		}
		select {
		case <-opened:
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

// Close ends all streams and churns.
func (c *Client) Close() {
	c.mu.Lock()
	churns := c.churns
	c.mu.Unlock()
	for _, churn := range churns {
		churn.cancel()
	}
	for _, s := range c.Streams() {
		s.Close() // a churn may wait for it
	}
	for _, churn := range churns {
		churn.Stop()
	}
}
