package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/subscription"
)

// goal is the revision at which watchers finish. It is set when the last write is
// acknowledged.
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

func (g *goal) set(revision object.Revision) {
	g.revision.Store(int64(revision))
	g.announce()
}

// watcher watches, and records what it receives. It comes back after every end of a
// stream, until it reaches the goal.
type watcher struct {
	watchOptions
	name    string
	clients []fanoutv1.FanoutServiceClient // each stream uses a random one

	subscribes bool // its streams are watches of Subscribe streams
	crowded    bool // with so many others that a busy machine delays all of them; silences are not checked

	goal   *goal
	ledger *ledger
	rng    *rand.Rand

	// patience is about how many messages it receives before it leaves. It comes back
	// later, perhaps much later. If patience is 0, it never leaves.
	patience int

	// restChanges is the maximum number of changes that it waits for while it rests.
	restChanges int

	history check.History
	fresh   bool // the last position cannot be resumed
}

func (w *watcher) run(ctx context.Context) error {
	var err error
	if w.history, err = w.watchOptions.history(w.name); err != nil {
		return err
	}
	w.history.Prompt = w.patience == 0
	for !w.finished() {
		if ctx.Err() != nil {
			return context.Cause(ctx) // another actor has failed
		}
		left, err := w.watch(ctx)
		if err != nil {
			return fmt.Errorf("%s: stream %d: %w", w.name, len(w.history.Streams)-1, err)
		}
		if left && w.rng.IntN(3) == 0 {
			if err := w.rest(ctx, 3*w.restChanges); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return nil
}

// finished reports whether the watcher has reached the goal.
func (w *watcher) finished() bool {
	goal := w.goal.revision.Load()
	position, known := w.history.Position()
	return goal > 0 && known && int64(position.Revision) >= goal
}

// rest waits for up to n changes.
func (w *watcher) rest(ctx context.Context, n int) error {
	return w.ledger.wait(ctx, w.ledger.len()+w.rng.IntN(n))
}

// begin chooses where the next stream begins, mostly where the last one ended. After the
// last write it always resumes, to receive what is missing.
func (w *watcher) begin() (*fanoutv1.WatchRequest, check.Stream) {
	request := w.request()
	last, known := w.history.Position()
	known = known && !w.fresh
	n := w.rng.IntN(20)
	closing := w.goal.known.Err() != nil
	if closing {
		// A watcher that already has all events learns its position from a bookmark.
		request.BookmarkInterval = duration(100 * time.Millisecond)
	}
	if known && (n < 16 || closing) {
		request.Begin = &fanoutv1.WatchRequest_After{After: &fanoutv1.Position{Epoch: string(last.Epoch), Revision: int64(last.Revision)}}
		return request, check.Stream{Begin: check.After, Position: last}
	}
	newest := w.ledger.newest()
	asked := check.Stream{Begin: check.FromNothing, NotBefore: newest}
	past, written := w.ledger.recent(w.rng.IntN(200))
	if n%2 == 0 {
		request.Begin = &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}
		asked.Begin = check.FromNow
	}
	switch consistency := w.rng.IntN(8); {
	case !written:
	case consistency == 0:
		request.Consistency = &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_MinRevision{MinRevision: int64(past)}}
		asked.NotBefore = past
	case consistency == 1:
		request.Consistency = &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}
		asked.NotBefore = 0
	case consistency < 4 && asked.Begin == check.FromNothing:
		request.Consistency = &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_ExactRevision{ExactRevision: int64(past)}}
		asked.NotBefore, asked.Exact = 0, past
	}
	return request, asked
}

