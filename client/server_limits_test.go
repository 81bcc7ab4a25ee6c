package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
)

// Reads above the rate limit of the server are retried until they succeed. Writes fail,
// and the caller must slow down.
func TestReadsFollowTheRateLimitOfTheServer(t *testing.T) {
	const burst = 5
	r := newClient(t, newServer(t, func(c *config.Config) {
		c.MaxRequestRate, c.MaxRequestBurst = 20, burst
	}).Address()).Resource("config")
	ctx := testContext(t)
	for range 4 * burst {
		if _, err := r.Get(ctx, "a"); !errors.Is(err, client.ErrNotFound) {
			t.Fatal(err)
		}
	}
	refused := 0
	for range 4 * burst {
		_, err := r.Put(ctx, "a", client.Text("1"))
		if e, ok := errors.AsType[*client.Error](err); ok && e.Reason == client.ErrRateLimited && e.RetryAfter > 0 {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Error("the server refused no write, so the test shows nothing")
	}
}

// A watch above the limit retries until another watch has ended.
func TestWatchesAboveTheLimitRetry(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := newClient(t, newServer(t, func(c *config.Config) { c.MaxWatchersPerClient = 1 }).Address()).Resource("config")
	put(t, r, "a", "1")
	first, leave := context.WithCancel(testContext(t))
	defer leave()
	interruptions := 0
	for u, err := range r.Watch(first) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Phase != client.PhaseSynced {
			continue
		}
		second := r.Watch(testContext(t), client.OnInterruption(func(err error) {
			if !errors.Is(err, client.ErrLimitReached) {
				t.Errorf("interrupted by %v", err)
			}
			interruptions++
			leave()
		}))
		for u, err := range second {
			if err != nil {
				t.Fatal(err)
			}
			if u.Phase == client.PhaseSynced {
				break
			}
		}
		break
	}
	if interruptions == 0 {
		t.Error("the second watch was not refused, so the test shows nothing")
	}
}
