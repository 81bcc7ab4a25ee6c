package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"
	"github.com/fanoutd/fanoutd/test/race"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// watchOptions are the options of a watcher's requests. All of its streams use them.
type watchOptions struct {
	scope      *fanoutv1.Scope
	selection  selection
	previous   bool
	omitValues bool
	latest     bool
	everyEvent bool
	bookmarks  time.Duration
	batchDelay time.Duration
	timeLimit  time.Duration
	deadline   time.Duration // of the call, enforced by the client
}

func (w *watchOptions) request() *fanoutv1.WatchRequest {
	request := &fanoutv1.WatchRequest{
		Resource:         resource,
		Scope:            w.scope,
		LabelSelector:    w.selection.labels,
		FieldSelector:    w.selection.fields,
		PreviousObject:   w.previous,
		OmitValues:       w.omitValues,
		EveryEvent:       w.everyEvent,
		BookmarkInterval: duration(w.bookmarks),
		MaxBatchDelay:    duration(w.batchDelay),
		TimeLimit:        duration(w.timeLimit),
	}
	if w.latest {
		request.Delivery = fanoutv1.Delivery_DELIVERY_LATEST
	}
	return request
}

func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// history returns an empty history for a watcher with these options.
func (w *watchOptions) history(name string) (check.History, error) {
	scope, err := recorded.Scope(w.scope)
	return check.History{
		Watcher:    name,
		Scope:      scope,
		Picks:      w.selection.picks,
		Selects:    w.selection.String(),
		Previous:   w.previous,
		OmitValues: w.omitValues,
		Latest:     w.latest,
		EveryEvent: w.everyEvent,
		Bookmarks:  w.bookmarks,
	}, err
}

// churned is the number of watches that a churn keeps on a stream.
const churned = 200

// otherWatches returns how many watches a stream of the random world has that do not come back. With the
// race detector there are none, except in a soak, because a round takes several times as long with them.
func otherWatches(t *testing.T) int {
	t.Helper()
	if race.Enabled && soakDuration(t) == 0 {
		return 0
	}
	return churned
}

// randomRequest returns a request of a churn, usually for a single key. Many of the requests are equal,
// so their watches share what the server sends.
func randomRequest(rng *rand.Rand) *fanoutv1.WatchRequest {
	some := func(n int) bool { return rng.IntN(n) == 0 }
	if some(2) {
		return (&watchOptions{scope: keyScope(fmt.Sprintf("team-0/svc-0/key-%d", rng.IntN(keys)))}).request()
	}
	w := watchOptions{scope: keyScope(randomKey(rng)), previous: some(4), omitValues: some(4), latest: some(4)}
	if some(10) {
		w.scope = prefixScope(randomKey(rng))
	}
	w.everyEvent = some(8) && !w.latest
	if some(10) {
		w.bookmarks = 200 * time.Millisecond
	}
	return w.request()
}