// watch opens one stream and records it until it ends. It reports whether the watcher
// left.
func (w *watcher) watch(ctx context.Context) (left bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.deadline > 0 {
		// Some watches of the scenario have deadlines.
		ctx, cancel = context.WithTimeout(ctx, w.deadline)
		defer cancel()
	}
	if w.goal.known.Err() == nil {
		// Once the goal is set, reopen the stream: it may need a bookmark to reach the
		// goal, because no more events follow.
		defer context.AfterFunc(w.goal.known, cancel)()
	}

	request, asked := w.begin()
	if !w.crowded {
		asked.Opened = time.Now()
	}
	w.history.Streams = append(w.history.Streams, asked)
	s := &w.history.Streams[len(w.history.Streams)-1]
	defer func() { s.Ended = time.Now() }()
	enough := -1
	if w.patience > 0 && w.goal.known.Err() == nil {
		enough = 1 + w.rng.IntN(2*w.patience)
	}
	stream, err := pick(w.rng, w.clients).Watch(ctx, request)
	if err != nil {
		return false, w.ended(s, err)
	}
	if carried, ok := stream.(*subscription.Watch); ok {
		defer func() { s.Away = append(s.Away, carried.Away()...) }()
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
		m.At = time.Now()
		s.Messages = append(s.Messages, m)
		w.fresh = false
		if w.finished() {
			s.End = "reached the goal"
			return false, nil
		}
		if w.patience > 0 && w.goal.known.Err() == nil && w.rng.IntN(20*w.patience) == 0 {
			// Not reading fills the flow control window of the stream.
			from := time.Now()
			err := w.rest(ctx, w.restChanges)
			s.Away = append(s.Away, check.Span{From: from, To: time.Now()})
			if err != nil {
				return false, w.ended(s, err)
			}
		}
	}
	s.End = fmt.Sprintf("left after %d messages", enough)
	return true, nil
}

// endAtDeadline is the end of a stream whose deadline expired.
const endAtDeadline = "at its deadline"

// ended records the end of a stream, and returns an error if a stream must not end with
// err.
func (w *watcher) ended(s *check.Stream, err error) error {
	s.End = err.Error()
	s.Status = reasonOf(err)
	stopped := w.goal.known.Err() != nil
	switch code := status.Code(err); {
	case stopped && (code == codes.Canceled || errors.Is(err, context.Canceled)):
		s.Status = ""
		return nil
	case w.deadline > 0 && (code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)):
		s.Status = ""
		if !w.subscribes { // the server does not know the deadline
			s.End = endAtDeadline
		}
		return nil
	case errors.Is(err, io.EOF):
		s.Status = check.StatusOK
		if w.timeLimit == 0 {
			return fmt.Errorf("got OK at the end of a stream without a time limit")
		}
		return nil
	case code == codes.OutOfRange && (w.everyEvent || s.Exact > 0):
		// The position cannot be resumed, or the server has no snapshot of that revision.
		// No watcher is entitled to either.
		w.fresh = true
		if s.Exact > 0 {
			s.Status = ""
		}
		return nil
	case code != codes.Unavailable:
		return err
	}
	return nil
}

// watchKinds returns the options of n watchers. Every option and every selector is sometimes
// combined with every kind of scope.
func watchKinds(rng *rand.Rand, n int) []watchOptions {
	scopes := []func() *fanoutv1.Scope{
		wholeResource,
		func() *fanoutv1.Scope { return prefixScope(fmt.Sprintf("team-%d", rng.IntN(teams))) },
		func() *fanoutv1.Scope {
			return prefixScope(fmt.Sprintf("team-%d/svc-%d/", rng.IntN(teams), rng.IntN(services)))
		},
		func() *fanoutv1.Scope { return keyScope(randomKey(rng)) },
		func() *fanoutv1.Scope { return keyScope("never/written") },
	}
	// One of each kind, then random ones.
	order := slices.Concat(selections, make([]selection, len(selections)))
	all := make([]watchOptions, n)
	for i := range all {
		w := watchOptions{scope: scopes[i%len(scopes)](), selection: order[i%len(order)]}
		if i >= 2*len(order) {
			w.selection = pick(rng, order)
		}
		some := func(n int) bool { return rng.IntN(n) == 0 }
		w.previous, w.omitValues, w.latest, w.everyEvent = some(3), some(4), some(3) || i == 0, some(4) // the first one gets many events
		w.everyEvent = w.everyEvent && !w.latest
		if some(2) {
			w.bookmarks = time.Duration(100+rng.IntN(900)) * time.Millisecond
		}
		if some(4) {
			w.batchDelay = time.Duration(1+rng.IntN(200)) * time.Millisecond
		}
		if some(4) {
			w.timeLimit = time.Duration(1000+rng.IntN(4000)) * time.Millisecond
		}
		if some(6) {
			w.deadline = time.Duration(1000+rng.IntN(3000)) * time.Millisecond
		}
		if i%10 == 1 {
			// These receive a final bookmark before their deadline, and no others.
			w.bookmarks, w.timeLimit, w.deadline = 0, 0, time.Duration(2000+rng.IntN(2000))*time.Millisecond
		}
		if i%10 == 5 {
			// A batch delay may be much longer than the bookmark interval.
			w.bookmarks, w.batchDelay, w.timeLimit, w.deadline = 200*time.Millisecond, time.Minute, 0, 0
		}
		all[i] = w
	}
	return all
}
