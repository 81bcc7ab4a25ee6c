package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/check"
	"github.com/fanoutd/fanoutd/internal/check/recorded"
	"github.com/fanoutd/fanoutd/internal/object"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// goal is the revision up to which every watcher watches. It is set when the
// last write is acknowledged.
type goal struct {
	revision atomic.Int64
	known    context.Context
	announce context.CancelFunc
}

func newGoal(ctx context.Context) *goal {
	g := &goal{}
	g.known, g.announce = context.WithCancel(ctx)
	return g
}

func (g *goal) set(revision int64) {
	g.revision.Store(revision)
	g.announce()
}

// watcher watches, and records what it receives. Whatever happens to its server
// it comes back, until it has reached the goal.
type watcher struct {
	name   string
	client fanoutv1.FanoutServiceClient
	scope  *fanoutv1.Scope
	goal   *goal
	ledger *ledger
	rng    *rand.Rand

	// patience is about how many messages it receives before it leaves and comes
	// back, perhaps much later. 0: it never leaves.
	patience int

	history  check.History
	position atomic.Int64 // the last revision that it was given
}

func (w *watcher) run(ctx context.Context) error {
	scope, err := scopeOf(w.scope)
	if err != nil {
		return err
	}
	w.history = check.History{Watcher: w.name, Scope: scope}
	for !w.finished() {
		left, err := w.watch(ctx)
		if err != nil {
			return fmt.Errorf("%s: stream %d: %w", w.name, len(w.history.Streams)-1, err)
		}
		if left && w.rng.IntN(3) == 0 {
			if err := w.rest(ctx, 1500); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return nil
}

// finished reports whether the watcher has reached the goal.
func (w *watcher) finished() bool {
	goal := w.goal.revision.Load()
	return goal > 0 && w.position.Load() >= goal
}

// rest does nothing while up to n changes are written.
func (w *watcher) rest(ctx context.Context, n int) error {
	return w.ledger.wait(ctx, w.ledger.len()+w.rng.IntN(n))
}

// begin chooses where the next stream begins: mostly where the last one ended.
func (w *watcher) begin() (*fanoutv1.WatchRequest, check.Stream) {
	request := &fanoutv1.WatchRequest{Resource: resource, Scope: w.scope}
	asked := check.Stream{Begin: check.FromNothing, NotBefore: w.ledger.newest()}
	last, ok := w.history.Position()
	switch n := w.rng.IntN(10); {
	case ok && n < 8:
		request.Begin = &fanoutv1.WatchRequest_After{After: &fanoutv1.Position{Epoch: string(last.Epoch), Revision: int64(last.Revision)}}
		asked = check.Stream{Begin: check.After, Position: last}
	case n == 8:
		request.Begin = &fanoutv1.WatchRequest_FromNow{FromNow: true}
		asked.Begin = check.FromNow
	}
	return request, asked
}

// watch opens one stream and records it until it ends. It reports whether it was
// the watcher that left.
func (w *watcher) watch(ctx context.Context) (left bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Whoever already is where it should get to hears of no more changes.
	stop := context.AfterFunc(w.goal.known, func() {
		if w.finished() {
			cancel()
		}
	})
	defer stop()

	request, asked := w.begin()
	w.history.Streams = append(w.history.Streams, asked)
	s := &w.history.Streams[len(w.history.Streams)-1]
	enough := -1
	if w.patience > 0 {
		enough = 1 + w.rng.IntN(2*w.patience)
	}
	stream, err := w.client.Watch(ctx, request)
	if err != nil {
		return false, w.ended(s, err)
	}
	for len(s.Messages) != enough {
		response, err := stream.Recv()
		if err != nil {
			return false, w.ended(s, err)
		}
		m, err := recorded.Message(response)
		if err != nil {
			return false, err
		}
		s.Messages = append(s.Messages, m)
		w.position.Store(int64(m.Position.Revision))
		if w.finished() {
			s.End = "reached the goal"
			return false, nil
		}
		if w.patience > 0 && w.rng.IntN(20*w.patience) == 0 {
			// Not reading fills the flow control window of this stream.
			if err := w.rest(ctx, 500); err != nil {
				return false, w.ended(s, err)
			}
		}
	}
	s.End = fmt.Sprintf("left after %d messages", enough)
	return true, nil
}

// ended records the end of a stream, and returns an error if a stream must not
// end like that.
func (w *watcher) ended(s *check.Stream, err error) error {
	s.End = err.Error()
	switch {
	case w.finished() && (status.Code(err) == codes.Canceled || errors.Is(err, context.Canceled)):
		return nil
	case status.Code(err) != codes.Unavailable:
		return err
	}
	if n := len(s.Messages); n > 0 && s.Messages[n-1].Kind == object.Draining {
		return drained(err)
	}
	return nil
}
