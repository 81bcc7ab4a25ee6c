package subscription

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Churn keeps many watches on the current stream of a client, beside those that the test makes, and
// stops and starts some of them all the time. It never opens a stream. A watch that it starts often
// has the id of one that it has just stopped. It begins with a snapshot, from now, or at the last
// position of a watch that was stopped.
//
// The recording of the stream has all these watches, so the checkers check them like the others.
type Churn struct {
	client  *Client
	watches int
	rng     *rand.Rand
	request func(*rand.Rand) *fanoutv1.WatchRequest

	cancel  context.CancelFunc
	running sync.WaitGroup
	begun   chan struct{} // closed when all watches have had a message at one time
	started atomic.Int64

	stream    *Stream
	live      []*Watch                 // on the stream, in no order
	resumable []*fanoutv1.WatchRequest // of watches that were stopped, each after its last position
}

// churnInterval is the time between two changes. A change stops up to churnStops watches, and starts
// as many.
const (
	churnInterval = 20 * time.Millisecond
	churnStops    = 2
)

// Churn starts a churn of this many watches. The function returns what a watch asks for, except where
// it begins. Close ends the churn.
func (c *Client) Churn(watches int, rng *rand.Rand, request func(*rand.Rand) *fanoutv1.WatchRequest) *Churn {
	ctx, cancel := context.WithCancel(context.Background())
	churn := &Churn{client: c, watches: watches, rng: rng, request: request, cancel: cancel, begun: make(chan struct{})}
	churn.running.Go(func() { churn.run(ctx) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.churns = append(c.churns, churn)
	return churn
}

// Begun waits until all watches have begun. Until then, the churn stops none.
func (c *Churn) Begun(ctx context.Context) error {
	select {
	case <-c.begun:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %d watches to begin: %w", c.watches, context.Cause(ctx))
	}
}

// Stop ends the churn and stops its watches. It waits while the stream is paused and has no room for
// requests.
func (c *Churn) Stop() {
	c.cancel()
	c.running.Wait()
}

// Started returns the number of watches that were started.
func (c *Churn) Started() int { return int(c.started.Load()) }

func (c *Churn) run(ctx context.Context) {
	tick := time.NewTicker(churnInterval)
	defer tick.Stop()
	for {
		s, err := c.client.current(ctx)
		if err != nil {
			break
		}
		if s != c.stream {
			c.stopAll() // their stream has ended, but other watches resume at their positions
			c.stream = s
		}
		if c.allHaveBegun() {
			for range min(1+c.rng.IntN(churnStops), len(c.live)) {
				c.stop(c.rng.IntN(len(c.live)))
			}
		}
		for len(c.live) < c.watches && c.start() {
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	c.stopAll()
}

// start starts a watch. It returns false if the stream has ended.
func (c *Churn) start() bool {
	var request *fanoutv1.WatchRequest
	if n := len(c.resumable); n > 0 && c.rng.IntN(2) == 0 {
		i := c.rng.IntN(n)
		request = c.resumable[i]
		c.resumable = slices.Delete(c.resumable, i, i+1)
	} else {
		request = c.request(c.rng)
		if c.rng.IntN(2) == 0 {
			request.Begin = &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}
		}
		if c.rng.IntN(4) > 0 { // the others wait for etcd
			request.Consistency = &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}
		}
	}
	w, err := c.stream.start(c.stream.rpc.Context(), request, false)
	if err != nil {
		return false
	}
	c.live = append(c.live, w)
	c.started.Add(1)
	return true
}

// maxResumable is the number of stopped watches whose positions are kept.
const maxResumable = 50

// stop stops the watch with an index.
func (c *Churn) stop(i int) {
	w, n := c.live[i], len(c.live)
	c.live[i] = c.live[n-1]
	c.live = c.live[:n-1]
	c.stream.stop(w)
	if at := w.position(); at != nil && len(c.resumable) < maxResumable {
		request := proto.CloneOf(w.request)
		request.Begin, request.Consistency = &fanoutv1.WatchRequest_After{After: at}, nil
		c.resumable = append(c.resumable, request)
	}
}

func (c *Churn) stopAll() {
	for len(c.live) > 0 {
		c.stop(0)
	}
}

// allHaveBegun reports whether all watches have had a message, at one time since the churn began. If
// not, it drops the watches that are over, so that others take their places.
func (c *Churn) allHaveBegun() bool {
	select {
	case <-c.begun:
		return true
	default:
	}
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	c.live = slices.DeleteFunc(c.live, func(w *Watch) bool { return w.over })
	if len(c.live) < c.watches || slices.ContainsFunc(c.live, func(w *Watch) bool { return len(w.entries) == 0 }) {
		return false
	}
	close(c.begun)
	return true
}

// position returns the position of the last message, if the watch can resume there.
func (w *Watch) position() *fanoutv1.Position {
	w.stream.mu.Lock()
	defer w.stream.mu.Unlock()
	for i := len(w.entries) - 1; i >= 0; i-- {
		switch m := w.entries[i].GetResponse(); m.GetKind() {
		case fanoutv1.WatchResponse_KIND_SYNCED, fanoutv1.WatchResponse_KIND_LIVE, fanoutv1.WatchResponse_KIND_BOOKMARK, fanoutv1.WatchResponse_KIND_DRAINING:
			return m.GetPosition()
		case fanoutv1.WatchResponse_KIND_UNSPECIFIED: // refused or ended
		default:
			return nil
		}
	}
	return nil
}
