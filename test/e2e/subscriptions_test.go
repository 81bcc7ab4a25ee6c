package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"
	"github.com/fanoutd/fanoutd/test/kept"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/subscription"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// overSubscribe returns a client that makes its watches on one Subscribe stream, until the test
// ends. The scenario validates all its streams.
func (w *scenario) overSubscribe(t *testing.T, client fanoutv1.FanoutServiceClient) *subscription.Client {
	t.Helper()
	c := subscription.NewClient(client)
	t.Cleanup(c.Close)
	w.subscriptions = append(w.subscriptions, c)
	return c
}

// pauser stops reading the Subscribe stream of a client again and again, so that all its watches
// fall behind together. It also starts watches with ids that are in use.
type pauser struct {
	client *subscription.Client
	ledger *ledger
	goal   *goal
	rng    *rand.Rand
}

func (p *pauser) run(ctx, writing context.Context) error {
	for writing.Err() == nil {
		if err := p.rest(ctx, 50+p.rng.IntN(300)); err != nil {
			return err
		}
		// If the server is away, this waits until it is back, or until the end.
		s, err := p.client.Stream(writing)
		if err != nil {
			continue
		}
		s.Intrude(&fanoutv1.WatchRequest{Resource: resource})
		s.Pause()
		err = p.rest(ctx, p.rng.IntN(2*smallWindow))
		s.Resume()
		if err != nil {
			return err
		}
	}
	return nil
}

// rest waits for n changes.
func (p *pauser) rest(ctx context.Context, n int) error {
	return p.ledger.wait(ctx, p.ledger.len()+n)
}

// validateStreams ends the Subscribe streams of clients whose watches have no selectors and have
// been stopped, and validates everything that they have received.
func validateStreams(t *testing.T, truth *check.Truth, clients []*subscription.Client) {
	t.Helper()
	ctx := poll.Context(t)
	for i, client := range clients {
		for j, s := range client.Streams() {
			if err := s.Finish(ctx); err != nil {
				t.Errorf("the end of a Subscribe stream after its last watch: %v", err)
			}
			recording, err := s.Recording(fmt.Sprintf("subscription %d.%d", i, j), func(r *fanoutv1.WatchRequest) (*check.History, error) {
				return recorded.History("", r)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := check.ValidateSubscription(recording, truth); err != nil {
				t.Errorf("%.2000s", err.Error())
				dir := kept.Dir(t)
				write(t, dir, "truth.txt", truth.Print)
				write(t, dir, fileName(recording.Subscriber), recording.Print)
			}
		}
	}
}

// validateSubscriptions ends the Subscribe streams, and validates everything that they have
// received. It counts events of interest.
func (w *scenario) validateSubscriptions(t *testing.T, truth *check.Truth, seen map[string]int) {
	t.Helper()
	begun, streams, wrong := time.Now(), 0, 0
	ctx := poll.Context(t)
	for _, churn := range w.churns {
		if err := churn.Begun(ctx); err != nil {
			t.Error(err)
		}
		churn.Stop()
		t.Logf("%d watches were started that do not come back", churn.Started())
	}
	for i, client := range w.subscriptions {
		all := client.Streams()
		if n := len(all); n > 0 && all[n-1].Err() == nil && !t.Failed() {
			if err := all[n-1].Finish(ctx); err != nil {
				t.Errorf("the end of a Subscribe stream after its last watch: %v", err)
			}
		}
		for j, s := range all {
			streams++
			name := fmt.Sprintf("subscription %d.%d", i, j)
			recording, err := s.Recording(name, interestOf)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for k := range recording.Starts {
				recording.Starts[k].Late = recording.Starts[k].Late || w.uncached()
			}
			countSubscription(recording, seen)
			err = check.ValidateSubscription(recording, truth)
			if err == nil {
				continue
			}
			if wrong++; wrong <= 3 {
				t.Errorf("%.2000s", err.Error())
			}
			dir := kept.Dir(t)
			write(t, dir, "truth.txt", truth.Print)
			write(t, dir, fileName(name), recording.Print)
		}
	}
	t.Logf("validated %d Subscribe streams in %v", streams, time.Since(begun).Round(time.Millisecond))
}

// interestOf returns what a watch of the randomized test asked for.
func interestOf(request *fanoutv1.WatchRequest) (*check.History, error) {
	all := append([]selection{{}}, selections...)
	i := slices.IndexFunc(all, func(s selection) bool {
		return s.labels == request.GetLabelSelector() && s.fields == request.GetFieldSelector()
	})
	if i < 0 {
		return nil, errors.New("the selectors are unknown")
	}
	w := watchOptions{
		scope: request.GetScope(), selection: all[i], previous: request.GetPreviousObject(), omitValues: request.GetOmitValues(),
		latest:     request.GetDelivery() == fanoutv1.Delivery_DELIVERY_LATEST,
		everyEvent: request.GetEveryEvent(), bookmarks: request.GetBookmarkInterval().AsDuration(),
	}
	h, err := w.history("")
	return &h, err
}

// countSubscription counts events of interest in what a Subscribe stream has received.
func countSubscription(s *check.Subscription, seen map[string]int) {
	ids := map[uint64]bool{}
	for i := range s.Starts {
		seen["watches of streams"]++
		if id := s.Starts[i].ID; ids[id] {
			seen["ids used again"]++
		} else {
			ids[id] = true
			seen["ids"]++
		}
	}
	for i := range s.Responses {
		r := &s.Responses[i]
		at := map[int64]int{} // number of entries with events of a revision
		for j := range r.Entries {
			e := &r.Entries[j]
			if e.Refused && e.Status == check.StatusIDInUse {
				seen["refusals of ids in use"]++
			}
			if len(e.IDs) > 1 && e.Message != nil {
				seen["shared entries"]++
			}
			if e.Message == nil {
				continue
			}
			revisions := map[int64]bool{}
			for k := range e.Message.Events {
				revisions[int64(e.Message.Events[k].Revision)] = true
			}
			for revision := range revisions {
				at[revision]++
			}
		}
		for _, n := range at {
			if n > 1 {
				seen["revisions of several watches"]++
			}
		}
		if r.More {
			seen["responses with more"]++
		}
	}
}
